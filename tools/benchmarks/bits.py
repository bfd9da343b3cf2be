"""The bits of small training runs, against those on record.

Each run (benchmarks/bit_runs.py) trains a tiny GPT for a few steps; its losses, norms of gradients and final weights are
held against tests/bits/baseline.json, and against the run whose bits law 6 promises it. The record is of kernels for the
lowest instruction set, which every x86-64 processor has. --flags="--overlap=true" says that streams of exchanges
change no bit. --record writes it anew; --pin writes the models and their
layouts anew, which is only needed where passes give their ops other names. With --instruction_set runs are held
against each other alone.
"""
import concurrent.futures
import json
import os
import re
import sys
import tempfile

from benchmarks import bit_oracle
from benchmarks.bit_runs import LAYOUTS, MODELS, RUNS

TARGETS = []
RECORD = os.path.join(bit_oracle.FOLDER, "baseline.json")


def add_flags(parser):
    parser.add_argument("--runs", default="", help="only runs whose name this regular expression is found in")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--instruction_set", default="baseline")
    parser.add_argument("--flags", default="", help="of `oneflow train`, for every run: bits that they must not change")
    parser.add_argument("--record", action="store_true", help="write the record anew")
    parser.add_argument("--pin", action="store_true", help="write models and layouts anew")


def read_record():
    with open(RECORD, encoding="utf-8") as file:
        return json.load(file)


def write_record(results):
    lines = [f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()]
    with open(RECORD, "w", encoding="utf-8") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")


def run_all(runs, oracle, jobs):
    """The result of each run, by name; a text if it failed."""
    def result(run):
        with tempfile.TemporaryDirectory() as folder:
            try:
                return oracle.result(run, folder)
            except bit_oracle.Refused as refused:
                return str(refused)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(zip([run.name for run in runs], pool.map(result, runs)))


def difference(result, other, keys):
    """The differences of a result from another: a text, empty if there are none."""
    unlike = [key for key in sorted(keys) if result.get(key) != other.get(key)]
    return ", ".join(f"{key} {result.get(key)}, not {other.get(key)}" for key in unlike)


def find_problems(runs, results, record):
    """A line for each run that failed, or differs from the record, if there is one, or from the run it must equal."""
    for run in runs:
        result = results[run.name]
        if isinstance(result, str):
            yield f"{run.name}: {result}"
            continue
        if record is not None:
            stands = record.get(run.name)
            unlike = difference(result, stands, result.keys() | stands.keys()) if stands else "it is not there"
            if unlike:
                yield f"{run.name}: differs from the record: {unlike}"
        same = results.get(run.same, (record or {}).get(run.same))
        if isinstance(same, dict):
            unlike = difference(result, same, result.keys() & same.keys())
            if unlike:
                yield f"{run.name}: differs from {run.same}: {unlike}"


def pin(oracle):
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            oracle.write_model(model, folder, bit_oracle.model_file(model))
    for name, layout in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            oracle.write_layout(name, layout, folder)


def run(args, binaries):
    oracle = bit_oracle.Oracle(os.path.join(os.path.abspath(binaries), "tools/oneflow/oneflow"), args.instruction_set,
                               args.threads, args.flags)
    if args.pin:
        pin(oracle)
    runs = [run for run in RUNS if re.search(args.runs, run.name)]
    results = run_all(runs, oracle, args.jobs)
    held = args.instruction_set == "baseline" and not args.record
    problems = list(find_problems(runs, results, read_record() if held else None))
    if args.format == "json":
        print(json.dumps({"results": results, "problems": problems}))
    else:
        print("".join(problem + "\n" for problem in problems) + f"{len(runs)} runs, {len(problems)} differences")
    if args.record and not problems:
        write_record({**(read_record() if args.runs else {}), **results})
    if problems:
        sys.exit(1)
