"""Simulates a run that a paper reports: the same cluster, graph options and flags for all papers.

The cluster is examples/clusters/a100.textproto. Published systems keep all activations in 16 bits, write attention's
probabilities to memory, and train with dropout whose masks they store.
"""
import dataclasses
import functools
import json
import os
import subprocess

from benchmarks.sides import ROOT

CLUSTER = os.path.join(ROOT, "examples/clusters/a100.textproto")
MODEL_FLAGS = ("--attention=unfused", "--dropout=0.1", "--masks=stored", "--tied=false")
PLAN_FLAGS = ("--precision=bf16", "--residual=bf16", "--fuse=false", "--keep_axis_order")
PEAK = 312e12  # FLOP/s, A100 in bf16


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPT as papers give it."""
    layers: int
    heads: int
    hidden: int
    sequence: int
    vocab: int

    def step_flops(self, sequences, recompute="none"):
        """FLOPs of a step, as SC'21 counts them: of matrix products, without regard to causality."""
        s, l, h, v = self.sequence, self.layers, self.hidden, self.vocab
        core = 4 * sequences * s * s * h * l  # attention's own products, forward
        forward = 24 * sequences * s * l * h * h + core
        head = 6 * sequences * s * h * v
        return 3 * forward + head + {"none": 0, "selective": core, "full": forward}[recompute]

    def plain_seconds(self, sequences, gpus, recompute="none"):
        """Seconds of a step by the plain formula: all FLOPs at the peak of all GPUs."""
        return self.step_flops(sequences, recompute) / gpus / PEAK


@dataclasses.dataclass(frozen=True)
class Row:
    """A published figure beside ours. Seconds are of a step (or of what `what` says)."""
    paper: str
    name: str
    what: str  # the unit in which it is published
    published: float
    simulated: float
    plain: float
    in_mean: bool = True  # of step times

    def error(self, of="simulated"):
        """The error of the time: a rate that is too high is a time that is too short."""
        ratio = getattr(self, of) / self.published
        return (1 / ratio if self.what in ("samples/GPU/s", "TFLOP/s") else ratio) - 1


class Simulator:
    """Compiles and simulates in a folder."""

    def __init__(self, binaries, folder, cluster):
        self.oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
        self.folder, self.cluster = folder, "--cluster=" + os.path.abspath(cluster)

    def _run(self, *args, check=True):
        return subprocess.run([self.oneflow, *args], cwd=self.folder, check=check, capture_output=True, text=True)

    @functools.cache
    def _graph(self, model):
        path = os.path.join(self.folder, "-".join(map(str, dataclasses.astuple(model))) + ".textproto")
        shape = [f"--{name}={value}" for name, value in dataclasses.asdict(model).items()]
        self._run("model", "gpt", *shape, *MODEL_FLAGS, "--out=" + path)
        return path

    def simulate(self, model, mesh, batch, micro_batches, *flags, steps=2):
        """The JSON of `oneflow simulate`; None where a device has not the memory."""
        plan = self._run("compile", "--graph=" + self._graph(model), "--mesh=" + mesh, f"--batch={batch}",
                         f"--micro_batches={micro_batches}", self.cluster, "--out=gpt.plan", *PLAN_FLAGS, *flags, check=False)
        if plan.returncode != 0:
            if "a device has" in plan.stderr:
                return None
            raise RuntimeError(f"{model} on {mesh}: {plan.stderr}")
        done = self._run("simulate", "--plan=gpt.plan", self.cluster, "--format=json", f"--steps={steps}")
        return json.loads(done.stdout)
