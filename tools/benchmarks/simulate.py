"""Compares predictions of `oneflow simulate` with measurements of `oneflow train` on this machine.

The machine is measured first (`oneflow calibrate`, devices of one thread each, one and two of them at work), then each
of eight plans of at most two devices is simulated and run; medians. Measured are the steps after two of warm-up.

With --processes=2: six plans in two processes, over shared memory and over TCP slowed to 500 Mbit/s between two network
namespaces (root); the links are measured, too.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks import far_plans
from benchmarks.sides import Oneflow

TARGETS = ["//tools/benchmarks:link_rate"]
MIDDLE = dict(layers=4, heads=4, hidden=256, sequence=128, vocab=1024, batch=8)
LARGE = dict(layers=4, heads=8, hidden=512, sequence=256, vocab=4096, batch=4)
RECIPE = dict(layers=4, heads=4, hidden=128, sequence=64, vocab=256, batch=48, bias=0)
# name, model, mesh, other arguments of Oneflow
PLANS = [
    ("middle, one device", MIDDLE, "", {}),
    ("middle, data=2", MIDDLE, "data=2", {}),
    ("middle, tensor=2", MIDDLE, "tensor=2", {}),
    ("middle, pipe=2, 1f1b", dict(MIDDLE, batch=16), "pipe=2", {"micro_batches": 4}),
    ("middle, pipe=2, gpipe", dict(MIDDLE, batch=16), "pipe=2", {"micro_batches": 8, "schedule": "gpipe"}),
    ("large, one device", LARGE, "", {}),
    ("large, data=2, bf16", LARGE, "data=2", {"precision": "bf16"}),
    ("recipe, pipe=2, 1f1b", RECIPE, "pipe=2", {"micro_batches": 4}),
]


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=2, help="runs of each plan")
    parser.add_argument("--steps", type=int, default=8, help="of a run")
    parser.add_argument("--seconds", type=float, default=25, help="of each of the two measurements of the machine")
    parser.add_argument("--processes", type=int, choices=[1, 2], default=1)


def calibrate(binaries, folder, *flags):
    """The machine's file."""
    print(f"measuring this machine, {' '.join(flags)}", file=sys.stderr)
    out = os.path.join(folder, f"cluster{''.join(flags)}.textproto")
    subprocess.run([os.path.join(binaries, "tools/oneflow/oneflow"), "calibrate", "--threads=1", *flags, "--out=" + out], check=True,
                   stdout=subprocess.DEVNULL)
    return out


def predicted(oneflow, cluster, *flags):
    """Seconds of a step."""
    out = oneflow.run("simulate", "--plan=" + oneflow.plan, "--cluster=" + cluster, "--format=json", *flags)
    return json.loads(out)["step_seconds"]


def compare(oneflow, cluster, args):
    seconds = []
    for _ in range(args.rounds):
        seconds += oneflow.steps(args.steps + 1)[1:]
    a, b = predicted(oneflow, cluster), statistics.median(seconds)
    return {"predicted_seconds": a, "measured_seconds": b, "error": a / b - 1}


def print_row(args, row, name):
    if args.format == "text":
        print(f"{name:40} predicted {1e3 * row['predicted_seconds']:8.2f} ms   measured "
              f"{1e3 * row['measured_seconds']:8.2f} ms   error {100 * row['error']:+6.1f} %", flush=True)


def print_mean(args, rows):
    mean = statistics.mean(abs(row["error"]) for row in rows) if rows else 0
    print(json.dumps({"plans": rows, "mean_error": mean}) if args.format == "json" else f"mean error {100 * mean:.1f} %")


def run_far(args, binaries):
    """Two processes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, far_plans.slow_link() as names:  # root
        measured = calibrate(binaries, folder, "--devices=2", "--processes=2", f"--seconds={args.seconds}")
        for link in far_plans.SharedMemory(), far_plans.SlowLink(names, os.path.join(binaries, "tools/benchmarks/link_rate")):
            for row in far_plans.compare(binaries, folder, link, measured, args, predicted):
                rows.append(row)
                print_row(args, row, f"{row['plan']}, {row['link']}")
    print_mean(args, rows)


def run(args, binaries):
    if args.processes == 2:
        run_far(args, binaries)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = {devices: calibrate(binaries, folder, f"--devices={devices}", f"--seconds={args.seconds}") for devices in (1, 2)}
        for i, (name, model, mesh, more) in enumerate(PLANS):
            devices = 2 if mesh else 1
            oneflow = Oneflow(binaries, folder, model, mesh, devices, name=f"plan{i}", **more)
            rows.append({"plan": name, **compare(oneflow, files[devices], args)})
            print_row(args, rows[-1], name)
    print_mean(args, rows)
