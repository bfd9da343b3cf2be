"""torchtitan's FSDP2 on 64 A100-80G and on H100s of 96 GB, 8 a node: tokens a second and GPU.

github.com/pytorch/torchtitan, docs/performance.md of 2024 (A100) and benchmarks (H100 of 96 GB, 500 W): bf16, one micro-batch a step.
"""
import dataclasses

from benchmarks.published_runs import AMPLE, BF16, Fact, Llama, Plan, System, make_mesh, row_of_plan

TABLE = "torchtitan"
REPORT = "torchtitan, docs/performance.md and benchmarks/"
LLAMA_3_8B = Llama(32, 32, 8, 4096, 14336, 8192, 128256)
LLAMA_3_70B = Llama(80, 64, 8, 8192, 28672, 8192, 128256)
LLAMA_2_13B = Llama(40, 40, 40, 5120, 13824, 4096, 32000)
# name, model, device, GPUs, tensor, sequences of a data part, recompute, compiled, tokens/s/GPU, GiB that PyTorch reserved
RUNS = [
    ("Llama 3 8B", LLAMA_3_8B, "a100", 64, 1, 1, "full:16", False, 2904, None),
    ("Llama 2 13B", LLAMA_2_13B, "a100", 64, 1, 2, "none", False, 2162, None),
    ("Llama 3 70B", LLAMA_3_70B, "a100", 64, 1, 1, "full,gather", False, 331, None),
    ("Llama 3 8B", LLAMA_3_8B, "h100-96g", 8, 1, 2, "selective", False, 5762, 82.4),
    ("Llama 3 8B", LLAMA_3_8B, "h100-96g", 8, 1, 2, "selective", True, 6667, 77.0),
    ("Llama 3 8B", LLAMA_3_8B, "h100-96g", 64, 8, 12, "selective", True, 4378, None),
]
FLAGS = (*BF16, AMPLE, "--shard=weights", "--prefetch=1")
EAGER = System(
    name="torchtitan of 2024, eager",
    of="torchtitan",
    kernels=Fact("PyTorch's own, one for each operation", REPORT),
    attention=Fact("FlashAttention-2 by scaled_dot_product_attention", "assumed"),
    overlaps=Fact("gathers run ahead of compute by one block; reductions beside the backward", "PyTorch, fully_shard"),
    optimizer=Fact("AdamW, fused", "torchtitan's default"),
    gradients=Fact("reduced in f32", "torchtitan's default"),
    recompute=Fact("every second block (8B on A100s), blocks (70B), none (13B), by operation (H100s)", REPORT),
    micro_batch=Fact("in the table", REPORT),
    attention_library="flash_attention_2",
)
COMPILED = dataclasses.replace(
    EAGER, name="torchtitan of 2024, torch.compile",
    kernels=Fact("blocks compiled one by one: element-wise operations and norms are fused", REPORT))


def make_row(name, model, device, gpus, tensor, sequences, recompute, compiled, published, peak):
    data = gpus // tensor
    system = COMPILED if compiled else EAGER
    flags = (*FLAGS, "--recompute=" + recompute, *(() if compiled else ("--fuse=false",)),
             *(("--sequence_parallel", "--split_products") if tensor > 1 else ()))
    batch = sequences * data
    plan = Plan(model, device, make_mesh(data=data, tensor=tensor), batch, 1, (), flags, attention_library=system.attention_library)
    ran = {"system": "torchtitan", "model": model.text(), "devices": gpus, "micro": sequences, "micro_batches": 1, "tensor": tensor,
           "sharding": "weights", "over": ["data"], "gather": "each use", "reduce": "each micro-batch", "recompute": recompute,
           "sequence_parallel": tensor > 1, "settings": {"training.compile": "true"} if compiled else {}}
    return row_of_plan(plan, gpus, "none", "tokens/s/GPU", published,
                       lambda seconds, flops: batch * model.sequence / gpus / seconds, table=TABLE, model=name,
                       name=f"{name} on {gpus}" + (f", tensor {tensor}" if tensor > 1 else "") + (", compiled" if compiled else ""),
                       tensor=tensor, system=system, peak_gib=peak, ran=ran)


def rows(args):
    return [make_row(*run) for run in RUNS]
