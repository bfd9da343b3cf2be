"""tools/bench overlap: simulates how much of the exchanges of large models is hidden behind compute.

Three systems are simulated, with and without --overlap and --shard=states: a step, hidden exchange and exposed
exchange, on a device of stage 0. With overlap, two more figures are printed: the hidden part of the gradients'
exchange, relative to the part that could be hidden (the smaller of the exchange and the last backward from its first
finished gradient on), and the slowdown of the last backward on links that are 1.3 times slower than those that the
plan was compiled for.
"""
import dataclasses
import json
import os
import re
import subprocess

from benchmarks.sides import ROOT

TARGETS = ["//tools/oneflow"]
SLOWER = 1.3


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    model: tuple
    cluster: str
    plan: tuple


SYSTEMS = [
    System("22B, data=8,tensor=8, H100", ("--layers=48", "--hidden=6144", "--heads=64", "--sequence=2048", "--vocab=51200"),
           "h100", ("--mesh=data=8,tensor=8", "--batch=64", "--micro_batches=4")),
    System("32B, data=48,tensor=8, H100", ("--layers=48", "--hidden=7168", "--heads=56", "--sequence=4096", "--vocab=131072"),
           "h100", ("--mesh=data=48,tensor=8", "--batch=192", "--micro_batches=1", "--recompute=selective")),
    System("175B, pipe=8,data=8,tensor=8, A100", ("--layers=96", "--hidden=12288", "--heads=96", "--sequence=2048", "--vocab=51200"),
           "a100", ("--mesh=pipe=8,data=8,tensor=8", "--batch=512", "--micro_batches=64", "--recompute=selective")),
]
FLAGS = ("--precision=bf16", "--residual=bf16", "--sequence_parallel")
SIDES = [(overlap, shard) for shard in ("none", "states") for overlap in ("false", "true")]


def add_flags(parser):
    parser.add_argument("--only", help="only systems whose names contain this")


class Folder:
    def __init__(self, oneflow, folder):
        self.oneflow, self.folder = oneflow, folder

    def call(self, *args):
        return subprocess.run([self.oneflow, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def simulate(self, cluster):
        """The JSON of a simulation, and the firings of stage 0 in one step by stream."""
        summary = json.loads(self.call("simulate", "--plan=gpt.plan", "--cluster=" + cluster, "--format=json"))
        self.call("simulate", "--plan=gpt.plan", "--cluster=" + cluster, "--steps=1", "--trace=trace.json")
        with open(os.path.join(self.folder, "trace.json")) as trace:
            events = json.load(trace)["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] % 1000000 == 0}
        streams = {name: [] for name in names.values()}
        for e in events:
            if e["ph"] == "X" and e["pid"] % 1000000 == 0:
                streams[names[e["tid"]]].append((e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"]))
        return summary, streams

    def slower(self, cluster):
        """A cluster file whose links are slower."""
        with open(cluster) as file:
            text = file.read()
        rate = lambda match: f"bandwidth: {float(match[1]) / SLOWER}"
        head, *levels = re.split(r"(?=^level \{)", text, flags=re.M)
        path = os.path.join(self.folder, "slower.textproto")
        with open(path, "w") as file:
            file.write(head + "".join(re.sub(r"\bbandwidth: (\S+)", rate, level) for level in levels))
        return path


def last_backward(streams):
    """When the last backward begins, when its first gradient is finished, and when it ends."""
    compute = streams["compute"]
    loss = max((end for _, end, name in compute if name == "loss.dlogits"), default=None)
    grads = [(begin, end, name) for begin, end, name in compute if re.search(r"\.d(x|w|qkv|bias|table|logits)\b", name)]
    # The last firing of each gradient of weights; the earliest of those is the first finished gradient.
    finished = {}
    for _, end, name in grads:
        if re.search(r"\.d(w|bias|table)$", name):
            finished[name] = max(end, finished.get(name, 0))
    first, end = min(finished.values()), max(end for _, end, _ in grads)
    begin = loss if loss is not None else min(b for b, _, name in grads if b >= first - (end - first))
    return min(begin, first), first, end


def hidden_gradients(streams):
    """Seconds of the exchange of gradients: all, those that could be hidden and those that are."""
    _, first, end = last_backward(streams)
    spans = [(b, e) for b, e, _ in streams["gradient"] if b >= first]
    exchange = sum(e - b for b, e in spans)
    hidden = sum(max(0.0, min(e, end) - b) for b, e in spans)
    return exchange, min(exchange, end - first), hidden


def side(folder, cluster, system, overlap, shard):
    folder.call("compile", "--graph=gpt.textproto", *system.plan, *FLAGS, "--cluster=" + cluster, "--overlap=" + overlap,
                "--shard=" + shard, "--out=gpt.plan")
    summary, streams = folder.simulate(cluster)
    stage = summary["stages"][0]
    row = {"overlap": overlap, "shard": shard, "step": summary["step_seconds"], "arena_bytes": stage["arena_bytes"],
           **{part: stage[part + "_seconds"] for part in ("compute", "exposed_exchange", "hidden_exchange", "idle")}}
    if overlap == "true":
        row["gradients"], row["could_hide"], row["hides"] = hidden_gradients(streams)
        begin, _, end = last_backward(streams)
        slow_begin, _, slow_end = last_backward(folder.simulate(folder.slower(cluster))[1])
        row["backward_on_slower_links"] = (slow_end - slow_begin) / (end - begin)
    return row


def print_system(name, rows):
    print(name)
    base = rows[0]
    for r in rows:
        line = (f"  overlap={r['overlap']:5} shard={r['shard']:6}  step {r['step']:7.3f} s ({r['step'] / base['step']:.2f})  "
                f"compute {r['compute']:7.3f}  exposed {r['exposed_exchange']:6.3f} "
                f"({r['exposed_exchange'] / base['exposed_exchange']:.2f})  hidden {r['hidden_exchange']:6.3f}  "
                f"idle {r['idle']:6.3f}  {r['arena_bytes'] / 1e9:5.1f} GB")
        if "hides" in r:
            line += (f"  gradients {r['gradients']:.3f}, of {r['could_hide']:.3f} hidden {r['hides']:.3f} "
                     f"({100 * r['hides'] / r['could_hide']:.0f} %); last backward x {r['backward_on_slower_links']:.2f} "
                     f"on links x {SLOWER}")
        print(line)


def run(args, binaries):
    import tempfile
    result = {}
    for system in SYSTEMS:
        if args.only and args.only not in system.name:
            continue
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(os.path.join(binaries, "tools/oneflow/oneflow"), path)
            folder.call("model", "gpt", *system.model, "--out=gpt.textproto")
            cluster = os.path.join(ROOT, f"examples/clusters/{system.cluster}.textproto")
            result[system.name] = [side(folder, cluster, system, *flags) for flags in SIDES]
        if args.format == "text":
            print_system(system.name, result[system.name])
    if args.format == "json":
        print(json.dumps(result))
