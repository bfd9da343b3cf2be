"""Files of Hugging Face and of checkpoints, with Python's own modules alone. It shares no code with oneflow: what it computes
is the oracle of the tests."""
import array
import itertools
import json
import math
import os
import re
import struct


def read_safetensors(path):
    """{name: (type, shape, bytes)} of a file."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: (t["dtype"], t["shape"], data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]])
            for name, t in header.items()}


def read_model(folder):
    """The same of all files of a folder."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors.update(read_safetensors(os.path.join(folder, name)))
    return tensors


def write_safetensors(path, tensors):
    """`tensors`: as read_safetensors returns them."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def floats(dtype, data):
    """The values of a tensor's bytes."""
    if dtype == "BF16":
        return array.array("f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
    if dtype == "F16":
        return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))
    return array.array("f", data)


def step_folder(checkpoint):
    """The newest step of a folder of checkpoints."""
    return os.path.join(checkpoint, max(name for name in os.listdir(checkpoint) if name.startswith("step-")))


def read_variables(folder):
    """{name: (dims, values)} of a checkpoint's step, the optimizer's states among them."""
    with open(folder + "/manifest.json", encoding="utf-8") as file:
        variables = json.load(file)["variables"]
    read = {}
    for variable in variables:
        dims = variable["dims"]
        values = array.array("f", bytes(4 * math.prod(dims)))
        steps = [math.prod(dims[d + 1:]) for d in range(len(dims))]
        for piece in variable["slices"]:
            with open(f"{folder}/{piece['file']}", "rb") as file:
                file.seek(piece["offset"])
                part = array.array("f", file.read(piece["bytes"]))
            ranges = [range(b, b + n) for b, n in zip(piece["begin"], piece["size"])]
            for x, index in zip(part, itertools.product(*ranges)):
                values[sum(i * s for i, s in zip(index, steps))] = x
        read[variable["name"]] = (dims, values)
    return read


def graph_of_feeds(text):
    """A graph without loss whose variables and tokens are fed; `text` has an op in a line, or over several."""
    lines = []
    for line in re.sub(r"\s*\n\s+|\n(?=\})", " ", text).splitlines():
        name = re.match(r'op \{ name: "([^"]*)"', line)
        if line.startswith("loss:") or (name and re.match(r"(next_)?labels$|loss|mtp\.", name[1])):
            continue
        if 'kind: "variable"' in line:
            line = line.replace('kind: "variable"', 'kind: "input"')
            line = re.sub(r'attr \{ key: "(init|init_value|decay)" value \{ \w+: [^}]* \} \} ', "", line)
        lines.append(line.replace('value { s: "tokens" }', 'value { s: "feed" }'))
    return "\n".join(lines) + "\n"


GPT_NAMES = {"wte.weight": "wte", "wpe.weight": "wpe", "attn.c_attn": "attn.qkv", "attn.c_proj": "attn.proj",
             "mlp.c_fc": "mlp.fc", "mlp.c_proj": "mlp.proj"}
LLAMA_NAMES = {"embed_tokens.weight": "wte", "lm_head.weight": "head.weight", "norm.weight": "norm_f.weight",
               "input_layernorm.weight": "norm_1.weight", "post_attention_layernorm.weight": "norm_2.weight",
               "self_attn.q_norm.weight": "attn.q_norm.weight", "self_attn.k_norm.weight": "attn.k_norm.weight",
               "self_attn.sinks": "attn.sinks", "self_attn.o_proj.bias": "attn.proj.bias", "mlp.router.bias": "mlp.router.offset",
               "self_attn.o_proj.weight": "attn.proj.weight", "mlp.gate_proj.weight": "mlp.gate.weight",
               "mlp.up_proj.weight": "mlp.up.weight", "mlp.down_proj.weight": "mlp.proj.weight"}
NORMS_AFTER = {"post_attention_layernorm.weight": "attn.norm.weight", "post_feedforward_layernorm.weight": "mlp.norm.weight"}
GEMMA_NAMES = {**LLAMA_NAMES, **NORMS_AFTER, "pre_feedforward_layernorm.weight": "norm_2.weight"}
OLMO_NAMES = {**LLAMA_NAMES, **NORMS_AFTER, "self_attn.q_norm.weight": "attn.q_norm_all.weight",
              "self_attn.k_norm.weight": "attn.k_norm_all.weight"}
NEXT_NAMES = {"enorm.weight": "mtp.norm_label.weight", "hnorm.weight": "mtp.norm_stream.weight",
              "shared_head.norm.weight": "mtp.norm_f.weight"}
NAMES = {"gemma2": GEMMA_NAMES, "gemma3_text": GEMMA_NAMES, "olmo2": OLMO_NAMES, "olmo3": OLMO_NAMES}


def locate(config, name, index):
    """Where element `index` of tensor `name` of a file is: (variable, its element)."""
    name = name.removeprefix("model.").removeprefix("transformer.")
    if config["model_type"] == "gpt2":
        return locate_in_gpt2(name), index
    block, rest = re.fullmatch(r"(?:layers\.(\d+)\.)?(.*)", name).groups()
    at = "" if block is None else f"h.{block}."
    if block == str(config.get("num_hidden_layers")):
        at = "mtp."
        if rest == "eh_proj.weight":
            column = index % (2 * config["hidden_size"])
            half = "of_label" if column < config["hidden_size"] else "of_stream"
            return f"mtp.{half}.weight", column % config["hidden_size"] * config["hidden_size"] + index // (2 * config["hidden_size"])
        if rest in NEXT_NAMES:
            return NEXT_NAMES[rest], index
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    groups = config["num_key_value_heads"]
    d = config.get("head_dim") or hidden // heads
    if rest.startswith("mlp.experts.") or rest in ("mlp.gate.weight", "mlp.router.weight"):
        return locate_in_experts(config, at, rest, index)
    packed = re.fullmatch(r"self_attn\.([qkv])_proj\.(weight|bias)", rest)
    if packed is None:
        names = NAMES.get(config["model_type"], LLAMA_NAMES)
        if not rest.endswith("_proj.weight"):
            return at + names[rest], index
        shared = "shared_experts." in rest
        inner = config["n_shared_experts"] * config["moe_intermediate_size"] if shared else config["intermediate_size"]
        rest = rest.replace("shared_experts.", "")
        outs, ins = {"self_attn.o_proj.weight": (hidden, heads * d),
                     "mlp.down_proj.weight": (hidden, inner)}.get(rest, (inner, hidden))
        return at + names[rest].replace("mlp.", "mlp.shared." if shared else "mlp."), index % ins * outs + index // ins
    part, kind = packed.groups()
    r = heads // groups
    row, column = divmod(index, hidden) if kind == "weight" else (index, 0)
    head, element = divmod(row, d)
    group, member = divmod(head, r) if part == "q" else (head, r if part == "k" else r + 1)
    return f"{at}attn.qkv.{kind}", ((column * groups + group) * (r + 2) + member) * d + element


def locate_in_experts(config, at, rest, index):
    """The same for tensors as transformers has them in memory, where those of all experts are one."""
    hidden = config["hidden_size"]
    inner = config.get("moe_intermediate_size", config["intermediate_size"])
    if rest in ("mlp.gate.weight", "mlp.router.weight"):
        experts = next(config[key] for key in ("num_local_experts", "num_experts", "n_routed_experts") if key in config)
        return at + "mlp.router.weight", index % hidden * experts + index // hidden
    if config["model_type"] == "gpt_oss":
        return locate_in_gpt_oss(at, rest, index)
    if rest == "mlp.experts.down_proj":
        expert, row, column = index // (hidden * inner), index // inner % hidden, index % inner
        return at + "mlp.experts.proj.weight", (expert * inner + column) * hidden + row
    if rest == "mlp.experts.gate_up_proj":
        expert, row, column = index // (2 * inner * hidden), index // hidden % (2 * inner), index % hidden
        name = "gate" if row < inner else "up"
        return f"{at}mlp.experts.{name}.weight", (expert * hidden + column) * inner + row % inner
    raise KeyError(rest)


def locate_in_gpt_oss(at, rest, index):
    """Its experts are stored as ours, but that gate and up alternate."""
    name, kind = re.fullmatch(r"mlp\.experts\.(gate_up|down)_proj(_bias)?", rest).groups()
    kind = "bias" if kind else "weight"
    if name == "down":
        return f"{at}mlp.experts.proj.{kind}", index
    return f"{at}mlp.experts.{('gate', 'up')[index % 2]}.{kind}", index // 2


def locate_in_gpt2(name):
    for theirs, ours in GPT_NAMES.items():
        name = name.replace(theirs, ours)
    return name
