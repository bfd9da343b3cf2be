"""Jobs of many processes on a real Slurm: `oneflow train` itself, its losses those of one undisturbed process."""
import os
import signal
import stat

from tests.e2e.cli import run
from tests.slurm import cluster
from tests.slurm.slurm_case import TrainCase
from tests.slurm.waiting import wait_for


class SlurmTest(TrainCase):
    def test_a_killed_task_and_a_lost_node_in_the_same_job(self):
        job, = self.submit("--spare_nodes=1")
        self.wait_for_checkpoint(1)
        pid, = self.tasks(1)
        os.kill(pid, signal.SIGKILL)
        self.wait_for_checkpoint(2)
        self.slurm.set_down(self.nodes_of_attempt(job)[1])
        status = self.check_done()
        self.assertEqual({attempt[0] for attempt in self.attempts()}, {job})
        self.assertEqual((status["outcome"]["code"], status["outcome"]["attempt"]), (0, 3))

    def test_the_node_of_the_script_is_lost(self):
        jobs = self.submit("--spare_nodes=1", "--max_jobs=3")
        self.wait_for_checkpoint(1)
        self.slurm.set_down(self.slurm.run("squeue", "--noheader", "--jobs=" + jobs[0], "--format=%B").strip())
        self.check_done()
        self.assertEqual([attempt[0] for attempt in self.attempts()], jobs[:2])
        wait_for("the last job's end", lambda: self.slurm.jobs()[jobs[2]] == "CANCELLED")

    def test_cancel_and_submit_again(self):
        self.submit()
        self.wait_for_checkpoint(1)
        self.assertEqual(self.status()["state"], "running")
        keys = [f"{self.job}/keys/{name}" for name in os.listdir(self.job + "/keys")]
        self.assertEqual({stat.S_IMODE(os.stat(path).st_mode) for path in keys}, {0o600})
        run("cancel", "--job_dir=job", cwd=self.dir)
        status = self.wait_until_over()
        self.assertEqual(status["state"], "cancelled")
        self.wait_until_gone()
        self.submit()
        self.check_done()
        self.assertEqual(self.attempts()[1][1], status["checkpoint"])


if __name__ == "__main__":
    cluster.main(__name__)
