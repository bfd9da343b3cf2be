"""Measures the cost of compiling and proving plans as models and meshes grow.

Each row is `oneflow compile` on one core: seconds, peak memory, bytes of the plan, beside it how many times the row it
grew from; and `oneflow verify` of the plan, seconds with reading it. The first is
the 1T model on 3,072 devices, then the same with ten times the data degree or micro-batches, then for GPUs: all rows but that
one are plans of CPUs. Two rows compile one plan that fits an A100, without a cluster and for one; the last two compile 530B
on an interleaved pipeline with few and many micro-batches. A row with a cluster has `oneflow simulate` of its plan, too, in
seconds of the CPU.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TARGETS = []
ONE_T = dict(layers=128, heads=160, hidden=25600, sequence=2048, vocab=51200)
B530 = dict(layers=105, heads=128, hidden=20480, sequence=2048, vocab=51200)
SMALL = dict(layers=32, heads=32, hidden=4096, sequence=2048, vocab=51200)
FITS = ("--recompute=full",)  # GPT 1T fits an A100 with it
INTERLEAVED = FITS + ("--cluster=a100", "--precision=bf16", "--schedule=interleaved", "--chunks=3")
# name, model, (pipe, data, tensor), micro-batches, index of the row it grew from, kind of device, further flags
ROWS = [
    ("1T", ONE_T, (64, 6, 8), 512, None, "cpu", ()),
    ("1T, 10 x data", ONE_T, (64, 60, 8), 512, 0, "cpu", ()),
    ("1T, 10 x micro-batches", ONE_T, (64, 6, 8), 5120, 0, "cpu", ()),
    ("1T, --device=cuda", ONE_T, (64, 6, 8), 512, 0, "cuda", ()),
    ("32 layers on 8 stages", SMALL, (8, 2, 4), 64, None, "cpu", ()),
    ("2 x layers", dict(SMALL, layers=64), (8, 2, 4), 64, 4, "cpu", ()),
    ("4 x layers", dict(SMALL, layers=128), (8, 2, 4), 64, 4, "cpu", ()),
    ("2 x stages", SMALL, (16, 2, 4), 64, 4, "cpu", ()),
    ("4 x stages", SMALL, (32, 2, 4), 64, 4, "cpu", ()),
    ("16 x devices", SMALL, (8, 8, 16), 64, 4, "cpu", ()),
    ("1T, recompute", ONE_T, (64, 6, 8), 512, None, "cpu", FITS),
    ("1T, --cluster=a100", ONE_T, (64, 6, 8), 512, 10, "cpu", FITS + ("--cluster=a100",)),
    ("530B, interleaved", B530, (35, 9, 8), 1120, None, "cuda", INTERLEAVED),
    ("530B, 4.6 x micro-batches", B530, (35, 9, 8), 5120, 12, "cuda", INTERLEAVED),
]


def timed(command, what, clock="wall"):
    """Seconds on one core, of the wall's clock or the CPU's, and peak bytes of memory."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"tools/bench: {os.path.basename(command[0])} {command[1]} failed on {what}")
    seconds = time.monotonic() - begin if clock == "wall" else usage.ru_utime + usage.ru_stime
    return seconds, usage.ru_maxrss * 1024


def compile_once(oneflow, folder, model, mesh, micro_batches, device, flags):
    """Seconds, peak bytes of memory, bytes of plan, and seconds of verifying it and, for a cluster, of simulating it."""
    graph, plan = os.path.join(folder, "gpt.textproto"), os.path.join(folder, "gpt.plan")
    subprocess.run([oneflow, "model", "gpt", *[f"--{k}={v}" for k, v in model.items()], "--out=" + graph], check=True,
                   stdout=subprocess.DEVNULL)
    pipe, data, tensor = mesh
    what = f"{model}, mesh {mesh}"
    seconds, peak = timed([oneflow, "compile", "--graph=" + graph, f"--mesh=pipe={pipe},data={data},tensor={tensor}",
                           f"--batch={data * micro_batches}", f"--micro_batches={micro_batches}", "--device=" + device,
                           *flags, "--out=" + plan], what)
    verify_seconds, _ = timed([oneflow, "verify", "--plan=" + plan], what)
    simulate_seconds = None
    if "--cluster=a100" in flags:
        simulate_seconds, _ = timed([oneflow, "simulate", "--plan=" + plan, "--cluster=a100"], what, clock="cpu")
    return seconds, peak, os.path.getsize(plan), verify_seconds, simulate_seconds


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=3)


def run(args, folder_of_binaries):
    oneflow = os.path.join(folder_of_binaries, "tools/oneflow/oneflow")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model, mesh, micro_batches, grew_from, device, flags in ROWS:
            runs = [compile_once(oneflow, folder, model, mesh, micro_batches, device, flags) for _ in range(args.rounds)]
            seconds = statistics.median(r[0] for r in runs)
            row = {"case": name, "mesh": "pipe=%d,data=%d,tensor=%d" % mesh, "micro_batches": micro_batches, "device": device,
                   "flags": list(flags),
                   "seconds": seconds, "peak_bytes": runs[0][1], "plan_bytes": runs[0][2],
                   "verify_seconds": statistics.median(r[3] for r in runs)}
            if grew_from is not None:
                row["times"] = seconds / results[grew_from]["seconds"]
            if runs[0][4] is not None:
                row["simulate_seconds"] = statistics.median(r[4] for r in runs)
                before = results[grew_from].get("simulate_seconds") if grew_from is not None else None
                if before is not None:
                    row["simulate_times"] = row["simulate_seconds"] / before
            results.append(row)
            if args.format == "text":
                times = f"  {row['times']:5.2f} x" if "times" in row else ""
                if "simulate_seconds" in row:
                    times += f"  simulate {row['simulate_seconds']:5.2f} s"
                if "simulate_times" in row:
                    times += f"  {row['simulate_times']:5.2f} x"
                print(f"{name:24} {row['mesh']:24} M={micro_batches:<5} {seconds:6.2f} s  "
                      f"{row['peak_bytes'] / 2**20:6.0f} MiB  plan {row['plan_bytes'] / 2**20:5.2f} MiB  "
                      f"verify {row['verify_seconds']:5.2f} s{times}", flush=True)
    if args.format == "json":
        print(json.dumps(results))
