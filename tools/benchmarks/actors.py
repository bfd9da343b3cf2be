"""Measures the cost of an actor, and of a message between workers.

A chain of 64 actors that compute nothing, on one stream, compared with a oneTBB flow graph of the same chain; a
message to another worker and its answer, with workers that spin and with workers that sleep; messages of 8 workers in
a row; and how much of a step of the small model passes outside of kernels, from its trace.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

TARGETS = ["//tools/benchmarks:actor_cost", "//tools/benchmarks:tbb_chain"]
SMALL = ["--layers=4", "--heads=4", "--hidden=128", "--sequence=64", "--vocab=256", "--bias=false"]
# name -> binary and its argument
CASES = {
    "firing": ("actor_cost", "chain"),
    "tbb_continue_node": ("tbb_chain", "continue"),
    "tbb_function_node": ("tbb_chain", "serial"),
    "tbb_lightweight_node": ("tbb_chain", "lightweight"),
    "message_and_answer": ("actor_cost", "ping_pong"),
    "message_and_answer_parked": ("actor_cost", "parked"),
    "message_of_8_workers": ("actor_cost", "pipeline"),
}


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=3)


def nanoseconds(folder, binary, case):
    program = os.path.join(folder, "tools/benchmarks", binary)
    return float(subprocess.run([program, case], check=True, capture_output=True, text=True).stdout)


def outside_kernels(oneflow, threads, steps=40, warm=5):
    """Share of a step of the small model in which the device's stream runs no kernel."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*args):
            subprocess.run([oneflow, *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "text"), "wb") as out:
            out.write(os.urandom(1 << 16))
        run("model", "gpt", *SMALL, "--out=gpt.textproto")
        run("train", "--graph=gpt.textproto", "--batch=12", "--data=text", f"--steps={steps}", f"--threads={threads}",
            "--trace=trace.json")
        with open(os.path.join(folder, "trace.json")) as trace:
            events = json.load(trace)["traceEvents"]
    compute = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "compute"}
    firings = [e for e in events if e["ph"] == "X" and e["args"]["program"] == "train" and (e["pid"], e["tid"]) in compute
               and e["args"]["step"] >= warm]
    wall = max(e["ts"] + e["dur"] for e in firings) - min(e["ts"] for e in firings)
    return 1 - sum(e["dur"] for e in firings) / wall


def run(args, folder):
    taken = {name: [] for name in CASES}
    outside = []
    for i in range(args.rounds):
        print(f"round {i + 1}/{args.rounds}", file=sys.stderr)
        for name, (binary, case) in CASES.items():
            taken[name].append(nanoseconds(folder, binary, case))
        outside.append(outside_kernels(os.path.join(folder, "tools/oneflow/oneflow"), args.threads))
    ns = {name: statistics.median(values) for name, values in taken.items()}
    best_tbb = min(value for name, value in ns.items() if name.startswith("tbb_"))
    result = {**{name + "_ns": value for name, value in ns.items()}, "ratio": best_tbb / ns["firing"],
              "messages_a_second": 1e9 / ns["message_of_8_workers"], "outside_kernels": statistics.median(outside)}
    if args.format == "json":
        print(json.dumps(result))
        return
    print(f"a firing: {ns['firing']:.1f} ns; a node of oneTBB: {ns['tbb_continue_node']:.1f} ns (continue_node), "
          f"{ns['tbb_function_node']:.1f} (function_node), {ns['tbb_lightweight_node']:.1f} (lightweight); "
          f"ratio to the fastest {result['ratio']:.2f}")
    print(f"a message to another worker and its answer: {ns['message_and_answer']:.0f} ns spinning, "
          f"{ns['message_and_answer_parked']:.0f} ns parked")
    print(f"8 workers in a row: {result['messages_a_second'] / 1e6:.1f} million messages a second")
    print(f"a step of the small model passes {100 * result['outside_kernels']:.1f} % outside of kernels")
