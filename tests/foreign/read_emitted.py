"""Reads what `oneflow compile --emit` writes, with the parsers of Python alone: a second reader, which shares no code with
the one of the project. `read(folder)` gives the facts that the files say, with the defaults of their systems."""
import argparse
import ast
import json
import os
import re
import shlex
import tomllib

import yaml


def shell_words(path):
    """(the words of the script's last command, its variables): arrays and ${X:-default} are expanded."""
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    values, command = {}, []
    lines = iter(text.split("\n"))
    expand = lambda word: re.sub(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)",
                                 lambda m: str(values.get(m[1] or m[3], m[2] or "")), word)
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        array = re.match(r"(\w+)=\(", line)
        if array:
            body = []
            for part in lines:
                if part.strip() == ")":
                    break
                body.append(part)
            values[array[1]] = [expand(word) for word in shlex.split("\n".join(body))]
            continue
        line = line.removeprefix("export ")
        scalar = re.match(r"(\w+)=(\S*)$", line)
        if scalar:
            values[scalar[1]] = expand(scalar[2])
            continue
        command = []
        for word in shlex.split(line):
            whole = re.fullmatch(r"\$\{(\w+)\[@\]\}", word)
            command += values[whole[1]] if whole else [expand(word)]
    return command, values


def flag_values(words):
    """{"--flag": the words behind it}."""
    values, name = {}, None
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            name = name.replace("-", "_").lstrip("_")
            values[name] = [value] if value else []
        elif name:
            values[name].append(word)
    return values


def layout_slices(layout):
    """Blocks of each slice of Megatron's --pipeline-model-parallel-layout."""
    layout = layout.replace(",", "")
    layout = re.sub(r"\(([^)]+)\)\*(\d+)", lambda m: m[1] * int(m[2]), layout)
    layout = re.sub(r"(.)\*(\d+)", lambda m: m[1] * int(m[2]), layout)
    parts = layout.split("|")
    assert layout[0] == "E" and layout[-1] == "L" and layout.count("E") == layout.count("L") == 1, layout
    assert set(layout) <= set("Et|L"), layout
    return [part.count("t") for part in parts]


def megatron_slices(layers, pipe, chunks, first, last, layout):
    if layout:
        slices = layout_slices(layout)
        assert len(slices) % pipe == 0 and sum(slices) == layers, slices
        return slices
    if first is not None:
        between, odd = divmod(layers - first - last, pipe - 2)
        assert not odd
        return [first] + [between] * (pipe - 2) + [last]
    assert layers % (pipe * chunks) == 0, (layers, pipe, chunks)
    return [layers // (pipe * chunks)] * (pipe * chunks)


MEGATRON_INTEGERS = """num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups kv-channels seq-length
max-position-embeddings vocab-size make-vocab-size-divisible-by micro-batch-size global-batch-size train-iters lr-warmup-iters
lr-decay-iters seed tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size expert-model-parallel-size
num-virtual-stages-per-pipeline-rank decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers recompute-num-layers
cpu-offloading-num-layers num-distributed-optimizer-instances ddp-bucket-size num-experts moe-ffn-hidden-size moe-router-topk
moe-shared-expert-intermediate-size rotary-base eval-iters eval-interval log-interval""".split()
MEGATRON_NUMBERS = """lr min-lr adam-beta1 adam-beta2 adam-eps weight-decay clip-grad norm-epsilon hidden-dropout attention-dropout
rotary-percent rope-scaling-factor optimizer-offload-fraction moe-aux-loss-coeff moe-z-loss-coeff moe-expert-capacity-factor
moe-router-bias-update-rate""".split()
MEGATRON_WORDS = """optimizer lr-decay-style pipeline-model-parallel-layout recompute-granularity recompute-method cp-comm-type
data-parallel-sharding-strategy ckpt-format position-embedding-type normalization window-size moe-router-load-balancing-type
moe-router-score-function moe-token-dispatcher-type moe-token-drop-policy moe-router-dtype tokenizer-type split attention-backend""".split()
MEGATRON_SWITCHES = """sequence-parallel use-tp-pp-dp-mapping use-distributed-optimizer use-megatron-fsdp overlap-grad-reduce
overlap-param-gather use-precision-aware-optimizer optimizer-cpu-offload bf16 fp32-residual-connection group-query-attention swiglu
disable-bias-linear add-qkv-bias qk-layernorm use-rope-scaling untie-embeddings-and-output-weights mock-data reset-position-ids
reset-attention-mask eod-mask-loss moe-router-pre-softmax moe-router-enable-expert-bias moe-grouped-gemm
no-gradient-accumulation-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion""".split()


def megatron_arguments(words):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for names, kind in ((MEGATRON_INTEGERS, int), (MEGATRON_NUMBERS, float), (MEGATRON_WORDS, str)):
        for name in names:
            parser.add_argument("--" + name, type=kind)
    for name in MEGATRON_SWITCHES:
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--recompute-modules", nargs="+")
    return parser.parse_args(words)  # an unknown flag exits


def megatron_facts(m):
    """Of the numbers of Megatron's core, by the names of Megatron-LM."""
    degrees = {"tensor": m["tensor"], "pipe": m["pipe"], "context": m["context"]}
    data = m["gpus"] // (m["tensor"] * m["pipe"] * m["context"])
    recompute = "none"
    if m["granularity"] == "selective":
        assert m["modules"] == ["core_attn"]
        recompute = "attention"
    elif m["granularity"] == "full":
        recompute = "full" if m["method"] == "uniform" else f"full:{m['recompute_layers']}"
    parts = 0
    if m["distributed_optimizer"]:
        parts = {"optim_grads": 2, "optim_grads_params": 3}[m["strategy"]] if m["fsdp"] else 1
    return {
        "gpus": m["gpus"], **degrees, "data": data, "expert": m["expert"] or 1,
        "batch": m["batch"], "micro_batches": m["batch"] // (m["micro"] * data),
        "schedule": "1f1b" if m["chunks"] == 1 else "interleaved", "chunks": m["chunks"],
        "stage_layers": m["slices"] if m["pipe"] > 1 else None,
        "recompute": recompute, "parts": parts if data * m["context"] > 1 else 0,
        "shard": data // (m["copies"] or 1), "gather": "each_use", "reduce": "once",
        "overlap": m["overlap"], "sequence_parallel": m["sequence_parallel"], "bf16": m["bf16"],
        "residual_f32": m["residual_f32"], "documents": m["documents"], "host": m["host"], "weights_on_host": False,
        "offloaded_blocks": m["offloaded"] or 0, "fuse": m["fuse"], "pipe_within_data": m["mapping"], **m["optimizer"]}


def read_megatron(folder):
    words, _ = shell_words(f"{folder}/run.sh")
    script = words.index("pretrain_gpt.py")
    launch = flag_values(words[1:script])
    a = megatron_arguments(words[script + 1:])
    pipe = a.pipeline_model_parallel_size
    chunks = a.num_virtual_stages_per_pipeline_rank or 1
    slices = megatron_slices(a.num_layers, pipe, chunks, a.decoder_first_pipeline_num_layers, a.decoder_last_pipeline_num_layers,
                             a.pipeline_model_parallel_layout)
    resets = {a.reset_position_ids, a.reset_attention_mask, a.eod_mask_loss}
    fusions = {a.no_bias_gelu_fusion, a.no_bias_swiglu_fusion, a.no_bias_dropout_fusion, a.no_rope_fusion}
    assert len(resets) == len(fusions) == 1
    facts = megatron_facts({
        "gpus": int(launch["nnodes"][0]) * int(launch["nproc_per_node"][0]), "tensor": a.tensor_model_parallel_size, "pipe": pipe,
        "context": a.context_parallel_size, "expert": a.expert_model_parallel_size, "batch": a.global_batch_size,
        "micro": a.micro_batch_size, "chunks": len(slices) // pipe, "slices": slices, "granularity": a.recompute_granularity,
        "modules": a.recompute_modules, "method": a.recompute_method, "recompute_layers": a.recompute_num_layers,
        "distributed_optimizer": a.use_distributed_optimizer, "fsdp": a.use_megatron_fsdp, "strategy": a.data_parallel_sharding_strategy,
        "copies": a.num_distributed_optimizer_instances, "overlap": a.overlap_grad_reduce, "sequence_parallel": a.sequence_parallel,
        "bf16": a.bf16, "residual_f32": a.fp32_residual_connection, "documents": a.eod_mask_loss, "host": a.optimizer_cpu_offload,
        "offloaded": a.cpu_offloading_num_layers, "fuse": not a.no_rope_fusion, "mapping": a.use_tp_pp_dp_mapping,
        "optimizer": {
            "learning_rate": a.lr, "min_learning_rate": a.min_lr, "lr_schedule": a.lr_decay_style, "warmup_steps": a.lr_warmup_iters,
            "decay_steps": a.lr_decay_iters or a.train_iters, "steps": a.train_iters, "beta1": a.adam_beta1, "beta2": a.adam_beta2,
            "epsilon": a.adam_eps, "weight_decay": a.weight_decay, "clip": a.clip_grad, "seed": a.seed}})
    facts["model"] = {
        "layers": a.num_layers, "hidden": a.hidden_size, "heads": a.num_attention_heads, "sequence": a.seq_length, "vocab": a.vocab_size,
        "inner": a.ffn_hidden_size, "tied": not a.untie_embeddings_and_output_weights, "experts": a.num_experts or 0}
    return facts


def read_bridge(folder):
    words, _ = shell_words(f"{folder}/run.sh")
    launch = flag_values(words[1:])
    with open(f"{folder}/{launch['config_file'][0]}", encoding="utf-8") as file:
        config = yaml.safe_load(file)
    model, ddp, o, s = config["model"], config["ddp"], config["optimizer"], config["scheduler"]
    pipe = model["pipeline_model_parallel_size"]
    chunks = model.get("virtual_pipeline_model_parallel_size") or 1
    slices = megatron_slices(model["num_layers"], pipe, chunks, model.get("num_layers_in_first_pipeline_stage"),
                             model.get("num_layers_in_last_pipeline_stage"), model.get("pipeline_model_parallel_layout"))
    assert ddp["use_distributed_optimizer"] == o["use_distributed_optimizer"]
    train = config["train"]
    for number in (o["lr"], o["adam_eps"], model["layernorm_epsilon"]):
        assert isinstance(number, float), number  # 1e-05 would be a word
    facts = megatron_facts({
        "gpus": int(launch["nnodes"][0]) * int(launch["nproc_per_node"][0]), "tensor": model["tensor_model_parallel_size"], "pipe": pipe,
        "context": model["context_parallel_size"], "expert": model["expert_model_parallel_size"], "batch": train["global_batch_size"],
        "micro": train["micro_batch_size"], "chunks": chunks, "slices": slices, "granularity": model.get("recompute_granularity"),
        "modules": model.get("recompute_modules"), "method": model.get("recompute_method"),
        "recompute_layers": model.get("recompute_num_layers"), "distributed_optimizer": o["use_distributed_optimizer"],
        "fsdp": ddp.get("use_megatron_fsdp"), "strategy": ddp.get("data_parallel_sharding_strategy"),
        "copies": ddp.get("num_distributed_optimizer_instances"), "overlap": ddp["overlap_grad_reduce"],
        "sequence_parallel": model["sequence_parallel"], "bf16": model["bf16"] and config["mixed_precision"] == "bf16_mixed",
        "residual_f32": model["fp32_residual_connection"], "documents": config["dataset"]["reset_position_ids"],
        "host": o.get("optimizer_cpu_offload", False), "offloaded": model.get("cpu_offloading_num_layers"),
        "fuse": model["bias_dropout_fusion"], "mapping": config["dist"]["use_tp_pp_dp_mapping"],
        "optimizer": {
            "learning_rate": o["lr"], "min_learning_rate": o["min_lr"], "lr_schedule": s["lr_decay_style"],
            "warmup_steps": s["lr_warmup_iters"], "decay_steps": s.get("lr_decay_iters") or train["train_iters"],
            "steps": train["train_iters"], "beta1": o["adam_beta1"], "beta2": o["adam_beta2"], "epsilon": o["adam_eps"],
            "weight_decay": o["weight_decay"], "clip": o["clip_grad"], "seed": config["rng"]["seed"]}})
    facts["model"] = {
        "layers": model["num_layers"], "hidden": model["hidden_size"], "heads": model["num_attention_heads"],
        "sequence": model["seq_length"], "vocab": model["vocab_size"], "inner": model["ffn_hidden_size"],
        "tied": model["share_embeddings_and_output_weights"], "experts": model.get("num_moe_experts", 0)}
    return facts


def llama3_width(dim, multiple_of=256, ffn_dim_multiplier=None, **_):
    """The width that torchtitan's llama3 computes for its MLP."""
    width = int(2 * (4 * dim) / 3)
    if ffn_dim_multiplier is not None:
        width = int(ffn_dim_multiplier * width)
    return multiple_of * ((width + multiple_of - 1) // multiple_of)


TITAN_FLAVORS = {("llama3", "8B"): {"layers": 32, "hidden": 4096, "heads": 32, "vocab": 128256, "inner": 14336, "tied": False}}


def titan_model(folder, module, flavor):
    if (module, flavor) in TITAN_FLAVORS:
        return TITAN_FLAVORS[module, flavor], {}
    with open(f"{folder}/flavor.py", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    plain = {word.arg: ast.literal_eval(word.value) for word in call.keywords if not isinstance(word.value, ast.Call)}
    nested = {word.arg: {part.arg: ast.literal_eval(part.value) for part in word.value.keywords}
              for word in call.keywords if isinstance(word.value, ast.Call)}
    inner = plain["hidden_dim"] if module == "qwen3" else llama3_width(**plain)
    model = {"layers": plain["n_layers"], "hidden": plain["dim"], "heads": plain["n_heads"], "vocab": plain["vocab_size"],
             "inner": inner, "tied": plain.get("enable_weight_tying", False),
             "experts": nested.get("moe_args", {}).get("num_experts", 0)}
    return model, plain


def titan_slices(parts):
    names = [name for part in parts for name in part]
    layers = [name for name in names if name.startswith("layers.")]
    assert names == ["tok_embeddings"] + layers + ["norm", "output"], names
    assert layers == [f"layers.{i}" for i in range(len(layers))], layers
    return [sum(name.startswith("layers.") for name in part) for part in parts]


def read_torchtitan(folder):
    words, _ = shell_words(f"{folder}/run.sh")
    launch = flag_values(words[1:])
    with open(f"{folder}/{launch['job.config_file'][0]}", "rb") as file:
        config = tomllib.load(file)
    p, t, o, s = config["parallelism"], config["training"], config["optimizer"], config["lr_scheduler"]
    model, plain = titan_model(folder, config["model"]["name"], config["model"]["flavor"])
    gpus = int(launch["nnodes"][0]) * int(launch["nproc_per_node"][0])
    replicate, shard = p["data_parallel_replicate_degree"], p["data_parallel_shard_degree"]
    tensor, pipe, context = p["tensor_parallel_degree"], p["pipeline_parallel_degree"], p["context_parallel_degree"]
    data = replicate * shard
    assert data * tensor * pipe * context == gpus
    local, batch = t["local_batch_size"], t["global_batch_size"]
    accumulated, odd = divmod(batch, local * data)
    assert not odd
    m = accumulated if pipe == 1 else accumulated * local // p["pipeline_parallel_microbatch_size"]
    assert pipe == 1 or accumulated == 1
    slices = titan_slices(p["module_fqns_per_model_part"]) if pipe > 1 else None
    mode = config["activation_checkpoint"]["mode"]
    fsdp = shard * context > 1
    reshard = p.get("fsdp_reshard_after_forward", "default")
    kept = "once" if pipe > 1 else "each_micro_batch"
    constant = s.get("decay_ratio") == 0.0
    names = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved", "InterleavedZeroBubble": "zero_bubble"}
    replicas = replicate > 1 or not fsdp  # something is not split
    return {
        "gpus": gpus, "tensor": tensor, "pipe": pipe, "context": context, "data": data, "expert": p["expert_parallel_degree"],
        "batch": batch, "micro_batches": m, "schedule": names[p["pipeline_parallel_schedule"]] if pipe > 1 else "1f1b",
        "chunks": len(slices) // pipe if slices else 1, "stage_layers": slices, "recompute": mode, "parts": 3 if fsdp else 0,
        "shard": shard, "gather": {"always": "each_use", "never": kept}.get(reshard, "each_use"),
        "reduce": "each_micro_batch" if pipe == 1 and m > 1 and replicas and data > 1 else "once", "overlap": True,
        "sequence_parallel": tensor > 1, "bf16": t["mixed_precision_param"] == "bfloat16", "residual_f32": False,
        "documents": plain.get("attn_mask_type") == "block_causal", "host": t["enable_cpu_offload"],
        "weights_on_host": t["enable_cpu_offload"], "offloaded_blocks": 0, "fuse": config["compile"]["enable"], "pipe_within_data": False,
        "learning_rate": o["lr"], "min_learning_rate": o["lr"] * s["min_lr_factor"],
        "lr_schedule": "constant" if constant else s["decay_type"], "warmup_steps": s["warmup_steps"],
        "decay_steps": s.get("total_steps", t["steps"]), "steps": t["steps"], "beta1": o["beta1"], "beta2": o["beta2"],
        "epsilon": o["eps"], "weight_decay": o["weight_decay"], "clip": 0 if t["max_norm"] == float("inf") else t["max_norm"],
        "seed": config["debug"]["seed"], "model": {**model, "sequence": t["seq_len"]}}


TRAINER_SCHEDULES = {"cosine": "cosine", "cosine_with_min_lr": "cosine", "linear": "linear", "polynomial": "linear",
                     "constant_with_warmup": "constant"}


def trainer_facts(folder, arguments):
    with open(f"{folder}/{arguments['config_name'][0]}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    one = lambda name, kind=float: kind(arguments[name][0])
    numbers = json.loads(arguments["lr_scheduler_kwargs"][0]) if "lr_scheduler_kwargs" in arguments else {}
    schedule = arguments["lr_scheduler_type"][0]
    if schedule == "polynomial":
        assert numbers["power"] == 1.0
    gpt = config["model_type"] == "gpt2"
    model = {"layers": config["n_layer" if gpt else "num_hidden_layers"], "hidden": config["n_embd" if gpt else "hidden_size"],
             "heads": config["n_head" if gpt else "num_attention_heads"], "vocab": config["vocab_size"],
             "inner": 4 * config["n_embd"] if gpt else config["intermediate_size"], "tied": config["tie_word_embeddings"],
             "sequence": one("block_size", int), "experts": config.get("num_local_experts", config.get("num_experts", 0))}
    return {
        "tensor": 1, "pipe": 1, "context": 1, "expert": 1, "schedule": "1f1b", "chunks": 1, "stage_layers": None,
        "micro": one("per_device_train_batch_size", int), "micro_batches": one("gradient_accumulation_steps", int),
        "sequence_parallel": False, "bf16": arguments.get("bf16") == ["true"], "residual_f32": False, "documents": False,
        "offloaded_blocks": 0, "fuse": False, "pipe_within_data": False, "learning_rate": one("learning_rate"),
        "min_learning_rate": numbers.get("min_lr", numbers.get("lr_end", 0)), "lr_schedule": TRAINER_SCHEDULES[schedule],
        "warmup_steps": one("warmup_steps", int), "decay_steps": one("max_steps", int), "steps": one("max_steps", int),
        "beta1": one("adam_beta1"), "beta2": one("adam_beta2"), "epsilon": one("adam_epsilon"), "weight_decay": one("weight_decay"),
        "clip": one("max_grad_norm"), "seed": one("seed", int), "model": model}


def read_deepspeed(folder):
    words, _ = shell_words(f"{folder}/run.sh")
    script = words.index("run_clm.py")
    launch, arguments = flag_values(words[1:script]), flag_values(words[script + 1:])
    facts = trainer_facts(folder, arguments)
    with open(f"{folder}/{arguments['deepspeed'][0]}", encoding="utf-8") as file:
        config = json.load(file)
    zero, params = config["zero_optimization"], config["optimizer"]["params"]
    gpus = int(launch["num_nodes"][0]) * int(launch["num_gpus"][0])
    micro, m = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert micro * m * gpus == config["train_batch_size"]
    # The Trainer refuses a file that says otherwise than its arguments.
    for said, argument in ((micro, facts["micro"]), (m, facts["micro_batches"]), (params["lr"], facts["learning_rate"]),
                           (params["betas"], [facts["beta1"], facts["beta2"]]), (params["eps"], facts["epsilon"]),
                           (params["weight_decay"], facts["weight_decay"]), (config["gradient_clipping"], facts["clip"]),
                           (config["bf16"]["enabled"], facts["bf16"])):
        assert said == argument, (said, argument)
    return {**facts, "gpus": gpus, "data": gpus, "batch": config["train_batch_size"],
            "recompute": "full" if arguments.get("gradient_checkpointing") == ["true"] else "none",
            "parts": zero["stage"] if gpus > 1 else 0, "shard": gpus, "gather": "each_use", "reduce": "once",
            "overlap": zero["overlap_comm"], "host": zero.get("offload_optimizer", {}).get("device") == "cpu",
            "weights_on_host": zero.get("offload_param", {}).get("device") == "cpu"}


def read_accelerate(folder, config_file=None):
    words, _ = shell_words(f"{folder}/run.sh")
    script = words.index("run_clm.py")
    launch, arguments = flag_values(words[1:script]), flag_values(words[script + 1:])
    facts = trainer_facts(folder, arguments)
    with open(f"{folder}/{config_file or launch['config_file'][0]}", encoding="utf-8") as file:
        config = yaml.safe_load(file)
    gpus, m = config["num_processes"], facts["micro_batches"]
    fsdp = config.get("fsdp_config", {})
    assert bool(fsdp) == (config["distributed_type"] == "FSDP")
    shard, kept = gpus, False
    if fsdp.get("fsdp_version") == 2:
        kept = not fsdp["fsdp_reshard_after_forward"]
        shard = config.get("parallelism_config", {}).get("parallelism_config_dp_shard_size", gpus)
    elif fsdp:
        strategy = fsdp["fsdp_sharding_strategy"]
        kept = strategy in ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2")
        shard = gpus // config["num_machines"] if strategy.startswith("HYBRID") else gpus
    each = "accelerator_config" in arguments and json.loads(
        arguments["accelerator_config"][0])["gradient_accumulation_kwargs"]["sync_each_batch"]
    recomputes = fsdp.get("fsdp_activation_checkpointing") or arguments.get("gradient_checkpointing") == ["true"]
    # Gradients that FSDP splits are reduced with each micro-batch, those of replicas beside them.
    replicas = not fsdp or shard < gpus
    assert (config["mixed_precision"] == "bf16") == facts["bf16"]
    assert not fsdp or m == 1 or each
    return {**facts, "gpus": gpus, "data": gpus, "batch": facts["micro"] * m * gpus, "recompute": "full" if recomputes else "none",
            "parts": 3 if fsdp else 0, "shard": shard, "gather": "each_micro_batch" if kept else "each_use",
            "reduce": "each_micro_batch" if each and replicas else "once", "overlap": True,
            "host": bool(fsdp.get("fsdp_offload_params")), "weights_on_host": bool(fsdp.get("fsdp_offload_params"))}


READERS = {"megatron": read_megatron, "bridge": read_bridge, "torchtitan": read_torchtitan, "deepspeed": read_deepspeed,
           "accelerate": read_accelerate}


def read(system, folder):
    """The facts that the files of a folder say."""
    assert os.path.isdir(folder), folder
    return READERS[system](folder)
