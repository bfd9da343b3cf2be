"""tools/bench overlap: simulates how much of the exchanges of large models is hidden behind compute.

Three systems are simulated, with and without --overlap and --shard=states: a step, hidden exchange and exposed
exchange, on a device of stage 0. With overlap, two more figures are printed: the hidden part of the gradients'
exchange, relative to the part that could be hidden (the smaller of the exchange and the last backward from its first
finished gradient on), and the slowdown of the last backward on links that are 1.3 times slower than those that the
plan was compiled for. Then models with --shard=weights follow (overlap_sharded.py defines the figures).

With --processes=2: a small model with --shard=weights is trained in two processes over a slow link, without gathers
that run ahead and with them (root; overlap_far.py).
"""
import dataclasses
import json
import os
import re
import tempfile

from benchmarks import overlap_far, overlap_sharded
from benchmarks.overlap_plans import Folder, slow_down
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
    parser.add_argument("--processes", type=int, choices=[1, 2], default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of two processes: runs of each side")
    parser.add_argument("--steps", type=int, default=4, help="of two processes: steps of a run, after two of warm-up")


def last_backward(streams):
    """When the last backward begins, when its first gradient is finished, and when it ends."""
    compute = streams["compute"]
    loss = max((end for _, end, name, _ in compute if name == "loss.dlogits"), default=None)
    grads = [(begin, end, name) for begin, end, name, _ in compute if re.search(r"\.d(x|w|qkv|bias|table|logits)\b", name)]
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
    spans = [(b, e) for b, e, _, _ in streams["gradient"] if b >= first]
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
        slow_begin, _, slow_end = last_backward(folder.simulate(folder.alter(cluster, slow_down(SLOWER)))[1])
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
    if args.processes == 2:
        overlap_far.run(args, binaries)
        return
    result = {}
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(os.path.join(binaries, "tools/oneflow/oneflow"), path)
        for system in SYSTEMS:
            if args.only and args.only not in system.name:
                continue
            folder.call("model", "gpt", *system.model, "--out=gpt.textproto")
            cluster = os.path.join(ROOT, f"examples/clusters/{system.cluster}.textproto")
            result[system.name] = [side(folder, cluster, system, *flags) for flags in SIDES]
            if args.format == "text":
                print_system(system.name, result[system.name])
        rows = overlap_sharded.simulate_rows(folder, args)
    if args.format == "json":
        print(json.dumps({"systems": result, "sharded": rows}))
