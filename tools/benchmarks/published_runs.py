"""Rows of published runs, and how they are simulated.

A row has a published figure, the system that ran it, and a function that simulates it. All figures of time are errors of the
time of a step: a rate that is too high is a time that is too short.
"""
import collections
import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
import threading
import typing

from benchmarks.cluster_text import read_slowdowns
from benchmarks.sides import ROOT

PEAKS = {"a100": 312e12, "h100": 989e12, "h100-96g": 989e12, "b200": 2250e12}  # FLOP/s in bf16, dense
CLUSTERS = {kind: os.path.join(ROOT, f"examples/clusters/{kind}.textproto") for kind in PEAKS}
RATES = ("samples/GPU/s", "TFLOP/s", "tokens/s/GPU")  # units of which more is faster
BUBBLES = ("bubble", "bubble of the run")
BF16 = ("--precision=bf16", "--keep_axis_order")
# Systems of 2021 to 2023 on A100s: all activations in 16 bits, attention's probabilities in memory, masks of dropout stored.
UNFUSED_MODEL = ("--attention=unfused", "--dropout=0.1", "--masks=stored", "--tied=false")
UNFUSED = (*BF16, "--residual=bf16", "--fuse=false")

# What a system does, and the source that says so: a document, a file, or "assumed".
Fact = collections.namedtuple("Fact", "says source")


@dataclasses.dataclass(frozen=True)
class System:
    """What a published system does that decides how long a step takes. Fields without a default are Facts, but the first two."""
    name: str
    of: str  # the system of a cluster file of whose runs these are
    kernels: Fact
    attention: Fact
    overlaps: Fact
    optimizer: Fact
    gradients: Fact
    recompute: Fact
    micro_batch: Fact
    attention_library: str = ""  # of the device; empty: the one that the cluster file names

    def facts(self):
        """Names and facts, in the order of the fields."""
        return [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if isinstance(getattr(self, f.name), Fact)]


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPT as papers give it."""
    layers: int
    heads: int
    hidden: int
    sequence: int
    vocab: int
    experts = 0

    def text(self):
        """The model as a text proto."""
        return "family: 'gpt' bias: true tied: false " + " ".join(f"{name}: {value}" for name, value in dataclasses.asdict(self).items())

    def graph_args(self):
        """The family and the sizes, for `oneflow model`."""
        return ["gpt", *(f"--{name}={value}" for name, value in dataclasses.asdict(self).items())]

    def parameters(self):
        return 12 * self.layers * self.hidden**2 + self.vocab * self.hidden

    def step_flops(self, sequences, recompute="none"):
        """FLOPs of a step, as SC'21 counts them: of matrix products, without regard to causality."""
        s, l, h, v = self.sequence, self.layers, self.hidden, self.vocab
        core = 4 * sequences * s * s * h * l  # attention's own products, forward
        forward = 24 * sequences * s * l * h * h + core
        head = 6 * sequences * s * h * v
        return 3 * forward + head + {"none": 0, "selective": core, "full": forward}[recompute]


@dataclasses.dataclass(frozen=True)
class Llama:
    """A model of the family of Llama, whose head is no transposed embedding."""
    layers: int
    heads: int
    groups: int
    hidden: int
    inner: int
    sequence: int
    vocab: int
    experts: int = 0
    experts_per_token: int = 1

    def text(self):
        """The model as a text proto. Requires one without experts."""
        sizes = {name: value for name, value in dataclasses.asdict(self).items() if not name.startswith("experts")}
        return "family: 'llama' tied: false " + " ".join(f"{name}: {value}" for name, value in sizes.items())

    def graph_args(self):
        """The family and the sizes, for `oneflow model`."""
        sizes = dataclasses.asdict(self)
        if not self.experts:
            del sizes["experts_per_token"]
        return ["llama", *(f"--{name}={value}" for name, value in sizes.items()), "--tied=false"]

    def weights(self, experts):
        """Elements of the matrices of a block of which this many experts are counted."""
        return self.hidden**2 * (2 + 2 * self.groups / self.heads) + 3 * experts * self.hidden * self.inner

    def parameters(self):
        return self.layers * self.weights(max(self.experts, 1)) + 2 * self.vocab * self.hidden

    def step_flops(self, sequences, recompute="none"):
        """FLOPs of a step, of matrix products, without regard to causality."""
        tokens = sequences * self.sequence
        core = 4 * tokens * self.sequence * self.hidden * self.layers
        forward = 2 * tokens * self.layers * self.weights(self.experts_per_token) + core
        return 3 * forward + 6 * tokens * self.vocab * self.hidden + {"none": 0, "selective": core, "full": forward}[recompute]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is compiled and simulated: flags of `oneflow model` besides the sizes, and of `oneflow compile`."""
    model: Model | Llama
    device: str  # a key of CLUSTERS
    mesh: str
    batch: int
    micro_batches: int
    model_flags: tuple
    flags: tuple
    steps: int = 2
    attention_library: str = ""
    spread: str = "0"  # of slow nodes, as --spread of `oneflow simulate`

    def graph_args(self):
        return ["model", *self.model.graph_args(), *self.model_flags]

    def compile_args(self):
        return ["--mesh=" + self.mesh, f"--batch={self.batch}", f"--micro_batches={self.micro_batches}", *self.flags]

    def key(self):
        """A name of the compiled plan's file, by all that it is made of but the cluster file."""
        made_of = json.dumps([self.device, self.graph_args(), self.compile_args()])
        return hashlib.sha256(made_of.encode()).hexdigest()[:24]


def seconds_of(seconds, flops):
    """The figure of a row that is published as a time."""
    return seconds


def make_mesh(**degrees):
    """The value of --mesh, outermost axis first; axes of one device are left out."""
    return ",".join(f"{axis}={degree}" for axis, degree in degrees.items() if degree > 1)


@dataclasses.dataclass(frozen=True)
class Row:
    """A published figure, and a function of a Simulator that returns ours in the same unit."""
    table: str
    model: str  # rows of one table and model are left out of a fit together
    name: str
    device: str
    tensor: int  # devices that split a tensor
    unit: str
    published: float
    at_peak: float  # what all FLOPs at the peak of all devices would give, in the same unit
    system: System
    simulate: typing.Callable
    counted: bool = True  # in means and in fits
    question: str = ""  # plans of one batch on the same devices, among the rows of a table, model and unit; empty: it has no others
    figures: dict | None = None  # of the run, by the fields of a Region of a cluster file; None: the row is no run
    band: typing.Callable | None = None  # of a Simulator: what stands beside the time of a step (docs/simulate.md)
    peak_gib: float | None = None  # of the device that took most, as published
    planned_gib: typing.Callable | None = None  # of a Simulator: what our plan takes of it
    ran: dict | None = None  # the run as fields of formula_bytes.cc; None: no peak was published

    def ratio(self, figure):
        """The time that a figure means over the published time."""
        return self.published / figure if self.unit in RATES else figure / self.published


def find_figures(model, gpus, batch):
    """The figures of a run by which regions of a system are told apart (proto/cluster.proto, Region)."""
    return {"experts": model.experts > 0, "sequence": model.sequence, "parameters": model.parameters(), "devices": gpus,
            "device_tokens": batch * model.sequence / gpus}


def row_of_plan(plan, gpus, recompute, unit, published, measure, **fields):
    """A row whose figure is a function of the seconds of one plan's step, and of the formula's FLOPs of a step."""
    flops = plan.model.step_flops(plan.batch, recompute)
    at_peak = measure(flops / gpus / PEAKS[plan.device], flops)

    def simulate(simulator):
        return measure(simulator.run(plan)["step_seconds"], flops)

    return Row(device=plan.device, unit=unit, published=published, at_peak=at_peak, simulate=simulate,
               figures=find_figures(plan.model, gpus, plan.batch), band=lambda simulator: simulator.run(plan)["compared"],
               planned_gib=lambda simulator: simulator.arena_bytes(plan) / 2**30, **fields)


def row_of_seconds(plan, gpus, published, *, model, **fields):
    """The row of a plan that recomputes nothing, and whose published figure is the time of a step."""
    return row_of_plan(plan, gpus, "none", "s a step", published, seconds_of, model=model, name=f"{model} on {gpus}", **fields)


def if_it_fits(row, plan):
    """The row of a plan with ample memory: Refused where it needs more than a device has."""
    def simulate(simulator):
        if simulator.arena_bytes(plan) > simulator.memory_bytes(plan.device):
            raise Refused(plan)
        return row.simulate(simulator)

    return dataclasses.replace(row, simulate=simulate)


def fastest_of(rows, **fields):
    """The row of whichever of these that fit is fastest, where a rate is published; `fields`: what else is its own."""
    def simulate(simulator):
        found = []
        for row in rows:
            try:
                found.append(row.simulate(simulator))
            except Refused:
                pass
        return max(found)

    return dataclasses.replace(rows[0], simulate=simulate, **fields)


def cluster_for(attention_library, file, folder):
    """A copy of a cluster file whose device has this library for attention; the file itself if none is asked for."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    library = re.compile(r'^(\s*attention_library:\s*)"[^"]*"', re.M)
    if not attention_library:
        return file
    if library.search(text):
        text = library.sub(rf'\1"{attention_library}"', text)
    else:
        text = text.replace("device {\n", f'device {{\n  attention_library: "{attention_library}"\n', 1)
    path = os.path.join(folder, "cluster-" + hashlib.sha256(text.encode()).hexdigest()[:16] + ".textproto")
    # Other rows may read it meanwhile.
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as out:
        out.write(text)
    os.replace(out.name, path)
    return path


# Plans above a device's memory are compiled, too, and left out of a search: a refusal would take long to advise.
AMPLE = "--memory=400GB"


class Refused(Exception):
    """A plan needs more memory than a device has."""


class Simulator:
    """Compiles plans in a folder, once each, and simulates them on the cluster files of their devices.

    Plans that are already in the folder are taken from there: their layouts are those of the cluster file that they were
    compiled for, and of the compiler that made them.
    """

    def __init__(self, binaries, folder, clusters=None, system=""):
        self._binaries, self._system = binaries, system
        self.of = functools.cache(self._of)
        self.folder = os.path.abspath(folder)
        self.clusters = {kind: os.path.abspath(file) for kind, file in {**CLUSTERS, **(clusters or {})}.items()}
        self.run = functools.cache(self._run)
        os.makedirs(self.folder, exist_ok=True)

    def on(self, clusters):
        """A simulator of the same folder with other cluster files."""
        return Simulator(self._binaries, self.folder, {**self.clusters, **clusters})

    def _of(self, system):
        """A simulator of the same folder and files with --system, where the file of a device has that system."""
        return Simulator(self._binaries, self.folder, self.clusters, system)

    def memory_bytes(self, device):
        """What a plan may take of one device."""
        with open(self.clusters[device], encoding="utf-8") as file:
            text = file.read()
        base = re.search(r'^base: "(.*)"', text, re.M)
        if base:  # what the file does not say
            with open(os.path.join(ROOT, f"examples/clusters/{base[1]}.textproto"), encoding="utf-8") as file:
                text += file.read()
        offered, reserve = (re.search(name + r"_bytes: (\d+)", text) for name in ("memory", "reserve"))
        return int(offered[1]) - (int(reserve[1]) if reserve else 0)

    def _call(self, *args, check=True):
        oneflow = os.path.join(self._binaries, "tools/oneflow/oneflow")
        done = subprocess.run([oneflow, *args], cwd=self.folder, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"oneflow {' '.join(args)}: {done.stderr}")
        return done

    def _compile(self, plan, cluster):
        """The path of the compiled plan."""
        path, sizes, refusal = (os.path.join(self.folder, plan.key() + end) for end in (".plan", ".bytes", ".refused"))
        if os.path.exists(refusal):
            raise Refused(plan)
        if os.path.exists(path) and os.path.exists(sizes):
            return path
        graph, new = (f"{path}.{threading.get_ident()}.{end}" for end in ("graph", "new"))
        self._call(*plan.graph_args(), "--out=" + graph)
        done = self._call("compile", "--graph=" + graph, *plan.compile_args(), "--cluster=" + cluster, "--out=" + new, "--format=json",
                          check=False)
        os.remove(graph)
        if done.returncode != 0:
            if "a device has" not in done.stderr:
                raise RuntimeError(f"{plan}: {done.stderr}")
            with open(refusal, "w", encoding="utf-8") as file:
                file.write(done.stderr)
            raise Refused(plan)
        with open(sizes, "w", encoding="utf-8") as file:
            file.write(str(json.loads(done.stdout)["headline"]["bytes_a_device"]))
        os.replace(new, path)  # never half a plan under its name
        return path

    def _cluster(self, plan):
        return cluster_for(plan.attention_library, self.clusters[plan.device], self.folder)

    def _run(self, plan):
        """The JSON of `oneflow simulate`; raises Refused where a device has not the memory."""
        cluster = self._cluster(plan)
        path = self._compile(plan, cluster)
        with open(cluster, encoding="utf-8") as file:
            system = ["--system=" + self._system] if self._system in read_slowdowns(file.read()) else []
        done = self._call("simulate", "--plan=" + path, "--cluster=" + cluster, *system, "--format=json", f"--steps={plan.steps}",
                          f"--spread={plan.spread}", *(["--imbalance=1.25"] if plan.model.experts else []))
        return json.loads(done.stdout)

    def arena_bytes(self, plan):
        """What the plan needs of the device that needs the most."""
        path = self._compile(plan, self._cluster(plan))
        with open(path.removesuffix(".plan") + ".bytes", encoding="utf-8") as file:
            return int(file.read())


def log_ratio(row, figure):
    """The logarithm of the simulated over the published time."""
    return math.log(row.ratio(figure))
