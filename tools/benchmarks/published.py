"""Compares `oneflow simulate` with published runs on A100s, H100s and B200s, table by table, and with a share of the peak.

A row is simulated on the cluster file of its kind of device, as the system that ran it (--system); --cluster=KIND=FILE takes another.
Beside its error stands the band of the prediction (docs/simulate.md). An error is the simulated over
the published time, minus 1. A peak's share is one number for all rows of a kind of device, fitted to them, at which all FLOPs
of a step are computed: what a simulator must beat. --keep=FOLDER keeps the compiled plans: a second run only simulates. A kept
plan has the layouts that suited the cluster file and the compiler of the first run; remove the folder when these change.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import re
import sys
import tempfile
import textwrap

from benchmarks import (published_korthikanti, published_megascale, published_megatron, published_megatron_core, published_mpt,
                        published_nemo, published_simumax, published_torchtitan, published_zero_bubble)
from benchmarks.published_errors import flat_errors, group_by, misordered, misranked, summarize
from benchmarks.published_runs import BUBBLES, CLUSTERS, Refused, Simulator

TARGETS = []
TABLES = {"zero_bubble": published_zero_bubble, "megatron": published_megatron, "korthikanti": published_korthikanti,
          "mpt": published_mpt, "megatron_core": published_megatron_core, "nemo": published_nemo, "megascale": published_megascale,
          "simumax": published_simumax, "torchtitan": published_torchtitan}


def parse_cluster(text):
    """KIND=FILE as a pair."""
    kind, _, file = text.partition("=")
    if kind not in CLUSTERS or not os.path.exists(file):
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=FILE, with a kind of {', '.join(CLUSTERS)} and a file that exists")
    return kind, file


def add_row_flags(parser):
    """The flags that say which rows there are, and on which clusters."""
    parser.add_argument("--vocab", type=int, default=32000, help="words of Zero Bubble's models")
    parser.add_argument("--cluster", type=parse_cluster, action="append", default=[], metavar="KIND=FILE",
                        help=f"another cluster file for a kind of device: {', '.join(CLUSTERS)}; may be given for each")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--without", type=re.compile, metavar="REGEX",
                        help="leaves out rows whose table and name match, as '530B|529.6B'")
    parser.add_argument("--jobs", type=int, default=1, help="rows that are simulated at once")
    parser.add_argument("--keep", metavar="FOLDER", help="keeps compiled plans here, and takes those that are here already")


def add_flags(parser):
    add_row_flags(parser)
    parser.add_argument("--memory", action="store_true", help="instead compares planned memory with published peaks, where there are any")
    parser.add_argument("--describe", action="store_true", help="prints what each published system does, and simulates nothing")


def collect_rows(args):
    rows = [row for table in args.tables for row in TABLES[table].rows(args)]
    return [row for row in rows if not (args.without and args.without.search(f"{row.table} {row.name}"))]


@dataclasses.dataclass
class Result:
    """A row and what is simulated for it."""
    row: object
    simulated: float
    sigma: float | None = None  # of the band; None: the row has none

    def error(self):
        """Of the time, relative; of a bubble, its difference."""
        return self.simulated - self.row.published if self.row.unit in BUBBLES else self.row.ratio(self.simulated) - 1


def simulate_row(simulator, row):
    """The row's result; None, with a line if the row counts, where it needs more memory than a device has."""
    try:
        as_ran = simulator.of(row.system.of)
        figure = row.simulate(as_ran)
        return Result(row, figure, (row.band(as_ran) or {}).get("sigma") if row.band else None)
    except Refused:
        if row.counted:
            print(f"{row.table} {row.name}: left out: it needs more memory than a device has", file=sys.stderr)
        return None


def simulate_rows(simulator, rows, jobs):
    """Results of the rows that fit into memory."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return [result for result in pool.map(lambda row: simulate_row(simulator, row), rows) if result]


def describe(rows):
    """Prints each system, and which rows it ran."""
    for system, ran in group_by(rows, lambda row: row.system).items():
        first, kinds = ran[0], sorted({row.device for row in ran})
        print(f"{first.table}: {system.name}; {len(ran)} rows on {', '.join(kinds)}")
        for name, fact in system.facts():
            says = f"{name.replace('_', ' ')}: {fact.says} [{fact.source}]"
            print(textwrap.fill(says, 120, initial_indent="  ", subsequent_indent="    "))
        print(f"  library of attention: {system.attention_library or 'that of the cluster file'}")


def print_memory(simulator, rows):
    """Prints what plans take of the device that takes most beside what the runs took."""
    print("planned GiB, published; difference")
    for row in rows:
        if row.peak_gib:
            planned = row.planned_gib(simulator)
            print(f"  {row.table + ' ' + row.name:48} {planned:7.2f} {row.peak_gib:7.2f} {100 * (planned / row.peak_gib - 1):+6.1f} %")


def print_table(table, results):
    print(f"{table}: simulated, published; error")
    for result in results:
        row, bubble = result.row, result.row.unit in BUBBLES
        error = f"{100 * result.error():+6.1f}" + (" points" if bubble else " %")
        digits = 4 if bubble else 2
        band = f" (± {100 * result.sigma:.0f} %)" if result.sigma and not bubble else ""
        print(f"  {row.device:8} {row.name:34} {row.unit:17} {result.simulated:12,.{digits}f} {row.published:12,.{digits}f} {error}{band}"
              + ("" if row.counted or bubble else "  (not counted)"))


def print_summary(name, errors):
    s = summarize(errors)
    print(f"  {name:38} {s['runs']:3} rows: mean error {100 * s['mean_absolute']:5.1f} %, signed {100 * s['mean']:+6.1f} %, "
          f"1 sigma {100 * s['sigma']:4.1f} %")


def print_coverage(results):
    """How many of the rows that have a band are within it."""
    found = [(abs(math.log(r.row.ratio(r.simulated))), r.sigma) for r in results if r.sigma]
    within = [100 * sum(error <= times * sigma for error, sigma in found) / len(found) for times in (1, 2)] if found else (0, 0)
    print(f"rows with a band: {len(found)}; within 1 sigma {within[0]:.0f} %, within 2 {within[1]:.0f} %")


def split_name(row):
    return f"{row.device}, " + ("tensor parallelism" if row.tensor > 1 else "no tensor parallelism")


def summaries(results):
    """Errors by group of rows: the kind of device, with and without tensor parallelism, the table."""
    groups = group_by(results, lambda r: r.row.device) | group_by(results, lambda r: split_name(r.row))
    groups |= group_by(results, lambda r: f"{r.row.device}, {r.row.table}")
    return {name: groups[name] for name in sorted(groups)}


def print_text(results):
    for table, of_table in group_by(results, lambda r: r.row.table).items():
        print_table(table, of_table)
    counted = [r for r in results if r.row.counted]
    print("errors")
    for name, group in summaries(counted).items():
        print_summary(name, [r.error() for r in group])
    print("one share of the peak for all rows of a kind of device, fitted to them")
    for kind, group in group_by(counted, lambda r: r.row.device).items():
        share, errors = flat_errors([r.row for r in group])
        print_summary(f"{kind}, {100 * share:.1f} % of the peak", errors)
    print_coverage(counted)
    wrong, pairs = misranked([(r.row, r.simulated) for r in counted])
    print(f"pairs of a table and a kind of device whose published shares of the peak differ by more than 10 %: {pairs}; "
          f"ranked wrongly: {len(wrong)}")
    for slower, faster in wrong:
        print(f"  {slower.table}, {slower.device}: {faster.name} is faster than {slower.name}")
    wrong, pairs = misordered([(r.row, r.simulated) for r in counted])
    print(f"pairs of plans of one model and batch on the same devices: {pairs}; measured in the other order: {len(wrong)}")
    for faster, slower, simulated, published in wrong:
        print(f"  {faster.table}, {faster.device}: {slower.name} is simulated {100 * simulated:.2f} % longer than {faster.name}, and took "
              f"{100 * published:.2f} % less")


def make_json(results):
    counted = [r for r in results if r.row.counted]
    hidden = ("simulate", "system", "band", "planned_gib", "ran")
    rows = [{**{k: v for k, v in vars(r.row).items() if k not in hidden}, "system": r.row.system.name, "simulated": r.simulated, "sigma": r.sigma,
             "error": r.error()} for r in results]
    flat = {}
    for kind, group in group_by(counted, lambda r: r.row.device).items():
        share, errors = flat_errors([r.row for r in group])
        flat[kind] = {"share": share, **summarize(errors)}
    wrong, pairs = misranked([(r.row, r.simulated) for r in counted])
    other, ordered = misordered([(r.row, r.simulated) for r in counted])
    return {"rows": rows, "errors": {name: summarize([r.error() for r in group]) for name, group in summaries(counted).items()},
            "flat": flat, "pairs": pairs, "misranked": [[a.table, a.device, a.name, b.name] for a, b in wrong],
            "ordered_pairs": ordered, "misordered": [[a.table, a.device, a.name, b.name, *by] for a, b, *by in other]}


def run(args, binaries):
    rows = collect_rows(args)
    if args.describe:
        describe(rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.memory:
            print_memory(Simulator(binaries, args.keep or folder, dict(args.cluster)), rows)
            return
        results = simulate_rows(Simulator(binaries, args.keep or folder, dict(args.cluster)), rows, args.jobs)
    if args.format == "json":
        print(json.dumps(make_json(results)))
    else:
        print_text(results)
