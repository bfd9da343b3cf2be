"""Fine-tuning by transformers and peft, on the small models of torch_models. It needs torch, transformers, peft and xxhash."""
import json
import os
import shutil

import peft
import torch
import transformers
import xxhash

from . import adapter_runs, files, oneflow_runs, torch_models

RANK, ALPHA = 4, 6
TOKENS = 1000
# Parts of the names of what is trained, as torch has them and as --train_only does.
TRAINED = {"gpt2": ("ln_1", "h.*.ln_1"), "llama": ("input_layernorm", "model.layers.*.input_layernorm.*")}


def bits(seed, name, index):
    """64 random bits (docs/checkpoints.md)."""
    stream, low = xxhash.xxh3_64_intdigest(name.encode(), 0), 0xFFFFFFFF
    a, b, c, d, k0, k1 = index & low, index >> 32, stream & low, stream >> 32, seed & low, seed >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k0, q & low, p >> 32 ^ d ^ k1, p & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return a | b << 32


def batch(tokens, step, sequence):
    """The samples of a step, in the order of oneflow."""
    rows = []
    for sample in range(adapter_runs.BATCH):
        start = bits(adapter_runs.SEED, "token_source", step << 32 | sample) * (len(tokens) - sequence) >> 64
        rows.append(tokens[start:start + sequence + 1])
    return torch.tensor(rows)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def make_tokens():
    generator = torch.Generator().manual_seed(2)
    return torch.randint(0, torch_models.VOCAB, (TOKENS,), generator=generator).tolist()


def make_adapter(family, base, folder, **settings):
    """An adapter of which no tensor is zero."""
    torch.manual_seed(3)
    targets = ["c_attn", "c_proj", "c_fc"] if family == "gpt2" else [
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, fan_in_fan_out=family == "gpt2",
                             init_lora_weights=False, lora_dropout=0.0, task_type="CAUSAL_LM", **settings)
    peft.get_peft_model(load(base), config).save_pretrained(folder)


def train(model, tokens, sequence):
    """The losses of the steps; `model` has its parameters after them."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=adapter_runs.LEARNING_RATE, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.0)
    losses = []
    for step in range(adapter_runs.STEPS):
        rows = batch(tokens, step, sequence)
        logits = model(rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens[:torch_models.SEQUENCE]])).logits[0]


def check_same_logits(what, ours, theirs, tolerance):
    worst = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    if not worst <= tolerance:
        raise AssertionError(f"{what}: logits differ by {worst:.1e}")
    return worst


def check_loss(model, tokens, loss):
    """The loss that oneflow evaluates is that of the model: windows of SEQUENCE tokens, one after the other."""
    labels, total = 0, 0.0
    for begin in range(0, len(tokens) - 1, torch_models.SEQUENCE):
        window = torch.tensor([tokens[begin:begin + torch_models.SEQUENCE + 1]])
        with torch.no_grad():
            total += torch.nn.functional.cross_entropy(model(window[:, :-1]).logits[0], window[0, 1:], reduction="sum").item()
        labels += window.shape[1] - 1
    if not abs(loss - total / labels) <= 1e-5 * loss:
        raise AssertionError(f"eval: loss {loss}, and of torch {total / labels}")


def check_lora(oneflow, family, folder, **settings):
    """Returns a line."""
    base, adapter = folder + "/original", folder + "/adapter"
    make_adapter(family, base, adapter, **settings)
    tokens = make_tokens()
    model = peft.PeftModel.from_pretrained(load(base), adapter, is_trainable=True)
    expected = {"tokens": tokens, "losses": train(model, tokens, torch_models.SEQUENCE)}
    worst = adapter_runs.check_adapter(oneflow, base, adapter, expected)
    model.save_pretrained(folder + "/theirs")
    norm = adapter_runs.check_tensors(adapter_runs.tensors(folder + "/exported/adapter_model.safetensors"),
                                      adapter_runs.tensors(folder + "/theirs/adapter_model.safetensors"))
    loaded = peft.PeftModel.from_pretrained(load(base), folder + "/exported")
    ours = logits(loaded, tokens)
    check_same_logits("the exported adapter and the one that torch trained", ours, logits(model, tokens), 1e-3)
    merged = check_same_logits("the merged model", logits(load(folder + "/merged"), tokens), ours, 1e-5)
    check_loss(loaded, tokens, adapter_runs.evaluate(oneflow, "tuned"))
    oneflow.run("import", "--from=exported", "--out=again")  # the adapter names its base
    oneflow.run("export", "--checkpoint=again", "--out=reexported")
    if files.read_model(oneflow.path("reexported")) != files.read_model(oneflow.path("exported")):
        raise AssertionError("import of the exported adapter: other tensors")
    return (f"LoRA: losses of {adapter_runs.STEPS} steps within {worst:.1e}, adapters within {norm:.1e}, peft loads them, "
            f"merged logits within {merged:.1e}")


def check_training(oneflow, family, folder, trained=None):
    """All weights, or those with `trained` in their names, begun with the folder itself. Returns a line."""
    base, tokens = folder + "/original", make_tokens()
    model = load(base)
    flags, out = [], "tuned_all"
    if trained is not None:
        flags, out = ["--train_only=" + trained[1]], "tuned_some"
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trained[0] in name)
    losses = train(model, tokens, torch_models.SEQUENCE)
    worst = adapter_runs.check_losses(adapter_runs.train(oneflow, tokens, out, "--init_from=" + base, *flags), losses)
    oneflow.run("export", "--checkpoint=" + out, "--dtype=f32", "--out=exported_" + out)
    theirs = folder + "/theirs_" + out
    model.save_pretrained(theirs)
    norm = adapter_runs.check_tensors(adapter_runs.tensors(folder + "/exported_" + out), adapter_runs.tensors(theirs))
    what = "full" if trained is None else "--train_only=" + trained[1]
    return f"{what}: losses within {worst:.1e}, weights within {norm:.1e}"


def check_family(oneflow, family, folder):
    """Returns lines."""
    torch_models.make_folder(family, folder + "/original")
    lines = [check_lora(oneflow, family, folder)]
    if family == "llama":
        more = folder + "/more"
        shutil.copytree(folder + "/original", more + "/original")
        settings = {"use_rslora": True, "modules_to_save": ["lm_head", "input_layernorm"]}
        line = check_lora(oneflow_runs.Oneflow(oneflow.program, more), family, more, **settings)
        lines.append(f"with lm_head and input_layernorm as they are, rsLoRA: {line}")
    if family in TRAINED:
        lines.append(check_training(oneflow, family, folder))
        lines.append(check_training(oneflow, family, folder, TRAINED[family]))
    return lines


def write_fixture(base, folder):
    """A small adapter of a stored model, and what torch and peft make of it."""
    shutil.rmtree(folder, ignore_errors=True)
    with open(base + "/config.json", encoding="utf-8") as file:
        family = json.load(file)["model_type"]
    make_adapter(family, base, folder)
    tokens = make_tokens()
    model = peft.PeftModel.from_pretrained(load(base), folder, is_trainable=True)
    losses = train(model, tokens, torch_models.SEQUENCE)
    model.save_pretrained(folder + "/tuned")
    for name in "README.md", "tuned/README.md", "tuned/adapter_config.json":
        if os.path.exists(f"{folder}/{name}"):
            os.remove(f"{folder}/{name}")
    path = folder + "/adapter_config.json"
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["base_model_name_or_path"] = None  # it is a path of the machine that wrote it
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    with open(folder + "/expected.json", "w", encoding="utf-8") as file:
        json.dump({"versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                                "peft": peft.__version__}, "tokens": tokens, "losses": losses}, file, separators=(",", ":"))
        file.write("\n")
