"""Zero Bubble (Qi et al., ICLR'24): samples a GPU and second, and bubble rates at the first number of micro-batches.

A100-80G, sequences of 1024; the first and the last stage have one layer fewer, so with three chunks a stage the first place
along the pipe and the last have none. The paper does not say how many words there are (--vocab). ZB-H1 and ZB-H2 are its
orders by hand, given as such. ZB-1p and ZB-2p are found by its search under the memory of 1F1B's activations and twice that;
beside them stand the orders that our compiler fits, with as many micro-batches saved as 1F1B saves, and with
--fill_memory in what 1F1B takes where it saves P more.
"""
import os

from benchmarks.published_runs import PEAK, Model, Row

PAPER = "Zero Bubble"
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
# Of a step, at the first number of micro-batches; ours is to be within 2 points.
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


def flags_of(simulator, schedule, layers, stages, m, twice):
    """How the compiler is asked for a schedule of the paper; twice: bytes that 1F1B takes where it saves P more."""
    if schedule == "interleaved":
        middle = layers // (CHUNKS * stages - 2)
        places = [0] + [middle] * (CHUNKS * stages - 2) + [0]
        return ("--schedule=interleaved", f"--chunks={CHUNKS}", "--stage_layers=" + ",".join(map(str, places)))
    a_stage = (layers + 2) // stages
    placed = "--stage_layers=" + ",".join(map(str, [a_stage - 1] + [a_stage] * (stages - 2) + [a_stage - 1]))
    if schedule == "1F1B":
        return ("--schedule=1f1b", placed)
    if schedule == "1F1B + P":
        return ("--schedule=1f1b", f"--extra_in_flight={stages}", placed)
    if schedule in ("ZB-H1", "ZB-H2"):
        extra = 0 if schedule == "ZB-H1" else stages - 1
        with open(os.path.join(simulator.folder, "order.textproto"), "w", encoding="utf-8") as file:
            for stage in range(stages):
                file.write(f'stage {{ task: "{" ".join(by_hand(stages, stage, m, extra))}" }}\n')
        return ("--order=order.textproto", placed, *NO_BARRIER)
    more = ("--fill_memory", f"--memory={twice}") if schedule == "ZB-2p" else ()
    return ("--schedule=zero_bubble", placed, *NO_BARRIER, *more)


def plain_bubble(schedule, stages, m):
    """What its formula says of equal stages, F = B = W and free links."""
    idle = {"1F1B": 3, "interleaved": 3 / CHUNKS, "ZB-H1": 1, "ZB-1p": 1, "ZB-H2": 0, "ZB-2p": 0}[schedule] * (stages - 1)
    return idle / (3 * m + idle)


def rows(simulator, args):
    found = []
    for name, (layers, heads, hidden, stages, size) in MODELS.items():
        model = Model(layers, heads, hidden, SEQUENCE, args.vocab)
        plain = PEAK / model.step_flops(1)
        for m, published in SAMPLES[name].items():
            def simulate(schedule, twice=0):
                flags = flags_of(simulator, schedule, layers, stages, m, twice)
                return simulator.simulate(model, f"pipe={stages}", size * m, m, *flags, steps=3)

            twice = max(stage["arena_bytes"] for stage in simulate("1F1B + P")["stages"])
            first = m == min(SAMPLES[name])
            for schedule in BUBBLES[name] if first else published:
                step = simulate(schedule, twice)
                run = f"{name} m={m} {schedule}"
                if first:
                    found.append(Row(PAPER, run, "bubble", BUBBLES[name][schedule], step["bubble"],
                                     plain_bubble(schedule, stages, m), in_mean=False))
                if schedule in published:
                    found.append(Row(PAPER, run, "samples/GPU/s", published[schedule], size * m / stages / step["step_seconds"], plain))
    return found
