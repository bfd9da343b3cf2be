"""The Megatron-LM column of MegaScale (Jiang et al., NSDI'24) on A100-80G, 8 a node: seconds a step of 175B.

96 layers, hidden 12288, 128 heads, sequences of 2048, a vocabulary of 64000; tensor 8, pipe 8, 6 chunks, a batch of 768.
"""
from benchmarks.published_runs import BF16, Fact, Model, Plan, System, make_mesh, row_of_seconds

TABLE = "MegaScale"
TENSOR, PIPE, CHUNKS, BATCH = 8, 8, 6, 768
MODEL = Model(96, 128, 12288, 2048, 64000)
RUNS = [(256, 40.0), (1024, 11.9)]  # GPUs, seconds
SPREAD = "0.005:0.1"  # of the machines 0.5 % were markedly slower, and some hosts took 10 % more time (5.1 and 6.3)
MODEL_FLAGS = ("--tied=true",)
FLAGS = (*BF16, "--residual=bf16", "--sequence_parallel", "--recompute=gather", "--schedule=interleaved",
         f"--chunks={CHUNKS}", "--overlap=false")
LOG = "Megatron-LM at 285068c8 (January 2023), which the paper names"
SYSTEM = System(
    name="Megatron-LM of January 2023",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, layer norm, gradients added up by products; here gelu within a product",
                 LOG),
    attention=Fact("FlashAttention-1, an option of that version; dropout 0", "assumed"),
    overlaps=Fact("of tensor parallelism only exchanges of the backward, with products; no sends, no gradients; here nothing", LOG),
    optimizer=Fact("Adam, states on every data-parallel rank", "assumed: --use-distributed-optimizer is no default of that version, and it fits"),
    gradients=Fact("reduced in f32", LOG),
    recompute=Fact("none", "assumed: it fits"),
    micro_batch=Fact("1", "assumed"),
    attention_library="flash_attention_1",
)


def make_row(gpus, published):
    data = gpus // (TENSOR * PIPE)
    plan = Plan(MODEL, "a100", make_mesh(pipe=PIPE, data=data, tensor=TENSOR), BATCH, BATCH // data, MODEL_FLAGS, FLAGS,
                attention_library=SYSTEM.attention_library, spread=SPREAD)
    return row_of_seconds(plan, gpus, published, table=TABLE, model="175B", tensor=TENSOR, system=SYSTEM)


def rows(args):
    return [make_row(*run) for run in RUNS]
