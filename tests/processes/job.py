"""A training of real processes, each started separately, for tests that lose one of them."""
import itertools
import json
import os
import signal
import subprocess
import time

from tests.e2e.cli import ONEFLOW, replaced, run
from tests.slurm.waiting import wait_for

ENDLESS = 1_000_000  # steps
PORTS = itertools.count(4000)  # the namespace has no others


def make_model(folder, *flags):
    """gpt.textproto, a small model, and text.txt to train it on."""
    with open(folder + "/text.txt", "w", encoding="utf-8") as text:
        text.write("".join(f"line {i}: the cat sat on mat {i % 7}.\n" for i in range(400)))
    run("model", "gpt", "--layers=2", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256", "--out=gpt.textproto", *flags,
        cwd=folder)


def contents(folder):
    """{path: bytes} of a folder of checkpoints, but for the lock."""
    files = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name == "lock":
                continue
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, folder)] = file.read()
    return files


class Job:
    """Processes 0 to n - 1 in `dir`, on the given hosts in turn, or all on this one."""

    def __init__(self, directory, plan, processes, hosts=(), steps=ENDLESS, attempt=1):
        self.dir, self.plan, self.count, self.hosts, self.steps = directory, plan, processes, list(hosts), steps
        self.environment = dict(os.environ, ONEFLOW_ATTEMPT=str(attempt), ONEFLOW_JOB_TOKEN="secret")
        self.checkpoint_dir = "checkpoints"
        self.processes, self.every, self.network_flags = [], 20, ["--interface=e0"]
        os.makedirs(directory, exist_ok=True)
        address = "127.0.0.1"
        if self.hosts:
            address = self.hosts[0].address
            self.environment["UCX_TLS"] = "tcp,self"
            if not os.path.exists(directory + "/keys"):
                subprocess.run([ONEFLOW, "train", f"--make_job_keys={directory}/keys"], check=True)
        self.coordinator = f"{address}:{next(PORTS)}"

    def host(self, index):
        return self.hosts[index % len(self.hosts)] if self.hosts else None

    def arguments(self, *flags):
        return replaced(["train", f"--plan={self.plan}", f"--data={os.path.dirname(self.plan)}/text.txt", f"--steps={self.steps}",
                f"--checkpoint_dir={self.checkpoint_dir}", f"--checkpoint_every={self.every}", "--metrics=metrics.jsonl",
                "--job_dir=.", *flags])

    def start(self, index, *flags, before=(), environment=None):
        """Starts one process. `before`: words before the command."""
        host = self.host(index)
        enter = [*(host.enter if host else ()), "env", f"--chdir={self.dir}", *before]
        process_flags = [f"--coordinator={self.coordinator}", f"--process_index={index}", f"--processes={self.count}"]
        if host:
            process_flags += self.network_flags
        with open(f"{self.dir}/stdout-{index}", "ab") as stdout, open(f"{self.dir}/stderr-{index}", "ab") as stderr:
            process = subprocess.Popen([*enter, ONEFLOW, *self.arguments(*process_flags, *flags)], stdout=stdout,
                                       stderr=stderr, env=dict(self.environment, **(environment or {})))
        self.processes.append(process)
        return process

    def start_all(self, *flags, before=()):
        for index in range(self.count):
            self.start(index, *flags, before=before)
        return self

    def start_children(self, *flags):
        """Starts process 0, which starts the others."""
        with open(self.dir + "/stdout-0", "ab") as stdout, open(self.dir + "/stderr-0", "ab") as stderr:
            self.processes.append(subprocess.Popen(
                [ONEFLOW, *self.arguments(f"--processes={self.count}", *flags)], cwd=self.dir, stdout=stdout, stderr=stderr,
                env=self.environment))
        return self

    def pids(self):
        """The ids of all processes that run in its folder, zombies too."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(self.dir):
                    found.append(int(pid))
            except OSError:
                continue  # it ended meanwhile
        return sorted(found)

    def steps_done(self):
        path = self.dir + "/metrics.jsonl"
        if not os.path.exists(path):
            return 0
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 4096))
            lines = file.read().split(b"\n")[:-1]
        return json.loads(lines[-1])["step"] + 1 if lines else 0

    def checkpoints(self):
        """Steps of those that are committed."""
        path = f"{self.dir}/{self.checkpoint_dir}"
        names = os.listdir(path) if os.path.exists(path) else []
        return sorted(int(name.split("-")[1]) for name in names if name.startswith("step-") and name[5:].isdigit())

    def wait_for_steps(self, steps, seconds=60):
        def done():
            assert all(process.poll() is None for process in self.processes), self.errors()
            return self.steps_done() >= steps
        wait_for(f"step {steps} of {self.dir}", done, seconds)

    def wait_until_gone(self, indices, seconds):
        """Seconds until they had ended by themselves."""
        begun = time.monotonic()
        for index in indices:
            try:
                self.processes[index].wait(max(0.01, begun + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{self.dir}: process {index} is there after {seconds} s\n{self.errors()}") from None
        return time.monotonic() - begun

    def files(self):
        """The files of the job, except the output of its processes."""
        return {path: data for path, data in contents(self.dir).items() if not path.startswith("std")}

    def errors(self):
        """Standard error of all."""
        return "\n".join(f"process {i}: {self.stderr(i)}" for i in range(self.count)
                         if os.path.exists(f"{self.dir}/stderr-{i}"))

    def stderr(self, index):
        with open(f"{self.dir}/stderr-{index}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def sentences(self, index):
        """The errors that a process has printed."""
        return [line.removeprefix("oneflow: error: ") for line in self.stderr(index).splitlines() if "error:" in line]

    def outcome(self):
        with open(self.dir + "/outcome.json", encoding="utf-8") as file:
            return json.load(file)

    def kill(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
