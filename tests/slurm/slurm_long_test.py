"""What takes Slurm minutes to notice: a daemon that is killed, the limit of a job's time."""
from tests.e2e.cli import run
from tests.slurm import cluster
from tests.slurm.slurm_case import StandInCase
from tests.slurm.waiting import wait_for


class SlurmLongTest(StandInCase):
    def wait_until_down(self, node):
        wait_for(f"{node} down", lambda: self.slurm.states()[node].startswith("down"), seconds=120)

    def test_a_daemon_that_dies_ends_no_process(self):
        self.behave(attempt_1={"wait": 7})
        self.submit("--spare_nodes=1")
        self.wait_for_log(1, "waits at step 7")
        lost = self.node_of(1, 1)
        self.slurm.kill_node(lost)
        self.wait_until_down(lost)
        self.let_go()
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["attempt"]), ("done", 1))
        self.assertEqual(self.losses(), self.undisturbed())
        self.slurm.start_node(lost)

    def test_a_host_that_dies(self):
        # The first process finds the other one lost, and ends; Slurm knows of the node when its time is over.
        self.behave(attempt_1={"wait": 7, "fail": 8, "code": 1})
        job, = self.submit("--spare_nodes=1")
        self.wait_for_log(1, "waits at step 7")
        lost = self.node_of(1, 1)
        self.slurm.kill_node(lost, tasks=True)
        self.let_go()
        status = self.wait_until_over(seconds=150)
        self.assertEqual(status["state"], "done", run("logs", "--job_dir=job", cwd=self.dir)[0])
        self.assertEqual(self.attempts(), [(job, "none"), (job, "step-00000005")])
        self.assertNotEqual(self.node_of(2, 1), lost)
        self.assertEqual(self.losses(), self.undisturbed())
        self.slurm.start_node(lost)

    def test_the_time_limit(self):
        self.behave(attempt_1={"wait": 7}, attempt_2={"wait": 13, "deaf": True})
        jobs = self.submit("--max_jobs=4", "--time=2", "--signal_seconds=30")
        # The first job is told half a minute, or a minute more, before its end, and writes a checkpoint; the second
        # does not listen, and goes when Slurm ends it.
        status = self.wait_until_over(seconds=500)
        self.assertEqual(status["state"], "done", run("logs", "--job_dir=job", cwd=self.dir)[0])
        self.assertEqual(self.attempts(),
                         [(jobs[0], "none"), (jobs[1], "step-00000007"), (jobs[2], "step-00000010")])
        with open(f"{self.job}/logs/slurm-{jobs[0]}.log", encoding="utf-8") as log:
            self.assertIn("oneflow: the job's time is over\n", log.read())
        self.assertEqual(self.losses(), self.undisturbed())


if __name__ == "__main__":
    cluster.main(__name__)
