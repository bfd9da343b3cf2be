"""What takes Slurm minutes to notice: a daemon that is killed, the limit of a job's time."""
from tests.e2e.cli import run
from tests.slurm import cluster
from tests.slurm.slurm_case import StandInCase


class SlurmLongTest(StandInCase):
    def test_a_killed_daemon_of_a_node(self):
        self.behave(attempt_1={"wait": 7})
        job, = self.submit("--spare_nodes=1")
        self.wait_for_log(1, "waits at step 7")
        lost = self.node_of(1, 1)
        self.slurm.kill_node(lost)
        status = self.wait_until_over(seconds=150)
        self.assertEqual(status["state"], "done")
        self.assertEqual([attempt[0] for attempt in self.attempts()], [job, job])
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
