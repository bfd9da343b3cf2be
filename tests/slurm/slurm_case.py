"""A test case with its own Slurm: one cluster for all tests of a class, a job directory for each test."""
import json
import os
import subprocess
import tempfile

from tests.e2e.cli import read_metrics, run
from tests.slurm import cluster
from tests.slurm.job_case import TRAINER, JobCase, make_plan
from tests.slurm.waiting import wait_for


class SlurmCase(JobCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = temporary.name
        cls.slurm = cluster.Slurm(cls.root + "/slurm")
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)
        make_plan(cls.root, "data=2", 4)

    def setUp(self):
        self.dir = f"{self.root}/{self._testMethodName}"
        self.job = self.dir + "/job"
        os.makedirs(self.job)
        wait_for("idle nodes", lambda: set(self.slurm.states().values()) == {"idle"})
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        if os.path.exists(self.job + "/job.json"):
            subprocess.run(["scancel", *self.ids()], check=False)

    def submit(self, *flags, steps=20, code=0):
        """Ids of the jobs at Slurm, or the error."""
        out = self.oneflow("submit", "--engine=slurm", "--plan=../gpt.plan", "--data=../text.txt",
                           "--trust_network=10.77.0.0/24", f"--steps={steps}", "--format=json", *flags, code=code)
        return json.loads(out)["jobs"] if code == 0 else out

    def ids(self):
        return self.read("jobs").split()

    def describe_cluster(self):
        return f"nodes: {self.slurm.states()}\njobs: {self.slurm.jobs()}"

    def wait_until_gone(self):
        """Until Slurm, too, knows that no job of it runs: the script says so before it ends."""
        wait_for("the jobs' end", lambda: not {"RUNNING", "COMPLETING"} & {self.slurm.jobs().get(job) for job in self.ids()})

    @staticmethod
    def tasks(process):
        """Pids of `oneflow train`, or of what stands for it, in the task of that number."""
        return [pid for pid in cluster.list_processes(f"SLURM_PROCID={process}")
                if b"train" in cluster.read_proc(pid, "cmdline").split(b"\0")[1:3]]

    def node_of_script(self, job):
        return self.slurm.run("squeue", "--noheader", "--jobs=" + job, "--format=%B").strip()


class StandInCase(SlurmCase):
    """Uses trainer.py instead of `oneflow train`."""

    def submit(self, *flags, **kwargs):
        return super().submit("--nodes=2", "--checkpoint_every=5", "--oneflow=" + TRAINER, *flags, **kwargs)

    def find_node(self, attempt, process):
        return self.wait_for_log(attempt, f"process {process} on ", process).split()[3]

    def undisturbed(self, steps=20):
        """Losses of a job that nothing happens to."""
        os.makedirs(self.dir + "/undisturbed")
        environment = dict(os.environ, ONEFLOW_ATTEMPT="1")
        subprocess.run([TRAINER, "train", "--plan=../gpt.plan", f"--steps={steps}", "--job_dir=undisturbed",
                        "--metrics=undisturbed/metrics.jsonl", "--checkpoint_dir=undisturbed/checkpoints"],
                       cwd=self.dir, env=environment, check=True, capture_output=True)
        return [row["loss"] for row in read_metrics(self.dir + "/undisturbed/metrics.jsonl")]


class TrainCase(SlurmCase):
    """With `oneflow train` itself, and the losses of one undisturbed process."""
    STEPS = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("train", "--plan=gpt.plan", "--data=text.txt", f"--steps={cls.STEPS}", "--seed=3", "--metrics=whole.jsonl",
            cwd=cls.root)
        cls.whole = [row["loss"] for row in read_metrics(cls.root + "/whole.jsonl")]

    def submit(self, *flags, **kwargs):
        return super().submit("--nodes=2", "--seed=3", "--checkpoint_every=100", *flags, steps=self.STEPS, **kwargs)

    def wait_for_checkpoint(self, attempt):
        """Until the attempt has written a checkpoint newer than the one it began with."""
        def newer():
            attempts = self.attempts() if os.path.exists(self.job + "/attempts") else []
            return len(attempts) >= attempt and self.status().get("checkpoint", "none") not in ("none", attempts[attempt - 1][1])
        wait_for(f"a checkpoint of attempt {attempt}", newer)

    def nodes_of_attempt(self, job):
        lines = self.slurm.run("squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%j %N").splitlines()
        names, = (nodes for step, nodes in map(str.split, lines) if step == "attempt")
        return self.slurm.run("scontrol", "show", "hostnames", names).split()

    def check_done(self, seconds=60):
        status = self.wait_until_over(seconds)
        self.assertEqual(status["state"], "done", self.all_logs())
        self.assertEqual(self.losses(), self.whole)
        return status
