"""Two processes of one device against one process of two devices; what a waiting process costs; loading a share.

GPT-2 124M, batch 4 x 256, data=2, tensor=2 and pipe=2, on two cores: the two take turns, medians of their steps; beside
them what crosses processes in a step. Then one process is stopped, and the core time of the one that waits for it is
measured. With --load: of GPT 1T on 3,072 devices, a process of 8 reads and proves the plan and makes its actors and what
their exchanges do, without arenas and kernels; CPU seconds and peak memory beside `oneflow verify` of it. The same on ten
times the data degree.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.compile import ONE_T, timed
from benchmarks.sides import MODELS, Oneflow

TARGETS = ["//tools/benchmarks:load_process"]
MESHES = {"data=2": 1, "tensor=2": 1, "pipe=2": 4}  # micro-batches
WAITING_SECONDS = 4.0


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side, in turn")
    parser.add_argument("--steps", type=int, default=6, help="of a run")
    parser.add_argument("--load", action="store_true", help="load a process's share of GPT 1T, and nothing else")


def compare(binaries, folder, mesh, micro_batches, args):
    oneflow = Oneflow(binaries, folder, MODELS["gpt2-124m"], mesh, 2, name=mesh, micro_batches=micro_batches)
    one, two = [], []
    for _ in range(args.rounds):
        one.append(median_step(oneflow, args))
        two.append(median_step(oneflow, args, "--processes=2"))
    traffic = json.loads(oneflow.run("explain", "--plan=" + oneflow.plan, "--processes=2", "--format=json"))["process_traffic"]
    return {"mesh": mesh, "one_process_seconds": statistics.median(one), "two_processes_seconds": statistics.median(two),
            "ratio": statistics.median(b / a for a, b in zip(one, two)),
            "bytes": traffic["all"]["bytes_received"], "messages": traffic["all"]["messages_received"]}


def median_step(oneflow, args, *flags):
    rows = oneflow.train(oneflow.noise(), args.steps + 2, "--learning_rate=1e-4", *flags)
    return statistics.median(row["step_seconds"] for row in rows[2:])


def core_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def list_children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


def waiting(binaries, folder):
    """Part of a core that a process uses while the one it waits for is stopped."""
    oneflow = Oneflow(binaries, folder, MODELS["small"], "data=2", 2, name="waiting")
    train = subprocess.Popen([oneflow.binary, "train", "--plan=" + oneflow.plan, "--data=" + oneflow.noise(),
                              "--steps=100000", "--threads=2", "--processes=2", "--metrics=" + oneflow.metrics],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not os.path.exists(oneflow.metrics) or os.path.getsize(oneflow.metrics) == 0:
            time.sleep(0.05)
            if train.poll() is not None:
                sys.exit("tools/bench processes: train ended before its first step")
        [child] = list_children(train.pid)
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.5)
        before = core_seconds(train.pid)
        time.sleep(WAITING_SECONDS)
        used = core_seconds(train.pid) - before
        alive = train.poll() is None
        os.kill(child, signal.SIGKILL)
        if not alive:
            sys.exit("tools/bench processes: train ended while it waited")
        return used / WAITING_SECONDS
    finally:
        train.kill()
        train.wait()


def load(binaries, folder, data, rounds):
    oneflow = Oneflow(binaries, folder, dict(ONE_T, batch=512 * data), f"pipe=64,data={data},tensor=8", 1, name=f"1t{data}",
                      micro_batches=512)
    loader = os.path.join(binaries, "tools/benchmarks/load_process")
    processes = 64 * data
    runs = []
    for _ in range(rounds):
        runs.append((timed([oneflow.binary, "verify", "--plan=" + oneflow.plan], "1T", "cpu"),
                     timed([loader, oneflow.plan, str(processes), str(processes // 2 + 5)], "1T", "cpu")))
    return {"devices": 8 * processes, "verify_seconds": statistics.median(v[0] for v, _ in runs),
            "load_seconds": statistics.median(p[0] for _, p in runs),
            "ratio": statistics.median(p[0] / v[0] for v, p in runs), "load_peak_bytes": max(p[1] for _, p in runs),
            "verify_peak_bytes": max(v[1] for v, _ in runs)}


def run(args, binaries):
    text = args.format == "text"
    with tempfile.TemporaryDirectory() as folder:
        if args.load:
            rows = []
            for data in [6, 60]:
                row = load(binaries, folder, data, args.rounds)
                rows.append(row)
                if text:
                    print(f"GPT 1T on {row['devices']:,} devices, a process of 8: {row['load_seconds']:.2f} s and "
                          f"{row['load_peak_bytes'] / 1e6:.0f} MB; verify {row['verify_seconds']:.2f} s and "
                          f"{row['verify_peak_bytes'] / 1e6:.0f} MB; ratio {row['ratio']:.2f}", flush=True)
            if not text:
                print(json.dumps(rows))
            return
        rows = []
        for mesh, micro_batches in MESHES.items():
            row = compare(binaries, folder, mesh, micro_batches, args)
            rows.append(row)
            if text:
                print(f"{mesh:10} one process {1e3 * row['one_process_seconds']:8.1f} ms   two "
                      f"{1e3 * row['two_processes_seconds']:8.1f} ms   ratio {row['ratio']:.3f}   crossing "
                      f"{row['bytes'] / 1e6:.1f} MB, {row['messages']} messages a step", flush=True)
        waits = waiting(binaries, folder)
        print(f"a process that waits uses {100 * waits:.1f} % of a core" if text
              else json.dumps({"meshes": rows, "waiting": waits}))
