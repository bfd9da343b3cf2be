"""Plans in two processes, simulated and run, over shared memory and over a slow link.

The machine is measured first, its link between processes too. For the slow link two network namespaces are made (root),
joined by a pair of veth devices of 500 Mbit/s each way; that link is measured between them and replaces the
measured one in the cluster file. Six plans: GPT-2 124M with four layers, and the README's small model.
"""
import contextlib
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time

from benchmarks.sides import Oneflow

FOUR_LAYERS = dict(layers=4, heads=12, hidden=768, sequence=256, vocab=50257, batch=4)
SMALL = dict(layers=4, heads=4, hidden=128, sequence=64, vocab=256, batch=16, bias=0)
PLANS = [(f"{name}, {mesh}", model, mesh, 4 if mesh == "pipe=2" else 1)
         for name, model in [("124M of four layers", FOUR_LAYERS), ("small", SMALL)]
         for mesh in ["data=2", "tensor=2", "pipe=2"]]
RATE = "500mbit"
ADDRESSES = ["10.79.0.1", "10.79.0.2"]
DEVICE = "e0"
TCP = {"UCX_TLS": "tcp,self"}


def ip(*args):
    return subprocess.run(["ip", *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def wait_until_up(name):
    """A device that was just made says some time later that it runs, and UCX uses none that does not."""
    for _ in range(500):
        if "state UP" in ip("-n", name, "-o", "link", "show", "dev", DEVICE):
            return
        time.sleep(0.01)
    raise SystemExit(f"tools/bench: {DEVICE} in {name} does not come up")


@contextlib.contextmanager
def slow_link():
    """Two namespaces joined by a slow link; their names."""
    names = [f"oneflow-bench-{os.getpid()}-{i}" for i in (0, 1)]
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("link", "add", DEVICE, "netns", names[0], "type", "veth", "peer", "name", DEVICE, "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", address + "/24", "dev", DEVICE)
            ip("-n", name, "link", "set", DEVICE, "up")
            subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", DEVICE, "root", "tbf", "rate", RATE,
                            "burst", "256kb", "latency", "50ms"], check=True)
        for name in names:
            wait_until_up(name)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def with_link(cluster, bandwidth, entry_seconds, asleep_seconds):
    """A cluster file's text with another link between processes: its second level."""
    head, *levels = re.split(r"(?m)^(?=level \{)", cluster)
    levels[1] = (f'level {{\n  name: "host"\n  size: 2\n  latency: {entry_seconds / 4}\n  bandwidth: {bandwidth}\n'
                 f"  sleeping_latency: {asleep_seconds / 4}\n}}\n")
    return "".join([head, *levels])


class SharedMemory:
    """Processes of this host."""
    name = "shared memory"

    def cluster(self, measured):
        return measured

    def steps(self, oneflow, n):
        rows = oneflow.train(oneflow.noise(), n + 2, "--learning_rate=1e-4", "--processes=2")
        return [row["step_seconds"] for row in rows[2:]]


class SlowLink:
    """Processes of two namespaces."""
    name = f"TCP of {RATE}"

    def __init__(self, names, link_rate):
        self.names, self.link_rate = names, link_rate

    def measure(self, *flags):
        out = subprocess.run([self.link_rate, "--interface=" + DEVICE, "--namespaces=" + ",".join(self.names), *flags,
                              "tcp,self", "4"], check=True, capture_output=True, text=True)
        return [float(x) for x in out.stdout.split()]

    def cluster(self, measured):
        with open(measured) as file:
            text = file.read()
        (bandwidth, entry), (_, asleep) = self.measure(), self.measure("--asleep")
        path = measured + ".slow"
        with open(path, "w") as file:
            file.write(with_link(text, bandwidth, entry, asleep))
        return path

    def steps(self, oneflow, n):
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
        env = dict(os.environ, **TCP)
        job = tempfile.mkdtemp(dir=oneflow.folder)
        oneflow.run("train", f"--make_job_keys={job}/keys")
        children = []
        for index, name in enumerate(self.names):
            command = ["ip", "netns", "exec", name, oneflow.binary, "train", "--plan=" + oneflow.plan,
                       "--data=" + oneflow.noise(), f"--steps={n + 2}", f"--threads={oneflow.threads}",
                       "--learning_rate=1e-4", "--processes=2", f"--process_index={index}", "--interface=" + DEVICE,
                       f"--coordinator={ADDRESSES[0]}:{port}", "--job_dir=" + job]
            if index == 0:
                command.append("--metrics=" + oneflow.metrics)
            children.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
        if any([child.wait() for child in children]):
            raise SystemExit("tools/bench: train over the slow link failed")
        return [row["step_seconds"] for row in oneflow.rows()[2:]]


def compare(binaries, folder, link, measured, args, predicted):
    """A row a plan."""
    cluster = link.cluster(measured)
    for i, (name, model, mesh, micro_batches) in enumerate(PLANS):
        oneflow = Oneflow(binaries, folder, model, mesh, 2, name=f"far{i}", micro_batches=micro_batches)
        seconds = []
        for _ in range(args.rounds):
            seconds += link.steps(oneflow, args.steps)
        a, b = predicted(oneflow, cluster, "--processes=2"), statistics.median(seconds)
        yield {"plan": name, "link": link.name, "predicted_seconds": a, "measured_seconds": b, "error": a / b - 1}
