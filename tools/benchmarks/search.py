"""Searches plans: what `oneflow search` finds beside what people chose, and whether its order is that of measured steps.

--models: for each of a list of models and devices (search_models.py) it runs `oneflow search` within --budget seconds, and compiles and
simulates the configuration that people chose, with the same flags and costs. A case has two lines, the first of the best plan found:

  step      of the plan, simulated, and its MFU
  ratio     the other step over this one; at least 1, or the search missed a plan
  gap       by how much a plan of the space may be faster, at most, where the search is complete; else estimated
  until     CPU seconds until the first estimate, and until the first plan
  seconds   that the search took, and whether it ended by itself (complete) or by --budget
  MiB       that it had resident, at most

--cpu: this machine is measured (`oneflow calibrate`), plans of two small models are searched for two devices of one thread, and 12 of
them, from the best to the worst, are trained. Printed are the predicted and the measured step, Kendall's tau over the pairs that are
predicted 5 % apart, and how far the best plan found is from the fastest measured.

The exit code is 1 where a ratio is below 1, tau below 0.7, or the best plan found more than 5 % from the fastest measured.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks import search_cpu
from benchmarks.search_models import CASES

TARGETS = []
# By hand: plans above a device's memory are compiled, too, because a refusal takes long to advise.
AMPLE = "--memory=4TB"


def add_flags(parser):
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--models", action="store_true", help="plans found beside those that people chose")
    what.add_argument("--describe", action="store_true", help="prints the cases of --models, and their sources")
    what.add_argument("--cpu", action="store_true", help="predicted and measured order of plans on this machine")
    parser.add_argument("--only", default="", help="only cases, or models, whose names contain this")
    parser.add_argument("--budget", type=float, default=60, help="seconds of a search of --models")
    search_cpu.add_flags(parser)


def run_measured(command, folder):
    """Runs a command: its exit code, output, errors, seconds, and the most MiB that it had resident."""
    with open(os.path.join(folder, "out"), "w+") as out, open(os.path.join(folder, "err"), "w+") as errors:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return process.returncode, out.read(), errors.read(), seconds, usage.ru_maxrss / 1024


def last_error(code, text):
    """The error that a command ended with."""
    errors = [line for line in text.splitlines() if line.startswith("oneflow: error: ")]
    last = (text.strip().splitlines() or ["no message"])[-1]
    return errors[-1].removeprefix("oneflow: error: ") if errors else f"exit code {code}: {last}"


def candidate_flags(plan, given):
    """The flags of a plan found, without those that were given."""
    return plan["flags"].removeprefix(given).strip()


def read_found(output):
    """What the JSON of `oneflow search` says of its best plan."""
    result = json.loads(output)
    best = result["plans"][0]
    simplest = result["plans"][result["simplest"]]
    return {"step": best["step_seconds"], "mfu": best["mfu"], "bytes": best["bytes_a_device"], "gap": result["gap"],
            "estimated_gap": result["estimated_gap"], "until_estimate": result["cpu_seconds_until_estimate"],
            "until_plan": result["cpu_seconds_until_plan"], "simplest": candidate_flags(simplest, result["given"]),
            "simplest_step": simplest["step_seconds"], "complete": result["complete"], "counts": result["counts"], "flags": candidate_flags(best, result["given"])}


def read_compiled(output, memory_bytes):
    """What the JSON of `oneflow compile` says of a plan."""
    headline = json.loads(output)["headline"]
    return {"bytes": headline["bytes_a_device"], "fits": headline["bytes_a_device"] <= memory_bytes,
            "step": headline.get("step_seconds"), "mfu": headline.get("mfu")}


def usable_bytes(oneflow, cluster):
    """What a plan may take of a device of a known cluster."""
    known = json.loads(subprocess.run([oneflow, "cluster", "--format=json"], check=True, capture_output=True).stdout)["clusters"]
    device = next(one for one in known if one["name"] == cluster)
    return device["memory_bytes"] - device["reserve_bytes"]


def find_ratio(row):
    """The step by hand over the step found; None where either is missing."""
    found, by_hand = row["found"].get("step"), row["by_hand"].get("step") if row["by_hand"].get("fits") else None
    return by_hand / found if found and by_hand else None


def compile_by_hand(oneflow, folder, case, graph):
    """The configuration that people chose, with the first policy that fits; else with the last one."""
    made = {}
    for policy in case.by_hand.recompute:
        args = case.by_hand.compile_args(case.batch, policy)
        command = [oneflow, "compile", "--graph=" + graph, *case.given_args(), AMPLE, *args, "--format=json",
                   "--out=" + os.path.join(folder, "by_hand.plan")]
        code, output, errors, _, _ = run_measured(command, folder)
        made = {"flags": " ".join(args), "source": case.by_hand.source}
        if code != 0:
            return made | {"refused": last_error(code, errors)}
        made |= read_compiled(output, usable_bytes(oneflow, case.cluster))
        if made["fits"]:
            return made
    return made


def run_case(oneflow, folder, case, args):
    graph = os.path.join(folder, "model.textproto")
    subprocess.run([oneflow, *case.graph_args(), "--out=" + graph], check=True, stdout=subprocess.DEVNULL)
    command = [oneflow, "search", "--graph=" + graph, f"--devices={case.devices}", *case.given_args(),
               f"--budget_seconds={args.budget:g}", f"--threads={args.threads}", "--format=json"]
    code, output, errors, seconds, mib = run_measured(command, folder)
    found = read_found(output) if code == 0 else {"refused": last_error(code, errors)}
    row = {"case": case.name, "devices": case.devices, "batch": case.batch,
           "found": found | {"seconds": seconds, "resident_mib": mib}, "by_hand": compile_by_hand(oneflow, folder, case, graph)}
    return row | {"ratio": find_ratio(row)}


def percent(value):
    return "unknown" if value is None else f"{100 * value:.1f} %"


def format_found(found):
    took = f"{found['seconds']:.1f} s, {found['resident_mib']:.0f} MiB"
    if "refused" in found:
        return f"  search   nothing found: {found['refused']}; {took}"
    gap = f"gap {percent(found['gap'])}  complete" if found["complete"] else f"estimated gap {percent(found['estimated_gap'])}"
    lines = (f"  search   step {found['step']:.3f} s  MFU {percent(found['mfu'])}  {gap}  until {found['until_estimate']:.1f}, "
             f"{found['until_plan']:.1f} CPU s  {took}  {found['flags']}")
    if found["simplest"] == found["flags"]:
        return lines
    return lines + f"\n  simplest step {found['simplest_step']:.3f} s  {found['simplest']}"


def format_by_hand(by_hand, ratio):
    where = f"{by_hand['flags']}  [{by_hand['source']}]"
    if "refused" in by_hand:
        return f"  by hand  refused: {by_hand['refused']}  {where}"
    if not by_hand["fits"]:
        return f"  by hand  does not fit: {by_hand['bytes'] / 1e9:.1f} GB  {where}"
    if by_hand["step"] is None:
        return f"  by hand  not simulated  {where}"
    beside = "" if ratio is None else f"  ratio {ratio:.3f}"
    return f"  by hand  step {by_hand['step']:.3f} s  MFU {percent(by_hand['mfu'])}{beside}  {where}"


def format_row(row):
    return [row["case"], format_found(row["found"]), format_by_hand(row["by_hand"], row["ratio"])]


def failures_of_models(rows):
    """Why the rows are not as they must be."""
    slower = [f"{row['case']}: by hand it is faster, ratio {row['ratio']:.4f}" for row in rows if row["ratio"] and row["ratio"] < 1]
    return slower + [f"{row['case']}: nothing found" for row in rows if "refused" in row["found"]]


def describe(cases):
    for case in cases:
        print(f"{case.name}: oneflow {' '.join(case.graph_args())}")
        print(f"  given: --devices={case.devices} {' '.join(case.given_args())}")
        policies = case.by_hand.recompute
        text = " ".join(case.by_hand.compile_args(case.batch, policies[0]))
        more = f", else with the first of {', '.join(policies[1:])} that fits" if len(policies) > 1 else ""
        print(f"  by hand: {text}{more} [{case.by_hand.source}]")


def run_models(args, oneflow, cases):
    rows, lines = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            rows.append(run_case(oneflow, folder, case, args))
            lines += format_row(rows[-1])
            if args.format == "text":
                print("\n".join(format_row(rows[-1])), flush=True)
    if args.format == "json":
        print(json.dumps(rows))
    return lines, failures_of_models(rows)


def run(args, binaries):
    cases = [case for case in CASES if args.only in case.name]
    if args.describe:
        describe(cases)
        return
    oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
    lines, failures = search_cpu.run(args, oneflow) if args.cpu else run_models(args, oneflow, cases)
    if not lines:
        sys.exit(f"tools/bench search: no case is named {args.only!r}")
    if failures:
        sys.exit("\n".join(["tools/bench search: not as it must be", *failures]))
