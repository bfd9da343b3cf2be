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


def schedule_flags(simulator, schedule, stages, m, twice):
    """The flags for a schedule of the paper; twice: the bytes that 1F1B takes if it saves P more."""
    if schedule == "interleaved":
        return ("--schedule=interleaved", f"--chunks={CHUNKS}")
    if schedule == "1F1B":
        return ("--schedule=1f1b",)
    if schedule == "1F1B + P":
        return ("--schedule=1f1b", f"--extra_in_flight={stages}")
    if schedule in ("ZB-H1", "ZB-H2"):
        extra = 0 if schedule == "ZB-H1" else stages - 1
        with open(os.path.join(simulator.folder, "order.textproto"), "w", encoding="utf-8") as file:
            for stage in range(stages):
                file.write(f'stage {{ task: "{" ".join(by_hand(stages, stage, m, extra))}" }}\n')
        return ("--order=order.textproto", *NO_BARRIER)
    more = ("--fill_memory", f"--memory={twice}") if schedule == "ZB-2p" else ()
    return ("--schedule=zero_bubble", *NO_BARRIER, *more)


def plain_bubble(schedule, stages, m):
    """The bubble by the paper's formula, for equal stages, F = B = W and free links."""
    idle = {"1F1B": 3, "interleaved": 3 / CHUNKS, "ZB-H1": 1, "ZB-1p": 1, "ZB-H2": 0, "ZB-2p": 0}[schedule] * (stages - 1)
    return idle / (3 * m + idle)


class Pipeline:
    """The stages of one of the paper's models: as it ran (the ends have a layer fewer), or all equal."""

    def __init__(self, simulator, name, vocab, equal):
        self._simulator, self._name, self._equal = simulator, name, equal
        layers, heads, hidden, _, _ = MODELS[name]
        # All equal: the layers of the ends make positions for interleaving, too, one each of three chunks.
        self.model = Model(layers + 2, heads, hidden, SEQUENCE, FEW_WORDS) if equal else Model(layers, heads, hidden, SEQUENCE, vocab)

    def simulate(self, schedule, m):
        """The JSON of `oneflow simulate`."""
        twice = 0
        if schedule == "ZB-2p":
            twice = max(stage["arena_bytes"] for stage in self.simulate("1F1B + P", m)["stages"])
        layers, _, _, stages, size = MODELS[self._name]
        flags = schedule_flags(self._simulator, schedule, stages, m, twice)
        placed = stage_layers(schedule, layers, stages, self._equal)
        return self._simulator.simulate(self.model, f"pipe={stages}", size * m, m, placed, *flags, steps=3)


def rows(simulator, args):
    found = []
    for name, (_, _, _, stages, size) in MODELS.items():
        ran, equal = (Pipeline(simulator, name, args.vocab, equal) for equal in (False, True))
        plain = PEAK / ran.model.step_flops(1)
        for m, published in SAMPLES[name].items():
            first = m == min(SAMPLES[name])
            for schedule in BUBBLES[name] if first else published:
                step = ran.simulate(schedule, m)
                run = f"{name} m={m} {schedule}"
                if first:
                    bubbles = {"bubble": equal.simulate(schedule, m)["bubble"], "bubble of the run": step["bubble"]}
                    found += [Row(PAPER, run, what, BUBBLES[name][schedule], bubble, plain_bubble(schedule, stages, m), in_mean=False)
                              for what, bubble in bubbles.items()]
                if schedule in published:
                    found.append(Row(PAPER, run, "samples/GPU/s", published[schedule], size * m / stages / step["step_seconds"], plain))
    return found
