"""Jobs of many processes on a real Slurm: `oneflow train` itself, its losses those of one undisturbed process."""
import os
import signal
import stat

from tests.slurm import cluster
from tests.slurm.slurm_case import TrainCase


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

    def test_cancel_and_submit_again(self):
        self.submit()
        self.wait_for_checkpoint(1)
        self.assertEqual(self.status()["state"], "running")
        keys = [f"{self.job}/keys/{name}" for name in os.listdir(self.job + "/keys")]
        self.assertEqual({stat.S_IMODE(os.stat(path).st_mode) for path in keys}, {0o600})
        self.oneflow("cancel")
        status = self.wait_until_over()
        self.assertEqual(status["state"], "cancelled")
        self.wait_until_gone()
        self.submit()
        self.check_done()
        self.assertEqual(self.attempts()[1][1], status["checkpoint"])


if __name__ == "__main__":
    cluster.main(__name__)
