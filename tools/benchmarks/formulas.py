"""Published peaks of device memory beside what the formulas of their systems count, and what is planned here.

A row's formula is that of tools/foreign/bytes: Megatron-LM's bytes a parameter and Korthikanti's saved tensors, FSDP's shards and what is
gathered. `their estimator` is what Megatron-LM prints of itself (theoretical_memory_usage.py). Formulas know nothing of fragmentation, of
NCCL and of workspaces; plans here are exact and proved, and a run of another system need not take their bytes. --keep=FOLDER keeps the
compiled plans, as `tools/bench published` does; --without_plans leaves them out.
"""
import json
import os
import statistics
import subprocess
import tempfile

from benchmarks import published, published_simumax
from benchmarks.published_runs import Simulator

TARGETS = ["//tools/benchmarks:formula_bytes"]
# SimuMax's other runs of Llama with an allocated peak (docs/b200/b200_release_v1.2_summary.md), as published_simumax.RUNS.
MORE_RUNS = [
    ("70B/12", 4096, 4, 1, 1, 2, 4, 409.8, 39.07),
    ("405B/4", 4096, 1, 2, 1, 4, 4, 1074.6, 87.08),
    ("70B/12", 32768, 1, 1, 8, 1, 4, 1768.1, 104.51),
    ("405B/4", 32768, 2, 1, 4, 1, 4, 1984.7, 87.03),
    ("405B/4", 32768, 1, 1, 8, 1, 4, 2003.6, 139.22),
    ("70B/12", 131072, 2, 1, 4, 1, 4, 11315.7, 112.67),
    ("70B/12", 131072, 1, 1, 8, 1, 4, 11301.9, 147.99),
    ("405B/4", 131072, 2, 1, 4, 1, 4, 10577.6, 118.13),
]


def add_flags(parser):
    published.add_row_flags(parser)
    parser.add_argument("--without_plans", action="store_true", help="compiles nothing")
    parser.add_argument("--lines", action="store_true", help="also prints the lines of each sum")


def find_rows(args):
    rows = published.collect_rows(args)
    if "simumax" in args.tables:
        rows += [published_simumax.make_row(*run) for run in MORE_RUNS]
    return [row for row in rows if row.peak_gib and row.ran]


def count_bytes(binaries, rows):
    """What formulas count for each row: the JSON of tools/foreign/bytes."""
    binary = os.path.join(binaries, "tools/benchmarks/formula_bytes")
    said = "".join(json.dumps(row.ran) + "\n" for row in rows)
    done = subprocess.run([binary], input=said, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def name_run(row):
    return f"{row.table} {row.name}, {row.figures['sequence']} tokens"


def part(figure, measured):
    return f"{figure:7.1f} {100 * (figure / measured - 1):+6.1f} %"


def print_rows(results, lines):
    print("GiB of the device that takes most: measured; by their formula, and its difference; as their own estimator prints; planned here")
    for row, theirs, ours in results:
        estimate = sum(line["bytes"] for line in theirs["printed"]) / 2**30
        print(f"  {name_run(row):54} {row.peak_gib:7.1f}  {part(theirs['bytes'] / 2**30, row.peak_gib)}  "
              + (part(estimate, row.peak_gib) if estimate else " " * 16)
              + (f"  {part(ours, row.peak_gib)}" if ours else ""))
        for line in theirs["lines"] if lines else []:
            print(f"      {line['kind']:12} {line['bytes'] / 2**30:7.2f}  {line['what']}: {line['formula']}")
    for name, figures in (("their formula", [(theirs["bytes"] / 2**30, row.peak_gib) for row, theirs, _ in results]),
                          ("their own estimator", [(sum(line["bytes"] for line in theirs["printed"]) / 2**30, row.peak_gib)
                                                   for row, theirs, _ in results if theirs["printed"]]),
                          ("planned here", [(ours, row.peak_gib) for row, _, ours in results if ours])):
        if figures:
            errors = [abs(figure / measured - 1) for figure, measured in figures]
            print(f"{name}: {len(errors)} rows, mean difference {100 * statistics.mean(errors):.1f} %, largest {100 * max(errors):.1f} %")


def run(args, binaries):
    rows = find_rows(args)
    counted = count_bytes(binaries, rows)
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(binaries, args.keep or folder, dict(args.cluster))
        ours = [None if args.without_plans else row.planned_gib(simulator) for row in rows]
    results = list(zip(rows, counted, ours))
    if args.format == "json":
        print(json.dumps([{"table": row.table, "name": name_run(row), "measured_gib": row.peak_gib, "theirs": theirs, "planned_gib": planned}
                          for row, theirs, planned in results]))
    else:
        print_rows(results, args.lines)
