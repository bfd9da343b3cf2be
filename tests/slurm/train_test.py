"""Jobs of many processes on a real Slurm: `oneflow train` itself, its losses those of one undisturbed process."""
import os
import signal

from tests.e2e.cli import ONEFLOW, read_metrics, run
from tests.slurm import cluster
from tests.slurm.slurm_case import SlurmCase
from tests.slurm.waiting import wait_for

STEPS = 2000


class TrainTest(SlurmCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("train", "--plan=gpt.plan", "--data=text.txt", f"--steps={STEPS}", "--seed=3", "--metrics=whole.jsonl",
            cwd=cls.root)
        cls.whole = [row["loss"] for row in read_metrics(cls.root + "/whole.jsonl")]

    def submit(self, *flags, **kwargs):
        return super().submit("--nodes=2", "--seed=3", "--checkpoint_every=100", *flags, steps=STEPS, **kwargs)

    def wait_for_checkpoint(self, attempt):
        """Until the attempt has written a checkpoint newer than the one it began with."""
        def newer():
            attempts = self.attempts() if os.path.exists(self.job + "/attempts") else []
            return len(attempts) >= attempt and self.status().get("checkpoint", "none") not in ("none", attempts[attempt - 1][1])
        wait_for(f"a checkpoint of attempt {attempt}", newer)

    def tasks(self, process):
        """Pids of `oneflow train` in the task of that number."""
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(ONEFLOW):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    if f"SLURM_PROCID={process}".encode() in environment.read().split(b"\0"):
                        pids.append(int(pid))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return pids

    def nodes_of_attempt(self, job):
        lines = self.slurm.run("squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%i %N").splitlines()
        names, = (line.split()[1] for line in lines if line.split()[0].split(".")[1].isdigit())
        return self.slurm.run("scontrol", "show", "hostnames", names).split()

    def check_done(self):
        status = self.wait_until_over()
        self.assertEqual(status["state"], "done", run("logs", "--job_dir=job", cwd=self.dir)[0])
        self.assertEqual(self.losses(), self.whole)
        return status

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
        run("cancel", "--job_dir=job", cwd=self.dir)
        status = self.wait_until_over()
        self.assertEqual(status["state"], "cancelled")
        self.submit()
        self.check_done()
        self.assertEqual(self.attempts()[1][1], status["checkpoint"])


if __name__ == "__main__":
    cluster.main(__name__)
