"""Compares `oneflow simulate` with runs that papers report on A100-80G, and with a plain formula.

One cluster (examples/clusters/a100.textproto) and one kind of graph for all rows; nothing is fitted to a row. The plain
formula is the peak over the FLOPs, or a schedule's bubble for equal stages. Errors are of times: sim / published - 1.
"""
import dataclasses
import json
import statistics
import tempfile

from benchmarks import published_korthikanti, published_megatron, published_zero_bubble
from benchmarks.published_runs import CLUSTER, Simulator

TARGETS = []
BUBBLES = ("bubble", "bubble of the run")
PAPERS = {"zero_bubble": published_zero_bubble, "megatron": published_megatron, "korthikanti": published_korthikanti}


def add_flags(parser):
    parser.add_argument("--vocab", type=int, default=32000, help="words of Zero Bubble's models")
    parser.add_argument("--cluster", default=CLUSTER, help="another cluster file, to see what its constants do")
    parser.add_argument("--papers", nargs="+", choices=PAPERS, default=list(PAPERS))


def print_bubbles(what, rows):
    if rows:
        print(f"{what}: simulated, published, of equal stages and free links; points too high")
    for row in rows:
        print(f"  {row.paper:12} {row.name:34} {row.simulated:8.4f} {row.published:8.4f} {row.plain:8.4f} "
              f"{100 * (row.simulated - row.published):+6.1f}")


def print_times(rows):
    print("simulated, published, plain formula; error of the time, the plain formula's")
    for row in rows:
        print(f"  {row.paper:12} {row.name:34} {row.what:14} {row.simulated:8.2f} {row.published:8.2f} {row.plain:8.2f} "
              f"{100 * row.error():+6.1f} % {100 * row.error('plain'):+6.1f} %" + ("" if row.in_mean else "  (not in the mean)"))
    counted = [row for row in rows if row.in_mean]
    groups = {paper: [row for row in counted if row.paper == paper] for paper in dict.fromkeys(row.paper for row in rows)}
    groups |= {"all": counted, "all but those of a layer": [row for row in counted if row.what != "ms"]}
    for name, group in groups.items():
        ours, plain = (statistics.mean(abs(row.error(of)) for row in group) for of in ("simulated", "plain"))
        print(f"mean error of {len(group)} times, {name}: {100 * ours:.1f} %, of the plain formula {100 * plain:.1f} %")


def run(args, binaries):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(binaries, folder, args.cluster)
        for paper in args.papers:
            rows += PAPERS[paper].rows(simulator, args)
    if args.format == "json":
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
        return
    for what in BUBBLES:
        print_bubbles(what, [row for row in rows if row.what == what])
    print_times([row for row in rows if row.what not in BUBBLES])
