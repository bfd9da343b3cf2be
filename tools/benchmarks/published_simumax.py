"""Megatron-LM on 8 B200s: milliseconds a step of Llama 3 70B with 12 layers and 405B with 4.

github.com/MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.md: sequences of 4096, micro-batch 1.
"""
from benchmarks.published_runs import AMPLE, BF16, Fact, Llama, Plan, System, make_mesh, row_of_plan

TABLE = "SimuMax"
SUMMARY = "SimuMax, docs/b200/b200_release_v1.2_summary.md"
MODELS = {"70B/12": (12, 64, 8, 8192, 28672), "405B/4": (4, 128, 8, 16384, 53248)}  # layers, heads, groups, hidden, inner
# model, tokens of a sequence, tensor, pipe, context, data, micro-batches, ms, GiB of allocated memory at its peak
RUNS = [
    ("70B/12", 4096, 1, 2, 1, 4, 4, 843.0, 66.55),
    ("70B/12", 4096, 2, 1, 1, 4, 8, 1387.0, 60.68),
    ("70B/12", 4096, 8, 1, 1, 1, 4, 280.9, 28.29),
    ("405B/4", 4096, 2, 1, 1, 4, 4, 907.3, 81.59),
    ("405B/4", 4096, 4, 1, 1, 2, 8, 899.6, 52.89),
    ("405B/4", 4096, 8, 1, 1, 1, 32, 1901.8, 38.57),
    ("70B/12", 32768, 2, 1, 4, 1, 4, 1758.0, 68.43),
]
FLAGS = (*BF16, AMPLE, "--shard=states", "--recompute=gather", "--overlap=false")
SYSTEM = System(
    name="Megatron-LM of 2025 with Transformer Engine",
    of="megatron",
    kernels=Fact("fused: gated unit, norms, rotary embeddings, loss, gradients added up by products", SUMMARY),
    attention=Fact("cuDNN", SUMMARY),
    overlaps=Fact("nothing", SUMMARY),
    optimizer=Fact("distributed optimizer: states split over the data-parallel group", SUMMARY),
    gradients=Fact("f32", SUMMARY),
    recompute=Fact("none; what sequence parallelism split is gathered again", "Megatron-LM"),
    micro_batch=Fact("1", SUMMARY),
    attention_library="cudnn",
)


def make_row(name, sequence, tensor, pipe, context, data, micro_batches, published, peak):
    layers, heads, groups, hidden, inner = MODELS[name]
    model = Llama(layers, heads, groups, hidden, inner, sequence, 128256)
    flags = (*FLAGS, "--sequence_parallel", "--split_products") if tensor > 1 else FLAGS
    plan = Plan(model, "b200", make_mesh(pipe=pipe, data=data, context=context, tensor=tensor), data * micro_batches, micro_batches, (),
                flags, attention_library=SYSTEM.attention_library)
    ran = {"system": "megatron-lm", "model": model.text(), "devices": 8, "micro": 1, "micro_batches": micro_batches, "tensor": tensor,
           "pipe": pipe, "context": context, "schedule": "1f1b" if pipe > 1 else "none", "sharding": "states",
           "over": ["data", "context"], "sequence_parallel": tensor > 1}
    return row_of_plan(plan, 8, "none", "ms a step", published, lambda seconds, flops: 1e3 * seconds, table=TABLE, model=name,
                       name=f"{name} t{tensor} p{pipe} c{context} d{data}, {micro_batches}", tensor=tensor, system=SYSTEM, peak_gib=peak,
                       ran=ran)


def rows(args):
    return [make_row(*run) for run in RUNS]
