"""MPT of MosaicML on A100-80G and H100-80G, 8 a node: tokens a second and GPU. No tensor and no pipeline parallelism.

github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md: sequences of 2048 unless said, a vocabulary of 50368, FSDP. ALiBi has
no counterpart: positions are a learned table here, and attention adds no slope to its scores.
"""
import dataclasses

from benchmarks.published_runs import BF16, Fact, Model, Plan, System, row_of_plan

TABLE = "MPT"
README = "llm-foundry, scripts/train/benchmarking/README.md"
SUBMIT = "llm-foundry, scripts/train/benchmarking/submit_benchmarks.py"
SWEEP = "llm-foundry, scripts/train/benchmarking/sweep.py"
MODEL_FLAGS = ("--tied=true", "--bias=false")
FLAGS = (*BF16, "--residual=bf16", "--fuse=false", "--prefetch=1")
# layers, heads, hidden
SIZES = {"125M": (12, 12, 768), "350M": (24, 16, 1024), "1B": (24, 16, 2048), "3B": (32, 20, 2560), "7B": (32, 32, 4096),
         "13B": (40, 40, 5120), "30B": (48, 56, 7168), "70B": (80, 64, 8192)}
# model, tokens of a sequence, device, GPUs, micro-batch, accumulations, recompute, split over the GPUs, tokens/s/GPU
RUNS = [
    ("125M", 2048, "a100", 8, 40, 2, "none", "weights", 142830),
    ("350M", 2048, "a100", 8, 32, 2, "none", "weights", 58782),
    ("1B", 2048, "a100", 8, 14, 4, "none", "weights", 20513),
    ("3B", 2048, "a100", 8, 10, 2, "none", "weights", 10811),
    ("7B", 2048, "a100", 8, 6, 2, "none", "weights", 4641),
    ("13B", 2048, "a100", 8, 2, 3, "none", "weights", 2262),
    ("30B", 2048, "a100", 8, 3, 21, "full", "weights", 916),
    ("70B", 2048, "a100", 64, 8, 4, "full", "weights", 410),
    ("1B", 2048, "h100", 128, 12, 1, "none", "gradients", 44123),
    ("3B", 2048, "h100", 128, 8, 1, "none", "gradients", 23422),
    ("7B", 2048, "h100", 8, 6, 1, "none", "weights", 10643),
    ("7B", 2048, "h100", 128, 6, 1, "none", "weights", 10475),
    ("13B", 2048, "h100", 8, 2, 1, "none", "weights", 4792),
    ("30B", 2048, "h100", 8, 3, 21, "full", "weights", 2002),
    ("30B", 2048, "h100", 128, 8, 1, "full", "weights", 2199),
    ("70B", 2048, "h100", 128, 8, 1, "full", "weights", 1058),
    ("7B", 1024, "h100", 8, 64, 2, "full", "weights", 10203),
    ("1B", 4096, "h100", 8, 7, 4, "none", "weights", 38535),
    ("7B", 8192, "h100", 8, 8, 2, "full", "weights", 6935),
    ("3B", 16384, "h100", 8, 1, 6, "none", "weights", 11152),
    ("1B", 65536, "h100", 8, 1, 2, "full", "weights", 5506),
]
SYSTEM = System(
    name="MPT, llm-foundry on Composer and PyTorch's FSDP, tables of October 2023",
    of="mpt",
    kernels=Fact("unfused: PyTorch's own, one for each operation, no torch.compile; layer norms in bf16; fused cross entropy", SUBMIT),
    attention=Fact("Triton's FlashAttention, with ALiBi as a bias: attn_impl's default",
                   SUBMIT + " at b2a43a147"),
    overlaps=Fact("gathers run ahead of compute, two at once (limit_all_gathers); reductions beside the backward", SUBMIT),
    optimizer=Fact("decoupled AdamW in f32, not one kernel; gradients clipped by their norm", "llm-foundry, scripts/train/yamls"),
    gradients=Fact("weights gathered in bf16, gradients reduced in f32 (DEFAULT)", README + "; composer, get_mixed_precision"),
    recompute=Fact("whole blocks where the row says so", README),
    micro_batch=Fact("in the table", README),
    attention_library="flash_attention_triton",
)
# The table of May 2023, in bf16 throughout.
PURE = dataclasses.replace(
    SYSTEM, name="MPT, llm-foundry on Composer and PyTorch's FSDP, table of May 2023",
    gradients=Fact("weights gathered and gradients reduced in bf16 (PURE); here reduced in f32, twice the bytes",
                   README + "; composer, get_mixed_precision"))
# The table of January 2024, on 128 H100s and more.
TRITON_2024 = dataclasses.replace(
    SYSTEM, name="MPT, llm-foundry on Composer and PyTorch's FSDP, table of January 2024",
    attention=Fact("Triton's FlashAttention, with ALiBi as a bias (attn_impl: triton)", SWEEP),
    overlaps=Fact("gathers run ahead of compute by one block (forward_prefetch, BACKWARD_PRE, limit_all_gathers); reductions "
                  "beside the backward", SWEEP))
FLASH_2024 = dataclasses.replace(
    TRITON_2024, attention=Fact("FlashAttention (attn_impl: flash; assumed: version 2, which was optional)", SWEEP),
    attention_library="flash_attention_2")


def find_system(name, device, gpus):
    """The system that made a row."""
    if device == "a100":
        return PURE if name == "70B" else SYSTEM
    return SYSTEM if gpus == 8 else TRITON_2024 if name == "30B" else FLASH_2024


def make_row(name, sequence, device, gpus, size, accumulations, recompute, split, published):
    system = find_system(name, device, gpus)
    flags = [*FLAGS, "--shard=" + split]
    if recompute == "full":
        flags.append("--recompute=full,gather")
    batch = size * accumulations * gpus
    model = Model(*SIZES[name], sequence, 50368)
    plan = Plan(model, device, f"data={gpus}", batch, accumulations, MODEL_FLAGS, tuple(flags),
                attention_library=system.attention_library)
    return row_of_plan(plan, gpus, recompute, "tokens/s/GPU", published,
                       lambda seconds, flops: batch * model.sequence / gpus / seconds, table=TABLE, model=name,
                       name=f"{name} on {gpus}, {size} x {accumulations}" + (f", {sequence:,}" if sequence != 2048 else ""), tensor=1, system=system)


def rows(args):
    return [make_row(*run) for run in RUNS]
