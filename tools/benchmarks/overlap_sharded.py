"""Simulates models whose weights, gradients and states are split over all data axes (--shard=weights), for tools/bench overlap.

A GPT of 64.7B parameters on 128 H100s, and the MPT models of MosaicML with the meshes, micro-batches and recompute of their
published runs: github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md. (Positions are a table here and
ALiBi there; activations between blocks are bf16 in both.) All figures are seconds of a step, on one device:

* GiB      what the plan needs of each device; a plan that does not fit is refused, and its row says so.
* step     compute and exposed exchange, as `oneflow simulate` defines them; hidden exchange in between.
* free     the step if exchanges over data axes took no time. Where a tensor axis fills a node, only the links between nodes
           are free, since data axes use no others.
* serial   the step of --overlap=false.

From the trace of a step:

* path     the time in which a kernel of the forward or backward runs, or an exchange of activations over `tensor`. The latter
           stand between kernels that depend on each other, so no gather that runs ahead hides or shortens them.
* X        the sum of all exchanges of weights and gradients, but the first gather, which nothing precedes, the last
           reduction, which only the update follows, and the exchanges of the norm and the update. As if all were on one link;
           the simulator lets exchanges of different streams go on at once at full rate.
* hides    the part of X that is within the path, relative to what can be hidden: min(X, path).
* bound    max(path, X) + first gather + last reduction + exchanges of norm and update + kernels of norm and update.
* kernels  step / bound if path has only kernels. Where both are the same there is no exchange of activations.

Kernels are slower while an exchange is on the links of a node, which keeps 15 % of the processors busy (the cluster files), and
path contains that. `free` does not: step / free is the cost of all that the exchanges do.
"""
import bisect
import dataclasses
import os
import re
import subprocess

from benchmarks.overlap_plans import free_links
from benchmarks.sides import ROOT

GIB = 2 ** 30
GRADIENT = re.compile(r"\.d(w|bias|table)(:\d+)?\.")  # exchanges of gradients of weights, by their names
FLAGS = ("--shard=weights", "--precision=bf16", "--device=cuda")
FULL = ("--recompute=full,gather",)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    model: tuple  # layers, heads, hidden, sequence, vocabulary
    cluster: str
    mesh: str
    sequences: int  # of a micro-batch, over all devices
    micro_batches: int
    flags: tuple
    bias: bool = True
    published: float = 0  # tokens a second and GPU

    def tokens(self):
        return self.sequences * self.micro_batches * self.model[3]


GPT = (80, 64, 8192, 4096, 32000)
GPT_FLAGS = {"": FULL, ", sequence parallel": (*FULL, "--sequence_parallel", "--residual=bf16")}
MPT = {"7B": (32, 32, 4096, 2048, 50368), "13B": (40, 40, 5120, 2048, 50368), "30B": (48, 56, 7168, 2048, 50368),
       "70B": (80, 64, 8192, 2048, 50368)}
# model, cluster, GPUs, sequences of a device's micro-batch, micro-batches, recompute, tokens/s/GPU
MPT_RUNS = [
    ("7B", "a100", 8, 6, 2, (), 4641),
    ("13B", "a100", 8, 2, 3, (), 2262),
    ("30B", "a100", 8, 3, 21, FULL, 916),
    ("70B", "a100", 64, 8, 4, FULL, 410),
    ("7B", "h100", 8, 6, 1, (), 10643),
    ("7B", "h100", 128, 6, 1, (), 10475),
    ("13B", "h100", 8, 2, 1, (), 4792),
    ("30B", "h100", 8, 3, 21, FULL, 2002),
    ("30B", "h100", 128, 8, 1, FULL, 2199),
    ("70B", "h100", 128, 8, 1, FULL, 1058),
]
ROWS = [Row(f"64.7B, {mesh}, batch {sequences * micro}" + suffix, GPT, "h100", mesh, sequences, micro, GPT_FLAGS[suffix])
        for mesh, sequences, micro, suffix in [
            ("data=128", 128, 1, ""), ("data=128", 512, 1, ""),
            ("data=16,tensor=8", 64, 2, ""), ("data=16,tensor=8", 64, 8, ""),
            ("data=16,tensor=8", 128, 1, ", sequence parallel"), ("data=16,tensor=8", 128, 4, ", sequence parallel")]]
ROWS += [Row(f"MPT {name}, {gpus} {cluster.upper()}", MPT[name], cluster, f"data={gpus}", gpus * size, micro,
             ("--residual=bf16", *recompute), False, published)
         for name, cluster, gpus, size, micro, recompute, published in MPT_RUNS]
LOSS = ("MPT 7B, 8 H100", "MPT 7B, 128 H100")


def seconds(firings):
    return sum(f.end - f.begin for f in firings)


def join(firings):
    """Disjoint spans in which any of these firings runs."""
    spans = []
    for f in sorted(firings):
        if spans and f.begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], f.end)
        else:
            spans.append([f.begin, f.end])
    return spans


def seconds_within(firings, spans):
    begins, total = [begin for begin, _ in spans], 0.0
    for f in firings:
        for begin, end in spans[max(0, bisect.bisect_right(begins, f.begin) - 1):bisect.bisect_left(begins, f.end)]:
            total += max(0.0, min(end, f.end) - max(begin, f.begin))
    return total


def find_bound(streams):
    """The figures of a trace that the comment above defines."""
    compute, collective = streams["compute"], streams.get("collective", [])
    update = seconds(f for f in compute if f.kind == "update")
    kernels = [f for f in compute if f.kind not in ("update", "exchange")]
    # Without --prefetch the compute stream gathers. Casts of parts stand among the gathers.
    gathers = sorted(f for f in streams.get("gather", []) + compute if f.kind == "exchange")
    reductions = streams["reduction"]
    first, last = gathers[0], max(reductions, key=lambda f: f.end)
    norm = seconds(f for f in streams["gradient"] if f.begin >= last.begin)
    exchanges = [f for f in gathers + reductions if f is not first and f is not last]
    exchanges += [f for f in collective if GRADIENT.search(f.name)]
    path = join(kernels + [f for f in collective if not GRADIENT.search(f.name)])
    path_seconds, exchange = sum(end - begin for begin, end in path), seconds(exchanges)
    edges = {"first_gather": seconds([first]), "last_reduction": seconds([last]), "norm": norm, "update": update}
    can_hide = min(exchange, path_seconds)
    return {"path": path_seconds, "exchange": exchange, "can_hide": can_hide,
            "hides": min(can_hide, seconds_within(exchanges, path)) / can_hide, **edges,
            "bound": max(path_seconds, exchange) + sum(edges.values()),
            "bound_of_kernels": max(seconds(kernels), exchange) + sum(edges.values())}


def simulate_row(folder, row):
    """The row's figures; only its name and the reason if the plan is refused."""
    cluster = os.path.join(ROOT, f"examples/clusters/{row.cluster}.textproto")
    layers, heads, hidden, sequence, vocab = row.model
    folder.call("model", "gpt", f"--layers={layers}", f"--heads={heads}", f"--hidden={hidden}", f"--sequence={sequence}",
                f"--vocab={vocab}", "--tied=true", f"--bias={str(row.bias).lower()}", "--out=gpt.textproto")
    flags = ("--graph=gpt.textproto", f"--mesh={row.mesh}", f"--batch={row.sequences * row.micro_batches}",
             f"--micro_batches={row.micro_batches}", *FLAGS, *row.flags, "--cluster=" + cluster, "--out=gpt.plan")
    try:
        folder.call("compile", *flags)
    except subprocess.CalledProcessError as error:
        return {"name": row.name, "refused": error.stderr.strip()}
    summary, streams = folder.simulate(cluster)
    free = folder.summarize(folder.alter(cluster, free_links, 1 if "tensor" in row.mesh else 0))
    folder.call("compile", *flags, "--overlap=false")
    stage, step = summary["stages"][0], summary["step_seconds"]
    result = {"name": row.name, "gib": stage["arena_bytes"] / GIB, "step": step,
              **{part: stage[part + "_seconds"] for part in ("compute", "exposed_exchange", "hidden_exchange")},
              "free": free["step_seconds"], "serial": folder.summarize(cluster)["step_seconds"], **find_bound(streams)}
    if row.published:
        result |= {"published": row.published, "tokens": row.tokens() / step / summary["devices"]}
    return result


def print_row(r):
    if "refused" in r:
        print(f"{r['name']:52} refused: {r['refused'].splitlines()[-1]}", flush=True)
        return
    line = (f"{r['name']:52} {r['gib']:5.1f} {r['step']:8.3f} {r['compute']:8.3f} {r['exposed_exchange']:7.3f} "
            f"{r['hidden_exchange']:7.3f} {r['free']:8.3f} {r['serial']:8.3f} {r['path']:8.3f} {r['exchange']:7.3f} "
            f"{100 * r['hides']:5.1f} % {r['first_gather']:6.4f} {r['last_reduction']:6.4f} {r['norm']:6.4f} {r['update']:6.4f} "
            f"{r['bound']:8.3f} {r['step'] / r['bound']:6.3f} {r['step'] / r['bound_of_kernels']:6.3f}")
    if "published" in r:
        line += f" {r['tokens']:7.0f} {r['published']:7.0f}"
    print(line, flush=True)


def print_loss(rows):
    """By how much a GPU of 128 is slower than one of 8."""
    few, many = (next((r for r in rows if r["name"] == name), None) for name in LOSS)
    if few and many and "tokens" in few and "tokens" in many:
        loss = lambda of: 100 * (1 - many[of] / few[of])
        print(f"MPT 7B loses from 8 to 128 GPUs: simulated {loss('tokens'):.1f} %, published {loss('published'):.1f} %")


def simulate_rows(folder, args):
    chosen = [row for row in ROWS if not args.only or args.only in row.name]
    if chosen and args.format == "text":
        print(f"{'--shard=weights':52} {'GiB':>5} {'step':>8} {'compute':>8} {'exposed':>7} {'hidden':>7} {'free':>8} {'serial':>8} "
              f"{'path':>8} {'X':>7} {'hides':>7} {'first':>6} {'last':>6} {'norm':>6} {'update':>6} {'bound':>8} {'step/':>6} "
              f"{'kernels':>6} tokens published")
    rows = []
    for row in chosen:
        rows.append(simulate_row(folder, row))
        if args.format == "text":
            print_row(rows[-1])
    if args.format == "text":
        print_loss(rows)
    return rows
