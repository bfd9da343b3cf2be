"""Megatron-LM (Narayanan et al., SC'21), Table 1: TFLOP/s a GPU of five models on A100-80G.

Full recompute, interleaved 1F1B with scatter and gather between stages. The paper gives neither micro-batch nor chunks: the
micro-batch is searched, as there, and the rows at 1, 2 and 4 are shown; a stage has two chunks, or the next number that
divides its layers. FLOPs are those of the paper's formula, with recompute.
"""
from benchmarks.published_runs import AMPLE, UNFUSED, UNFUSED_MODEL, Fact, Model, Plan, System, fastest_of, if_it_fits, make_mesh, row_of_plan

TABLE = "SC'21"
SHOWN, SEARCHED = (1, 2, 4), (1, 2, 4, 8, 16)
# billions of parameters, heads, hidden, layers, tensor, pipe, GPUs, global batch, TFLOP/s
RUNS = [
    (1.7, 24, 2304, 24, 1, 1, 32, 512, 137),
    (7.5, 32, 4096, 36, 4, 1, 128, 512, 142),
    (39.1, 64, 8192, 48, 8, 2, 512, 1536, 138),
    (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148),
    (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163),
]
SYSTEM = System(
    name="Megatron-LM of 2021",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, scale, mask and softmax; here separate", "SC'21, section 4.2"),
    attention=Fact("unfused: two products, softmax and dropout, with probabilities in memory", "SC'21, section 4.2"),
    overlaps=Fact("nothing", "Megatron-LM's log: tensor-parallel overlap since February 2022, --overlap-grad-reduce since August "
                  "2023"),
    optimizer=Fact("Adam, states on every data-parallel rank", "assumed: the distributed optimizer is of 2022"),
    gradients=Fact("reduced in f32", "assumed"),
    recompute=Fact("whole layers", "SC'21, section 3.5"),
    micro_batch=Fact("searched", "SC'21, section 5.1"),
)


def count_chunks(layers):
    """Chunks of a stage with this number of layers."""
    return next(v for v in range(2, layers + 1) if layers % v == 0)


def make_rows(billions, heads, hidden, layers, tensor, pipe, gpus, batch, published):
    """The row of the fastest micro-batch, and, not counted, those of the micro-batches that are shown."""
    data = gpus // (tensor * pipe)
    flags = [*UNFUSED, "--recompute=full", "--overlap=false", AMPLE]
    if pipe > 1:
        flags += ["--schedule=interleaved", f"--chunks={count_chunks(layers // pipe)}"]
    plans = {size: Plan(Model(layers, heads, hidden, 2048, 51200), "a100", make_mesh(pipe=pipe, data=data, tensor=tensor), batch,
                        batch // (data * size), UNFUSED_MODEL, tuple(flags))
             for size in SEARCHED if batch % (data * size) == 0}

    def make_row(plan, name, counted):
        return if_it_fits(row_of_plan(plan, gpus, "full", "TFLOP/s", published, lambda seconds, flops: flops / gpus / seconds / 1e12, table=TABLE,
                          model=f"{billions}B", name=f"{billions}B micro-batch {name}", tensor=tensor, system=SYSTEM, counted=counted), plan)

    shown = {size: make_row(plan, str(size), False) for size, plan in plans.items()}
    searched = fastest_of(list(shown.values()), name=f"{billions}B micro-batch searched", counted=True)
    return [searched, *(row for size, row in shown.items() if size in SHOWN)]


def rows(args):
    return [row for run in RUNS for row in make_rows(*run)]
