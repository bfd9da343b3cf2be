"""Measures the cost of the coordinator: 64 processes join process 0 over gRPC on loopback, then take steps.

Seconds from starting the first process until all have joined, and cores that process 0 and the 64 others take
together while a step lasts a second: beats, one report of each process a step, nothing else.
"""
import json
import os
import statistics
import subprocess
import sys
import time

TARGETS = ["//tools/benchmarks:coordinator_client"]


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--step_milliseconds", type=int, default=1000)


def cores(line):
    """The numbers of "cpu C wall W reports R writes N OK"."""
    words = line.split()
    if words[-1] != "OK":
        sys.exit(f"tools/bench: a process did not leave well: {line}")
    return float(words[1]) / float(words[3])


def one_round(program, args):
    """Seconds to join, cores of process 0, cores of all others."""
    def start(address, process):
        return subprocess.Popen([program, address, str(process), str(args.clients + 1), str(args.seconds),
                                 str(args.step_milliseconds)], stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    first = start("127.0.0.1:0", 0)
    port = first.stdout.readline().split()[1]
    processes = [first] + [start(f"127.0.0.1:{port}", p) for p in range(1, args.clients + 1)]
    if first.stdout.readline().strip() != "joined":
        sys.exit("tools/bench: the processes have not joined")
    joined = time.monotonic() - began
    used = [cores(process.communicate()[0].splitlines()[-1]) for process in processes]
    return joined, used[0], sum(used[1:])


def run(args, folder):
    program = os.path.join(folder, TARGETS[0][2:].replace(":", "/"))
    rounds = []
    for i in range(args.rounds):
        print(f"round {i + 1}/{args.rounds}", file=sys.stderr)
        rounds.append(one_round(program, args))
    joined, first, others = (statistics.median(values) for values in zip(*rounds))
    if args.format == "json":
        print(json.dumps({"clients": args.clients, "join_seconds": joined, "cores_of_process_0": first,
                          "cores_of_clients": others}))
        return
    print(f"{args.clients} processes join in {joined:.2f} s; while they take steps process 0 takes {first:.3f} of a core, "
          f"the others {others:.3f} together ({1e3 * others / args.clients:.2f} thousandths each)")
