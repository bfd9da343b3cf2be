"""Zero Bubble (Qi et al., ICLR'24): samples a GPU and second, and bubble rates at the first number of micro-batches.

A100-80G, sequences of 1024. The paper does not state the size of the vocabulary (--vocab). ZB-H1 and ZB-H2 are its orders by
hand, given as such. ZB-1p and ZB-2p are found by its search under the memory of 1F1B's activations and twice that; beside
them stand the orders that our compiler fits, with as many micro-batches saved as 1F1B saves, and with --fill_memory in
what 1F1B takes where it saves P more.

Samples are of runs whose first and last stage have one layer fewer, for the embedding and the head, so with three chunks a
stage the first position along the pipe and the last have none. Bubble rates are not of runs: the paper computes them from one
F, B, W and transfer, the same on every stage. So ours are simulated with a layer more on these two, and a tiny vocabulary;
beside them stands what the stages of the run idle on average.
"""
import os

from benchmarks.published_runs import PEAKS, UNFUSED, UNFUSED_MODEL, Fact, Model, Plan, Row, System, find_figures

TABLE = "Zero Bubble"
SEQUENCE, CHUNKS = 1024, 3
NO_BARRIER = ("--global_norm=false", "--clip=0")  # updates do not wait for the norm: its "post-validation"
# name, layers, heads, hidden, stages, sequences a micro-batch
MODELS = {"1.5B": (22, 24, 2304, 8, 6), "14.6B": (46, 40, 5120, 16, 1)}
# samples/GPU/s by micro-batches
SAMPLES = {
    "1.5B": {24: {"ZB-2p": 14.5, "ZB-1p": 12.9, "1F1B": 11.8, "interleaved": 13.1},
             32: {"ZB-2p": 14.8, "ZB-1p": 13.4, "1F1B": 12.5, "interleaved": 13.4},
             64: {"ZB-2p": 14.9, "ZB-1p": 14.2, "1F1B": 13.6, "interleaved": 13.9}},
    "14.6B": {48: {"ZB-2p": 1.81, "ZB-1p": 1.61, "1F1B": 1.40, "interleaved": 1.54},
              64: {"ZB-2p": 1.83, "ZB-1p": 1.67, "1F1B": 1.49, "interleaved": 1.59},
              128: {"ZB-2p": 1.85, "ZB-1p": 1.76, "1F1B": 1.64, "interleaved": 1.66}},
}
# "GB" of the device that took most, taken as GiB: the paper does not say which.
PEAKS_GIB = {"1.5B": {"ZB-2p": 59, "ZB-1p": 32, "1F1B": 30, "interleaved": 40},
             "14.6B": {"ZB-2p": 51, "ZB-1p": 33, "1F1B": 32, "interleaved": 39}}
FEW_WORDS = 8  # so few that neither the embedding nor the head takes time
# Published bubbles of a step, at the first number of micro-batches; ours, for equal stages, must be within 2 points.
BUBBLES = {
    "1.5B": {"1F1B": .2431, "interleaved": .1055, "ZB-H1": .1585, "ZB-H2": .1083, "ZB-1p": .1585, "ZB-2p": .0433},
    "14.6B": {"1F1B": .2552, "interleaved": .1104, "ZB-H1": .1397, "ZB-H2": .0672, "ZB-1p": .1397, "ZB-2p": .0066},
}


def by_hand(stages, stage, m, extra):
    """The tasks of one stage in ZB-H1 (extra = 0) and ZB-H2 (extra = stages - 1)."""
    forwards = min(m, stages - stage + min(extra, stages - stage - 1))
    behind = min(m, stages + extra) - forwards  # backwards before the first W
    tasks = [f"F{i}" for i in range(forwards)]
    for i in range(m):
        tasks.append(f"B{i}")
        if i >= behind:
            tasks.append(f"W{i - behind}")
        if i + forwards < m:
            tasks.append(f"F{i + forwards}")
    return tasks + [f"W{i}" for i in range(m - behind, m)]


def stage_layers(schedule, layers, stages, equal):
    """The number of layers of each position along the pipe."""
    positions = stages * (CHUNKS if schedule == "interleaved" else 1)
    each = (layers + 2) // stages if positions == stages else layers // (positions - 2)
    ends = [each if equal else each - 1]
    return "--stage_layers=" + ",".join(map(str, ends + [each] * (positions - 2) + ends))


def write_order(folder, stages, m, extra):
    """A file with an order by hand, named by what it says; its path."""
    orders = [" ".join(by_hand(stages, stage, m, extra)) for stage in range(stages)]
    text = "".join(f'stage {{ task: "{order}" }}\n' for order in orders)
    path = os.path.join(folder, f"order-{stages}-{m}-{extra}.textproto")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return os.path.basename(path)


def schedule_flags(simulator, schedule, stages, m, twice):
    """The flags for a schedule of the paper; twice: the bytes that 1F1B takes if it saves P more."""
    if schedule == "interleaved":
        return ("--schedule=interleaved", f"--chunks={CHUNKS}")
    if schedule == "1F1B":
        return ("--schedule=1f1b",)
    if schedule == "1F1B + P":
        return ("--schedule=1f1b", f"--extra_in_flight={stages}")
    if schedule in ("ZB-H1", "ZB-H2"):
        return ("--order=" + write_order(simulator.folder, stages, m, 0 if schedule == "ZB-H1" else stages - 1), *NO_BARRIER)
    more = ("--fill_memory", f"--memory={twice}", "--reserve=0") if schedule == "ZB-2p" else ()
    return ("--schedule=zero_bubble", *NO_BARRIER, *more)


def plain_bubble(schedule, stages, m):
    """The bubble by the paper's formula, for equal stages, F = B = W and free links."""
    idle = {"1F1B": 3, "interleaved": 3 / CHUNKS, "ZB-H1": 1, "ZB-1p": 1, "ZB-H2": 0, "ZB-2p": 0}[schedule] * (stages - 1)
    return idle / (3 * m + idle)


SCRIPT = "sail-sg/zero-bubble-pipeline-parallelism, examples/pretrain_zero_bubble.sh"
SYSTEM = System(
    name="Zero Bubble's Megatron-LM of 2023",
    of="megatron",
    kernels=Fact("fused: bias and gelu, bias, dropout and sum, scale, mask and softmax; here separate", "assumed: Megatron-LM's defaults"),
    attention=Fact("unfused: two products, softmax and dropout, with probabilities in memory", SCRIPT + ", no --use-flash-attn"),
    overlaps=Fact("sends and receives of zero bubble; here of all schedules", "the paper, section 4"),
    optimizer=Fact("Adam; updates of zero bubble do not wait for the norm (post-validation)", "the paper, section 4"),
    gradients=Fact("no data parallelism; fp16, here bf16", SCRIPT),
    recompute=Fact("none", SCRIPT),
    micro_batch=Fact("6 (1.5B) and 1 (14.6B)", "the paper, table 3"),
)


def make_plan(simulator, name, vocab, equal, schedule, m):
    """The plan of a model of the paper: as it ran (the ends have a layer fewer), or all stages equal."""
    layers, heads, hidden, stages, size = MODELS[name]
    twice = 0
    if schedule == "ZB-2p":
        twice = simulator.arena_bytes(make_plan(simulator, name, vocab, equal, "1F1B + P", m))
    # All equal: the layers of the ends make positions for interleaving, too, one each of three chunks.
    model = Model(layers + 2, heads, hidden, SEQUENCE, FEW_WORDS) if equal else Model(layers, heads, hidden, SEQUENCE, vocab)
    flags = (stage_layers(schedule, layers, stages, equal), *schedule_flags(simulator, schedule, stages, m, twice))
    return Plan(model, "a100", f"pipe={stages}", size * m, m, UNFUSED_MODEL, (*UNFUSED, *flags), steps=3)


def simulate_pipeline(simulator, *of):
    """The JSON of `oneflow simulate` for such a plan."""
    return simulator.run(make_plan(simulator, *of))


SCHEDULES = {"1F1B": "1f1b", "interleaved": "interleaved", "ZB-1p": "zero_bubble", "ZB-2p": "zero_bubble_2p"}


def describe_run(name, vocab, schedule, m):
    """The run as the fields of formula_bytes.cc; None of an order by hand."""
    if schedule not in SCHEDULES:
        return None
    layers, heads, hidden, stages, size = MODELS[name]
    blocks = [int(n) for n in stage_layers(schedule, layers, stages, False).partition("=")[2].split(",")]
    return {"system": "megatron-lm", "model": Model(layers, heads, hidden, SEQUENCE, vocab).text() + " attention: 'unfused'",
            "devices": stages, "micro": size, "micro_batches": m, "pipe": stages, "schedule": SCHEDULES[schedule],
            "chunks": CHUNKS if schedule == "interleaved" else 1, "stage_layers": blocks, "precision": "fp16", "dropout": 0.1}


def make_rows(name, m, schedule, published, first, vocab):
    layers, heads, hidden, stages, size = MODELS[name]

    figures = find_figures(Model(layers, heads, hidden, SEQUENCE, vocab), stages, size * m)

    def bubble(equal):
        return lambda simulator: simulate_pipeline(simulator, name, vocab, equal, schedule, m)["bubble"]

    def samples(simulator):
        return size * m / stages / simulate_pipeline(simulator, name, vocab, False, schedule, m)["step_seconds"]

    def planned(simulator):
        return simulator.arena_bytes(make_plan(simulator, name, vocab, False, schedule, m)) / 2**30

    def make_row(unit, figure, at_peak, simulate, counted):
        peak = PEAKS_GIB[name].get(schedule) if first and counted else None  # as much at any number of micro-batches
        return Row(TABLE, name, f"{name} m={m} {schedule}", "a100", 1, unit, figure, at_peak, SYSTEM, simulate, counted,
                   question=f"m={m}", figures=figures, peak_gib=peak, planned_gib=planned,
                   ran=describe_run(name, vocab, schedule, m),
                   band=lambda simulator: simulate_pipeline(simulator, name, vocab, False, schedule, m)["compared"])

    found = []
    if first:
        plain = plain_bubble(schedule, stages, m)
        found += [make_row(unit, BUBBLES[name][schedule], plain, bubble(unit == "bubble"), False)
                  for unit in ("bubble", "bubble of the run")]
    if schedule in published:
        at_peak = PEAKS["a100"] / Model(layers, heads, hidden, SEQUENCE, vocab).step_flops(1)
        found.append(make_row("samples/GPU/s", published[schedule], at_peak, samples, True))
    return found


def rows(args):
    return [row for name in MODELS for m, published in SAMPLES[name].items()
            for schedule in (BUBBLES[name] if m == min(SAMPLES[name]) else published)
            for row in make_rows(name, m, schedule, published, m == min(SAMPLES[name]), args.vocab)]
