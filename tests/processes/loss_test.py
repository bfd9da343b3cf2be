"""Losses: processes that are killed, stopped or cut off end the others in time, and what was written stays whole.

Times are real here. ONEFLOW_TEST_FULL=1 keeps slow processes slow for a minute.
"""
import os
import signal
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from tests import namespaces
from tests.e2e.cli import read_metrics, run
from tests.processes.hosts import Network
from tests.processes.job import Job, contents

KILLED_SECONDS, SILENT_SECONDS = 3, 10
SLOW_SECONDS = 60 if os.environ.get("ONEFLOW_TEST_FULL") == "1" else 8
BROKE = "its connection broke: it was killed, or exited without a word"


class LossTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = folder.name
        with open(cls.root + "/text.txt", "w", encoding="utf-8") as text:
            text.write("".join(f"line {i}: the cat sat on mat {i % 7}.\n" for i in range(400)))
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256",
            "--out=gpt.textproto", cwd=cls.root)
        for name, flags in {"2": ["--mesh=data=2"], "4": ["--mesh=pipe=2,data=2", "--micro_batches=2"],
                            "8": ["--mesh=pipe=2,data=2,tensor=2", "--micro_batches=2"]}.items():
            run("compile", "--graph=gpt.textproto", "--batch=16", *flags, f"--out={name}.plan", cwd=cls.root)

    def job(self, name, processes, network=None, **options):
        job = Job(f"{self.root}/{name}", f"{self.root}/{processes}.plan", processes,
                  network.hosts.values() if network else (), **options)
        self.addCleanup(job.kill)
        return job

    def network(self, number):
        network = Network(number, ["a", "b"])
        self.addCleanup(network.__exit__)
        return network

    def at_once(self, *scenarios):
        """Calls functions with their arguments, all at one time."""
        with ThreadPoolExecutor(len(scenarios)) as pool:
            done = {str(arguments[0]): pool.submit(function, *arguments) for function, *arguments in scenarios}
        for name, end in done.items():
            with self.subTest(name):
                end.result()

    def check_told(self, job, indices, sentence, code=1):
        """Each of these processes has told one sentence, the same, which matches; returns it."""
        told = [job.sentences(i) for i in indices]
        self.assertEqual([job.processes[i].returncode for i in indices], [code] * len(indices), job.errors())
        self.assertEqual(told, [told[0]] * len(indices), job.errors())
        self.assertEqual(len(told[0]), 1, job.errors())
        self.assertRegex(told[0][0], sentence)
        return told[0][0]

    def check_outcome(self, job, host, rank, sentences, code=1):
        outcome = job.outcome()
        self.assertEqual((outcome["attempt"], outcome["code"], outcome["host"], outcome["rank"]), (1, code, host, rank),
                         outcome)
        self.assertIn(outcome["sentence"], sentences)
        # The last line may be of a step that had just been reported.
        self.assertLessEqual(abs(outcome["step"] - job.steps_done()), 1)

    def check_resumed(self, job):
        """What is left of it is the beginning of an undisturbed run, bit by bit."""
        step = job.checkpoints()[-1]
        steps, step_dir = step + 5, f"step-{step + 5:08d}"
        whole = Job(job.dir + "/whole", job.plan, 1, steps=steps)
        for directory, flags in [(job.dir, ["--resume=true"]), (whole.dir, [])]:
            whole.every = steps
            run(*whole.arguments(*flags), cwd=directory)
        self.assertEqual([(row["step"], row["loss"]) for row in read_metrics(job.dir + "/metrics.jsonl")],
                         [(row["step"], row["loss"]) for row in read_metrics(whole.dir + "/metrics.jsonl")], job.dir)
        self.assertEqual(contents(f"{job.dir}/checkpoints/{step_dir}"), contents(f"{whole.dir}/checkpoints/{step_dir}"))

    def killed(self, name, count, lost, network=None):
        job = self.job(name, count, network).start_all()
        others = [i for i in range(count) if i != lost]
        job.wait_for_steps(30)
        job.processes[lost].kill()
        job.wait_until_gone(others, KILLED_SECONDS)
        host = ["a", "b"][lost % 2] if network else os.uname().nodename
        sentence = self.check_told(job, others, rf"^host {host} \(process {lost}, rank {lost}\): {BROKE}$")
        self.check_outcome(job, host, lost, [sentence])
        self.check_resumed(job)

    def test_killed(self):
        self.at_once((self.killed, "killed 1", 4, 1), (self.killed, "killed 0", 2, 0),
                     (self.killed, "far, killed 1", 4, 1, self.network(0)),
                     (self.killed, "far, killed 0", 4, 0, self.network(1)))

    def stopped(self, name, count, lost, network=None):
        job = self.job(name, count, network).start_all()
        others = [i for i in range(count) if i != lost]
        job.wait_for_steps(30)
        job.processes[lost].send_signal(signal.SIGSTOP)
        job.wait_until_gone(others, SILENT_SECONDS)
        host = ["a", "b"][lost % 2] if network else os.uname().nodename
        sentence = self.check_told(job, others, rf"^host {host} \(process {lost}, rank {lost}\) has been silent for ")
        self.check_outcome(job, host, lost, [sentence])
        before = job.files()
        job.processes[lost].send_signal(signal.SIGCONT)
        job.wait_until_gone([lost], KILLED_SECONDS)
        self.check_told(job, [lost], rf"^host {host} \(process {lost}, rank {lost}\) (has been silent|was stopped, or had no "
                        "processor,) for ")
        self.assertEqual(job.files(), before)
        self.check_resumed(job)

    def cut(self, name, count, network, how):
        job = self.job(name, count, network).start_all()
        job.wait_for_steps(30)
        how(network.hosts["b"])
        job.wait_until_gone(range(count), SILENT_SECONDS)
        there = ", ".join([r"host b \(process \d, rank \d\)"] * (count // 2))
        here = self.check_told(job, range(0, count, 2), rf"^{there} ha(s|ve) been silent for ")
        far = self.check_told(job, range(1, count, 2), r"^host a \(process 0, rank 0\) has been silent for ")
        told = job.outcome()["sentence"]
        self.check_outcome(job, told[5], int(told.split("process ")[1][0]), [here, far])
        self.check_resumed(job)

    def test_silent(self):
        self.at_once((self.stopped, "stopped 1", 2, 1), (self.stopped, "far, stopped 1", 4, 1, self.network(2)),
                     (self.stopped, "far, stopped 0", 2, 0, self.network(3)),
                     (self.cut, "unplugged", 2, self.network(4), lambda host: host.unplug()),
                     (self.cut, "dropped", 4, self.network(5), lambda host: host.drop()))

    def slowed(self, name, network):
        """One of two runs a tenth of the time."""
        job = self.job(name, 2, network).start_all()
        job.wait_for_steps(1)
        end = time.monotonic() + SLOW_SECONDS
        slow, clock = job.processes[1], threading.Event()
        while time.monotonic() < end and slow.poll() is None:
            slow.send_signal(signal.SIGSTOP)
            clock.wait(0.45)
            slow.send_signal(signal.SIGCONT)
            clock.wait(0.05)
        self.goes_on(job)

    def crowded(self, name):
        job = self.job(name, 8).start_all(before=["taskset", "1"])
        job.wait_for_steps(1)
        end = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < end and all(process.poll() is None for process in job.processes):
            job.wait_for_steps(job.steps_done() + 1)
        self.goes_on(job)

    def goes_on(self, job):
        """It can still be ended well."""
        self.assertEqual([process.poll() for process in job.processes], [None] * job.count, job.errors())
        job.processes[0].send_signal(signal.SIGTERM)
        job.wait_until_gone(range(job.count), 30)
        self.check_resumed(job)

    def test_slow_is_not_dead(self):
        self.at_once((self.slowed, "far, slowed", self.network(6)), (self.crowded, "crowded"))


if __name__ == "__main__":
    namespaces.main(__name__, ["bridge", "taskset"], lambda: None)
