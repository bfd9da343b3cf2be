"""Megatron-Core on H100-80G, 8 a node: model TFLOP/s a GPU of three sizes.

The table of the README of github.com/NVIDIA/Megatron-LM: sequences of 4096, a vocabulary of 131072, 48 data-parallel groups.
"""
from benchmarks.published_runs import AMPLE, BF16, Fact, Model, Plan, System, fastest_of, if_it_fits, make_mesh, row_of_plan

TABLE = "Megatron-Core"
README = "Megatron-LM, README.md"
# name, heads, hidden, layers, tensor, pipe, GPUs, batch, chunks, TFLOP/s
RUNS = [
    ("7.1B", 32, 4096, 30, 2, 1, 96, 192, 1, 465.9),
    ("70B", 64, 8192, 84, 8, 2, 768, 384, 6, 419.7),
    ("314B", 128, 16384, 96, 8, 8, 3072, 1536, 6, 474.4),
]
MICRO_BATCHES = (1, 2, 4)
MODEL_FLAGS = ("--tied=true",)
# The backward gathers again what sequence parallelism split, as Megatron-LM does.
FLAGS = (*BF16, "--residual=bf16", "--shard=states", "--sequence_parallel", "--recompute=gather", "--bucket_bytes=192MB")
SYSTEM = System(
    name="Megatron-Core 0.5 to 0.7 with Transformer Engine",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, layer norm; here gelu within a product",
                 "assumed: the defaults of Megatron-LM"),
    attention=Fact("FlashAttention-2 or cuDNN", "assumed: cuDNN, which Transformer Engine prefers on H100s"),
    overlaps=Fact("gradients, parameters, exchanges of tensor and pipeline parallelism", README),
    optimizer=Fact("Adam, states split over the data-parallel group (distributed optimizer)", README),
    gradients=Fact("reduced in f32", "assumed: Megatron-LM accumulates and reduces in f32 by default"),
    recompute=Fact("none", "assumed"),
    micro_batch=Fact("the fastest of 1, 2 and 4 that fits; chunks of a pipeline stage have 7 (70B) and 2 (314B) layers", "assumed"),
    attention_library="cudnn",
)


def make_row(name, heads, hidden, layers, tensor, pipe, gpus, batch, chunks, published):
    data = gpus // (tensor * pipe)
    schedule = ("--schedule=interleaved", f"--chunks={chunks}") if pipe > 1 else ()
    found = []
    for size in MICRO_BATCHES:
        plan = Plan(Model(layers, heads, hidden, 4096, 131072), "h100", make_mesh(pipe=pipe, data=data, tensor=tensor), batch,
                    batch // (data * size), MODEL_FLAGS, (*FLAGS, AMPLE, *schedule), attention_library=SYSTEM.attention_library)
        found.append(if_it_fits(
            row_of_plan(plan, gpus, "none", "TFLOP/s", published, lambda seconds, flops: flops / gpus / seconds / 1e12, table=TABLE,
                        model=name, name=f"{name} on {gpus}", tensor=tensor, system=SYSTEM), plan))
    return fastest_of(found)


def rows(args):
    return [make_row(*run) for run in RUNS]
