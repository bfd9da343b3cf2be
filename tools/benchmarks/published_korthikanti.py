"""Reducing Activation Recomputation (Korthikanti et al., 2022): seconds a step of 22B and 530B, and one 22B layer's ms.

A layer is the difference between a model of three layers and one of two.
"""
from benchmarks.published_runs import PEAKS, UNFUSED, UNFUSED_MODEL, Fact, Model, Plan, Row, System, make_mesh, row_of_plan, seconds_of

TABLE = "Korthikanti"
SEQUENCE, VOCAB, TENSOR = 2048, 51200, 8
FULL, SELECTIVE = ("--recompute=full",), ("--recompute=attention",)
# With sequence parallelism the backward gathers again what the forward gathered.
SP, SELECTIVE_SP = ("--recompute=gather", "--sequence_parallel"), ("--recompute=attention,gather", "--sequence_parallel")
# name, heads, hidden, layers, pipe, GPUs, batch, micro-batch, chunks, seconds: full recompute, selective with SP
STEPS = [
    ("22B", 64, 6144, 48, 1, 8, 4, 4, 1, 1.42, 1.10),
    ("530B", 128, 20480, 105, 35, 280, 280, 1, 3, 49.05, 37.83),
]
# what, flags, recompute, ms forward and backward
LAYER = [
    ("no recompute", (), "none", 7.7, 11.9),
    ("SP", SP, "none", 7.2, 11.8),
    ("full recompute", FULL, "full", 7.7, 19.5),
    ("selective", SELECTIVE, "selective", 7.7, 13.2),
    ("selective, SP", SELECTIVE_SP, "selective", 7.2, 13.1),
]
SYSTEM = System(
    name="Megatron-LM of 2022",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, scale, mask and softmax; here separate",
                 "assumed: as SC'21 says of Megatron-LM"),
    attention=Fact("unfused: two products, softmax and dropout, with probabilities in memory", "the paper's counts of bytes"),
    overlaps=Fact("tensor-parallel all-reduces of the backward, with gradients of weights",
                  "Megatron-LM, async_tensor_model_parallel_allreduce, February 2022"),
    optimizer=Fact("Adam, states on every data-parallel rank", "assumed; these runs have one such rank"),
    gradients=Fact("no data parallelism", "the paper, table 3"),
    recompute=Fact("none, attention (selective), or whole layers (full), as the row says", "the paper"),
    micro_batch=Fact("4 (22B) and 1 (530B)", "the paper, table 3"),
)


def make_step_row(name, heads, hidden, layers, pipe, gpus, batch, size, chunks, what, flags, recompute, published):
    interleaved = ("--schedule=interleaved", f"--chunks={chunks}") if chunks > 1 else ()
    plan = Plan(Model(layers, heads, hidden, SEQUENCE, VOCAB), "a100", make_mesh(pipe=pipe, tensor=TENSOR), batch, batch // size,
                UNFUSED_MODEL, (*UNFUSED, *flags, *interleaved))
    return row_of_plan(plan, gpus, recompute, "s a step", published, seconds_of, table=TABLE, model=name, name=f"{name} {what}",
                       tensor=TENSOR, system=SYSTEM, question="step")


def segment_seconds(simulation, segment):
    """Seconds of the first segment of a kind."""
    stream = next(s for s in simulation["stages"][0]["streams"] if s["name"] == "compute")
    return next(end - begin for name, _, _, begin, end in stream["blocks"] if name == segment)


def make_layer_row(what, flags, recompute, segment, published):
    _, heads, hidden, _, _, _, _, size, *_ = STEPS[0]
    plans = [Plan(Model(layers, heads, hidden, SEQUENCE, VOCAB), "a100", f"tensor={TENSOR}", size, 1, UNFUSED_MODEL,
                  (*UNFUSED, *flags)) for layers in (2, 3)]

    def at_peak(recompute):  # ms of a layer's forward and backward
        two, three = (plan.model.step_flops(size, recompute) for plan in plans)
        return 1e3 * (three - two) / TENSOR / PEAKS["a100"]

    forward = at_peak("none") / 3

    def simulate(simulator):
        two, three = (segment_seconds(simulator.run(plan), segment) for plan in plans)
        return 1e3 * (three - two)

    return Row(TABLE, "22B layer", f"22B layer, {what}, {segment}", "a100", TENSOR, "ms", published,
               forward if segment == "F" else at_peak(recompute) - forward, SYSTEM, simulate, question=segment)


def rows(args):
    found = []
    for *sizes, full, selective in STEPS:
        found.append(make_step_row(*sizes, "full recompute", FULL, "full", full))
        found.append(make_step_row(*sizes, "selective, SP", SELECTIVE_SP, "selective", selective))
    for what, flags, recompute, *times in LAYER:
        found += [make_layer_row(what, flags, recompute, segment, ms) for segment, ms in zip("FB", times)]
    return found
