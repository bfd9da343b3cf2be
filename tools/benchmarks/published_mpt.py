"""MPT of MosaicML on A100-80G and H100-80G, 8 a node: tokens a second and GPU. No tensor and no pipeline parallelism.

github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md: sequences of 2048, a vocabulary of 50368, FSDP. ALiBi has
no counterpart: positions are a learned table here, and attention adds no slope to its scores.
"""
import dataclasses

from benchmarks.published_runs import BF16, Fact, Model, Plan, System, row_of_plan

TABLE = "MPT"
README = "llm-foundry, scripts/train/benchmarking/README.md"
SUBMIT = "llm-foundry, scripts/train/benchmarking/submit_benchmarks.py"
SWEEP = "llm-foundry, scripts/train/benchmarking/sweep.py"
MODEL_FLAGS = ("--tied=true", "--bias=false")
FLAGS = (*BF16, "--fuse=false", "--prefetch=1")
# layers, heads, hidden
SIZES = {"125M": (12, 12, 768), "350M": (24, 16, 1024), "1B": (24, 16, 2048), "3B": (32, 20, 2560), "7B": (32, 32, 4096),
         "13B": (40, 40, 5120), "30B": (48, 56, 7168), "70B": (80, 64, 8192)}
# model, device, GPUs, micro-batch, accumulations, recompute, split over the GPUs, tokens/s/GPU
RUNS = [
    ("125M", "a100", 8, 40, 2, "none", "weights", 142830),
    ("350M", "a100", 8, 32, 2, "none", "weights", 58782),
    ("1B", "a100", 8, 14, 4, "none", "weights", 20513),
    ("3B", "a100", 8, 10, 2, "none", "weights", 10811),
    ("7B", "a100", 8, 6, 2, "none", "weights", 4641),
    ("13B", "a100", 8, 2, 3, "none", "weights", 2262),
    ("30B", "a100", 8, 3, 21, "full", "weights", 916),
    ("70B", "a100", 64, 8, 4, "full", "weights", 410),
    ("1B", "h100", 128, 12, 1, "none", "gradients", 44123),
    ("3B", "h100", 128, 8, 1, "none", "gradients", 23422),
    ("7B", "h100", 8, 6, 1, "none", "weights", 10643),
    ("7B", "h100", 128, 6, 1, "none", "weights", 10475),
    ("13B", "h100", 8, 2, 1, "none", "weights", 4792),
    ("30B", "h100", 8, 3, 21, "full", "weights", 2002),
    ("30B", "h100", 128, 8, 1, "full", "weights", 2199),
    ("70B", "h100", 128, 8, 1, "full", "weights", 1058),
]
PURE = {("70B", "a100")}  # bf16 in all of the model; the others under autocast
SYSTEM = System(
    name="MPT, llm-foundry and Composer on PyTorch's FSDP",
    kernels=Fact("unfused: PyTorch's own, one for each operation; layer norms in bf16 (low_precision_layernorm)", SUBMIT),
    attention=Fact("Triton's FlashAttention, with ALiBi as a bias (attn_impl: triton)", SUBMIT),
    overlaps=Fact("gathers run ahead by one block (forward_prefetch, BACKWARD_PRE, limit_all_gathers); reductions beside the "
                  "backward", SWEEP),
    optimizer=Fact("AdamW in f32, unfused (assumed: decoupled_adamw)", "llm-foundry, scripts/train/yamls"),
    gradients=Fact("reduced in bf16; here in f32, which counts twice the bytes", "composer, trainer/dist_strategy.py, DEFAULT"),
    recompute=Fact("whole blocks where the row says so", README),
    micro_batch=Fact("in the table", README),
    attention_library="flash_attention_triton",
)
# The runs on 128 H100s name their kernel of attention.
FLASH = dataclasses.replace(SYSTEM, attention=Fact("FlashAttention-2 (attn_impl: flash; the version is assumed)", SWEEP),
                            attention_library="flash_attention_2")
FLASH_RUNS = {("1B", 128), ("3B", 128), ("7B", 128), ("70B", 128)}


def make_row(name, device, gpus, size, accumulations, recompute, split, published):
    system = FLASH if device == "h100" and (name, gpus) in FLASH_RUNS else SYSTEM
    residual = "bf16" if (name, device) in PURE else "f32"
    flags = [*FLAGS, "--shard=" + split, "--residual=" + residual]
    if recompute == "full":
        flags.append("--recompute=full,gather")
    batch = size * accumulations * gpus
    model = Model(*SIZES[name], 2048, 50368)
    plan = Plan(model, device, f"data={gpus}", batch, accumulations, MODEL_FLAGS, tuple(flags),
                attention_library=system.attention_library)
    return row_of_plan(plan, gpus, recompute, "tokens/s/GPU", published,
                       lambda seconds, flops: batch * model.sequence / gpus / seconds, table=TABLE, model=name,
                       name=f"{name} on {gpus}, {size} x {accumulations}", tensor=1, system=system)


def rows(args):
    return [make_row(*run) for run in RUNS]
