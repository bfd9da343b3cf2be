"""Reducing Activation Recomputation (Korthikanti et al., 2022): seconds a step of 22B and 530B, and one 22B layer's ms.

A layer is the difference between a model of three layers and one of two.
"""
from benchmarks.published_runs import PEAK, Model, Row

PAPER = "Korthikanti"
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


def step_rows(simulator):
    found = []
    for name, heads, hidden, layers, pipe, gpus, batch, size, chunks, full, selective in STEPS:
        model = Model(layers, heads, hidden, SEQUENCE, VOCAB)
        mesh = f"pipe={pipe},tensor={TENSOR}" if pipe > 1 else f"tensor={TENSOR}"
        interleaved = ["--schedule=interleaved", f"--chunks={chunks}"] if chunks > 1 else []
        for what, flags, recompute, seconds in [("full recompute", FULL, "full", full),
                                                ("selective, SP", SELECTIVE_SP, "selective", selective)]:
            step = simulator.simulate(model, mesh, batch, batch // size, *flags, *interleaved)
            found.append(Row(PAPER, f"{name} {what}", "s a step", seconds, step["step_seconds"],
                             model.plain_seconds(batch, gpus, recompute)))
    return found


def segment_seconds(simulation, segment):
    """Seconds of the first segment of a kind."""
    stream = next(s for s in simulation["stages"][0]["streams"] if s["name"] == "compute")
    return next(end - begin for name, _, _, begin, end in stream["blocks"] if name == segment)


def layer_rows(simulator):
    found = []
    _, heads, hidden, _, _, _, _, size, *_ = STEPS[0]
    two, three = (Model(layers, heads, hidden, SEQUENCE, VOCAB) for layers in (2, 3))
    for what, flags, recompute, forward, backward in LAYER:
        runs = [simulator.simulate(model, f"tensor={TENSOR}", size, 1, *flags) for model in (two, three)]
        whole = 1e3 * (three.plain_seconds(size, TENSOR, recompute) - two.plain_seconds(size, TENSOR, recompute))
        plain = 1e3 * (three.plain_seconds(size, TENSOR) - two.plain_seconds(size, TENSOR)) / 3
        for segment, published, formula in [("F", forward, plain), ("B", backward, whole - plain)]:
            ms = 1e3 * (segment_seconds(runs[1], segment) - segment_seconds(runs[0], segment))
            found.append(Row(PAPER, f"22B layer, {what}, {segment}", "ms", published, ms, formula))
    return found


def rows(simulator, args):
    return step_rows(simulator) + layer_rows(simulator)
