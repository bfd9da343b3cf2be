"""Measures the bandwidth of far communicators, compared with ucx_perftest and Open MPI.

Pulls of a register, up to 16 in transit, against ucx_perftest's active messages with 16 outstanding and error
handling, at the same UCX settings: shared memory and TCP on loopback. The two take turns; medians. As ucx_perftest
sends from and receives in one buffer, so do the pulls; `apart` is what they reach where every packet has its own memory, as in
a plan. Beside them rows of 1.5 KB, and how long an exchange of one element takes: entered, asked for, sent, done. Last,
an all_reduce between four processes, beside Open MPI's.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

TARGETS = ["//tools/benchmarks:transport", "//tools/benchmarks:all_reduce", "//tools/benchmarks:mpi_all_reduce"]
TRANSPORTS = {"shared memory": "sysv,self", "TCP": "tcp,self"}
SIZES = [64 << 10, 256 << 10, 1 << 20, 16 << 20]
ROW = 1536
REDUCED = 64 << 20
SETTINGS = {"UCX_NET_DEVICES": "lo", "UCX_MM_ERROR_HANDLING": "y", "UCX_KEEPALIVE_INTERVAL": "inf",
            "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_LOG_LEVEL": "fatal"}


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement, in turn")
    parser.add_argument("--seconds", type=float, default=0.6, help="of a measurement, about")
    parser.add_argument("--all_reduce", action=argparse.BooleanOptionalAction, default=True, help="also the all_reduce")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def perftest(transports, size, seconds):
    """Bytes a second of active messages with 16 outstanding."""
    env = dict(os.environ, UCX_TLS=transports, **SETTINGS)
    port = free_port()
    count = max(40, int(seconds * 4e9 / size))
    with subprocess.Popen(["ucx_perftest", "-p", str(port)], env=env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        command = ["ucx_perftest", "127.0.0.1", "-p", str(port), "-t", "ucp_am_bw", "-O", "16", "-e", "-s", str(size),
                   "-n", str(count), "-w", "20"]
        for _ in range(100):  # until the server listens
            client = subprocess.run(command, env=env, capture_output=True, text=True)
            lines = [line.split() for line in client.stdout.splitlines() if line.startswith("Final:")]
            if lines:
                server.wait(20)
                return float(lines[-1][-3]) * 2**20
            time.sleep(0.05)
        server.terminate()
    sys.exit(f"tools/bench transport: ucx_perftest failed: {client.stderr or client.stdout}")


class Ours:
    def __init__(self, binaries):
        self.folder = os.path.join(binaries, "tools/benchmarks")

    def pulls(self, transports, size, seconds, *more, rows=()):
        """Bytes a second, and seconds of an entry."""
        out = subprocess.run([os.path.join(self.folder, "transport"), *more, transports, str(size), str(seconds),
                              *[str(r) for r in rows]], check=True, capture_output=True, text=True).stdout
        return tuple(float(x) for x in out.split())

    def all_reduce(self, transports, rounds):
        out = subprocess.run([os.path.join(self.folder, "all_reduce"), transports, "4", str(REDUCED), str(rounds)],
                             check=True, capture_output=True, text=True).stdout
        return float(out)

    def mpi(self, shared, rounds):
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        layer = ["self,vader"] if shared else ["self,tcp", "--mca", "btl_tcp_if_include", "lo"]
        out = subprocess.run(["mpirun", "--oversubscribe", "-n", "4", "--mca", "pml", "ob1", "--mca", "btl", *layer,
                              os.path.join(self.folder, "mpi_all_reduce"), str(REDUCED), str(rounds)],
                             check=True, capture_output=True, text=True, env=env).stdout
        return float(out)


def bandwidths(ours, args, name, transports, size):
    samples = {"ucx_perftest": [], "pulls": [], "apart": [], "rows": []}
    for _ in range(args.rounds):
        samples["ucx_perftest"].append(perftest(transports, size, args.seconds))
        samples["pulls"].append(ours.pulls(transports, size, args.seconds, "--one_buffer")[0])
        samples["apart"].append(ours.pulls(transports, size, args.seconds)[0])
        samples["rows"].append(ours.pulls(transports, size, args.seconds, rows=[ROW])[0])
    row = {"transport": name, "bytes": size, **{k: statistics.median(v) for k, v in samples.items()}}
    row["ratio"] = statistics.median(a / b for a, b in zip(samples["pulls"], samples["ucx_perftest"]))
    return row


def entries(ours, args, name, transports):
    spin, asleep = [], []
    for _ in range(args.rounds):
        spin.append(ours.pulls(transports, 65536, args.seconds)[1])
        asleep.append(ours.pulls(transports, 65536, args.seconds, "--asleep")[1])
    return {"transport": name, "spinning_seconds": statistics.median(spin), "asleep_seconds": statistics.median(asleep)}


def reductions(ours, args, name, transports):
    pairs = [(ours.all_reduce(transports, 5), ours.mpi(name != "TCP", 5)) for _ in range(args.rounds)]
    own, peer = (statistics.median(side) for side in zip(*pairs))
    return {"transport": name, "bytes": REDUCED, "seconds": own, "open_mpi_seconds": peer, "ratio": own / peer}


def run(args, binaries):
    ours = Ours(binaries)
    report = {"pulls": [], "entries": [], "all_reduce": []}
    text = args.format == "text"
    for name, transports in TRANSPORTS.items():
        for size in SIZES:
            row = bandwidths(ours, args, name, transports, size)
            report["pulls"].append(row)
            if text:
                print(f"{name:14} {size >> 10:6d} KiB  pulls {row['pulls'] / 1e9:6.2f} GB/s  ucx_perftest "
                      f"{row['ucx_perftest'] / 1e9:6.2f}  ratio {row['ratio']:.2f}   apart {row['apart'] / 1e9:6.2f}  "
                      f"rows of {ROW} bytes {row['rows'] / 1e9:6.2f}", flush=True)
        row = entries(ours, args, name, transports)
        report["entries"].append(row)
        if text:
            print(f"{name:14} an exchange of one element {1e6 * row['spinning_seconds']:.1f} us, asleep "
                  f"{1e6 * row['asleep_seconds']:.1f} us", flush=True)
    for name, transports in TRANSPORTS.items():
        if not args.all_reduce:
            break
        row = reductions(ours, args, name, transports)
        report["all_reduce"].append(row)
        if text:
            print(f"{name:14} all_reduce of 64 MiB, 4 processes: {1e3 * row['seconds']:.0f} ms, Open MPI "
                  f"{1e3 * row['open_mpi_seconds']:.0f} ms, ratio {row['ratio']:.2f}", flush=True)
    if not text:
        print(json.dumps(report))
