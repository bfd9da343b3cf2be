"""tools/bench schedules: the bubble of every schedule on the real runtime, beside its formula.

Kernels that wait a set time on 4 and 8 stages (schedule_time.cc), then real kernels on 2: a model of equal stages, where
the bubble is what the busiest stage idles in a step, from a trace. A bubble is given as a share of the work, which is
measured, too: a sleep is longer than asked for, and a kernel faster while the other stage idles.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

TARGETS = ["//tools/benchmarks:schedule_time"]
MILLISECONDS, STEPS = 24, 2
# (schedule, stages, micro-batches, chunks, extra in flight) and the bubble over the work, by formula
CASES = [(("gpipe", p, 2 * p, 1, 0), (p - 1) / (2 * p)) for p in (4, 8)]
CASES += [(("1f1b", p, 2 * p, 1, 0), (p - 1) / (2 * p)) for p in (4, 8)]
CASES += [(("interleaved", p, 2 * p, v, 0), (p - 1) / (2 * p * v)) for p in (4, 8) for v in (2, 3)]
CASES += [(("interleaved", p, 2 * p + 1, 2, 0), (p - 1) / (2 * (2 * p + 1))) for p in (4, 8)]
CASES += [(("zero_bubble", p, 3 * p, 1, e), (p - 1 - e) / (9 * p)) for p in (4, 8) for e in (0, p // 2, p - 1)]
MODEL = ["--layers=8", "--heads=4", "--hidden=256", "--sequence=128", "--vocab=64", "--bias=false", "--tied=false"]


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=3)


def waiting(folder, case):
    """Bubble over work, measured, of one case."""
    name, stages, micro_batches, chunks, extra = case
    binary = os.path.join(folder, "tools/benchmarks/schedule_time")
    args = [name, stages, micro_batches, 0 if chunks == 1 else chunks, extra, MILLISECONDS, STEPS]
    done = subprocess.run([binary, *map(str, args)], check=True, capture_output=True, text=True)
    measured, work = map(float, done.stdout.split())
    return measured / work - 1


def find_steps(trace):
    """For every step after the first two: its seconds, and the working seconds of the busiest stage."""
    compute = {(e["pid"], e["tid"]) for e in trace if e["name"] == "thread_name" and e["args"]["name"] == "compute"}
    firings = [e for e in trace if e["ph"] == "X" and e["args"]["program"] == "train" and (e["pid"], e["tid"]) in compute]
    ends, busy = {}, {}
    for e in firings:
        step, device = e["args"]["step"], e["pid"]
        ends[step] = max(ends.get(step, 0), e["ts"] + e["dur"])
        busy[step, device] = busy.get((step, device), 0) + e["dur"]
    devices = {device for _, device in busy}
    return [(ends[s] - ends[s - 1], max(busy[s, d] for d in devices)) for s in sorted(ends) if s >= 2]


def real(oneflow, schedule, micro_batches):
    """Bubble over work of a GPT on two stages of one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        def call(*args):
            subprocess.run([oneflow, *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "text"), "wb") as out:
            out.write(bytes(b % 64 for b in os.urandom(1 << 16)))
        call("model", "gpt", *MODEL, "--out=gpt.textproto")
        call("train", "--graph=gpt.textproto", "--mesh=pipe=2", "--threads=2", f"--batch={2 * micro_batches}",
            f"--micro_batches={micro_batches}", *schedule, "--data=text", "--steps=10", "--trace=trace.json")
        with open(os.path.join(folder, "trace.json")) as trace:
            steps = find_steps(json.load(trace)["traceEvents"])
    return statistics.median(seconds / work - 1 for seconds, work in steps)


def of_formula(row):
    return f"{row['measured'] / row['formula']:.2f}" if row["formula"] else "-"


def run(args, folder):
    rows = []
    for case, formula in CASES:
        measured = statistics.median(waiting(folder, case) for _ in range(args.rounds))
        rows.append({"kernels": "waiting", "schedule": case[0], "stages": case[1], "micro_batches": case[2],
                     "chunks": case[3], "extra_in_flight": case[4], "formula": formula, "measured": measured})
    oneflow = os.path.join(folder, "tools/oneflow/oneflow")
    for m in (4, 8):
        for name, flags, formula in [("gpipe", ["--schedule=gpipe"], 1 / m), ("1f1b", ["--schedule=1f1b"], 1 / m),
                                     ("interleaved", ["--schedule=interleaved"], 1 / (2 * m))]:
            measured = statistics.median(real(oneflow, flags, m) for _ in range(args.rounds))
            rows.append({"kernels": "real", "schedule": name, "stages": 2, "micro_batches": m,
                         "chunks": 2 if name == "interleaved" else 1, "extra_in_flight": 0, "formula": formula,
                         "measured": measured})
    if args.format == "json":
        print(json.dumps(rows))
        return
    print("bubble over work: formula, measured, measured over formula; seconds a step against what the formula says")
    for r in rows:
        ratio = (1 + r["measured"]) / (1 + r["formula"])
        print(f"{r['kernels']:8} {r['schedule']:12} P={r['stages']} M={r['micro_batches']:<3} v={r['chunks']} "
              f"e={r['extra_in_flight']}  {r['formula']:.4f}  {r['measured']:.4f}  {of_formula(r):>5}  {ratio:.3f}")
    worst = max(abs((1 + r["measured"]) / (1 + r["formula"]) - 1) for r in rows)
    print(f"largest distance of a step from its formula: {100 * worst:.1f} %", file=sys.stderr)
