"""Losses: processes that are killed, stopped or cut off end the others in time, and written files stay intact.

Times are real here. ONEFLOW_TEST_FULL=1 keeps slow processes slow for a minute.
"""
import os
import signal
import threading
import time

from tests import namespaces
from tests.processes.case import BROKE, HERE, ProcessesCase

KILLED_SECONDS, SILENT_SECONDS = 3, 10
SLOW_SECONDS = 60 if os.environ.get("ONEFLOW_TEST_FULL") == "1" else 8


class LossTest(ProcessesCase):
    def killed(self, name, count, lost, network=None):
        job = self.job(name, count, network).start_all()
        others = [i for i in range(count) if i != lost]
        job.wait_for_steps(30)
        job.processes[lost].kill()
        job.wait_until_gone(others, KILLED_SECONDS)
        host = ["a", "b"][lost % 2] if network else HERE
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
        host = ["a", "b"][lost % 2] if network else HERE
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
        # They are cut off from each other's word, too.
        far = [self.check_told(job, [i], r"^host a \(process 0, rank 0\) has been silent for ") for i in range(1, count, 2)]
        told = job.outcome()["sentence"]
        self.check_outcome(job, told[5], int(told.split("process ")[1][0]), [here, *far])
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
