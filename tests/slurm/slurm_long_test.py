"""Events that Slurm notices after minutes: daemons and hosts that die or hang, the limit of a job's time."""
import contextlib
import os
import signal

from tests.slurm import cluster
from tests.slurm.slurm_case import StandInCase, TrainCase
from tests.slurm.waiting import wait_for


def wait_until_down(slurm, node):
    wait_for(f"{node} down", lambda: slurm.states()[node].startswith("down"), seconds=120)


class SlurmLongTest(StandInCase):
    def test_a_daemon_that_dies_ends_no_process(self):
        self.submit_and_wait("--spare_nodes=1")
        lost = self.find_node(1, 1)
        self.slurm.kill_node(lost)
        wait_until_down(self.slurm, lost)
        self.let_go()
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["attempt"]), ("done", 1))
        self.assertEqual(self.losses(), self.undisturbed())
        self.slurm.start_node(lost)

    def test_a_host_that_dies(self):
        # The first process finds the other one lost, and ends; Slurm knows of the node when its time is over.
        job, = self.submit_and_wait("--spare_nodes=1", attempt_1={"wait": 7, "fail": 8, "code": 1})
        lost = self.find_node(1, 1)
        self.slurm.kill_node(lost, tasks=True)
        self.let_go()
        status = self.wait_until_over(seconds=150)
        self.assertEqual(status["state"], "done", self.all_logs())
        self.assertEqual(self.attempts(), [(job, "none"), (job, "step-00000005")])
        self.assertNotEqual(self.find_node(2, 1), lost)
        self.assertEqual(self.losses(), self.undisturbed())
        self.slurm.start_node(lost)

    def test_the_time_limit(self):
        self.behave(attempt_1={"wait": 7}, attempt_2={"wait": 13, "deaf": True})
        jobs = self.submit("--max_jobs=4", "--time=2", "--signal_seconds=30")
        # The first job is signalled half a minute, or a minute more, before its end, and writes a checkpoint; the
        # second does not listen, and goes when Slurm ends it.
        status = self.wait_until_over(seconds=500)
        self.assertEqual(status["state"], "done", self.all_logs())
        self.assertEqual(self.attempts(),
                         [(jobs[0], "none"), (jobs[1], "step-00000007"), (jobs[2], "step-00000010")])
        self.assertIn("oneflow: the job's time is over\n", self.read(f"logs/slurm-{jobs[0]}.log"))
        self.assertEqual(self.losses(), self.undisturbed())


class HangTest(TrainCase):
    def files(self):
        """(path, bytes) of what processes write, but for logs."""
        found = {}
        for folder, _, names in os.walk(self.job):
            for name in names:
                path = os.path.join(folder, name)
                if not path.startswith(self.job + "/logs/"):
                    with open(path, "rb") as file:
                        found[path] = file.read()
        return found

    def test_a_host_that_hangs_and_comes_back(self):
        # That of the script and of the first process: the successor goes on while that process still is there.
        jobs = self.submit("--spare_nodes=1", "--max_jobs=2")
        self.wait_for_checkpoint(1)
        node = self.node_of_script(jobs[0])
        old = self.tasks(0)
        hung = [self.slurm.daemons[node].pid, *self.slurm.list_processes(node)]
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        wait_until_down(self.slurm, node)
        self.check_done(seconds=150)
        self.assertEqual([attempt[0] for attempt in self.attempts()], jobs)
        written = self.files()
        self.assertEqual(self.tasks(0), old)
        for pid in hung:
            with contextlib.suppress(ProcessLookupError):  # the step's daemon, continued, ends its tasks
                os.kill(pid, signal.SIGCONT)
        wait_for("the end of the process that hung", lambda: not self.tasks(0))
        self.assertEqual(self.files(), written)


if __name__ == "__main__":
    cluster.main(__name__)
