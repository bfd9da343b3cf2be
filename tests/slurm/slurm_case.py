"""A test case with its own Slurm: one cluster for all tests of a class, a job directory for each test."""
import json
import os
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, read_metrics, run
from tests.slurm import cluster
from tests.slurm.waiting import wait_for

TRAINER = os.path.abspath("tests/slurm/trainer.py")
MODEL = ["--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256"]


class SlurmCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = temporary.name
        cls.slurm = cluster.Slurm(cls.root + "/slurm")
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)
        with open(cls.root + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 50)
        run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=cls.root)
        run("compile", "--graph=gpt.textproto", "--mesh=data=2", "--batch=4", "--out=gpt.plan", cwd=cls.root)

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
        done = run("submit", "--engine=slurm", "--job_dir=job", "--plan=../gpt.plan", "--data=../text.txt",
                   "--trust_network=10.77.0.0/24", f"--steps={steps}", "--format=json", *flags, cwd=self.dir, code=code)
        return json.loads(done[0])["jobs"] if code == 0 else done[1]

    def ids(self):
        with open(self.job + "/jobs", encoding="utf-8") as file:
            return file.read().split()

    def status(self):
        return json.loads(run("status", "--job_dir=job", "--format=json", cwd=self.dir)[0])

    def wait_until_over(self, seconds=60):
        try:
            return wait_for("the job's end", lambda: (s := self.status())["state"] not in ("running", "queued") and s, seconds)
        except AssertionError as error:
            states = f"nodes: {self.slurm.states()}\njobs: {self.slurm.jobs()}\nstatus: {self.status()}"
            raise AssertionError(f"{error}\n{states}\n{self.all_logs()}") from error

    def all_logs(self):
        parts = []
        for folder, _, names in sorted(os.walk(self.job + "/logs")):
            for name in sorted(names):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as log:
                    parts.append(f"== {os.path.join(folder, name)}\n{log.read()[-3000:]}")
        return "\n".join(parts)

    def wait_until_gone(self):
        """Until Slurm, too, knows that no job of it runs: the script says so before it ends."""
        wait_for("the jobs' end", lambda: not {"RUNNING", "COMPLETING"} & {self.slurm.jobs().get(job) for job in self.ids()})

    def wait_for_log(self, attempt, text, process=0, seconds=30):
        """Returns the log."""
        path = f"{self.job}/logs/attempt-{attempt}/process-{process}.log"

        def there():
            if not os.path.exists(path):
                return False
            with open(path, encoding="utf-8") as file:
                log = file.read()
            return text in log and log
        return wait_for(f"'{text}' of process {process} of attempt {attempt}", there, seconds)

    def attempts(self):
        """(job, checkpoint) of each."""
        with open(self.job + "/attempts", encoding="utf-8") as lines:
            return [tuple(line.split()[1:]) for line in lines if line[0] != "-"]

    def losses(self):
        rows = read_metrics(self.job + "/metrics.jsonl")
        self.assertEqual([row["step"] for row in rows], list(range(len(rows))))
        return [row["loss"] for row in rows]


class StandInCase(SlurmCase):
    """Uses trainer.py instead of `oneflow train`."""

    def behave(self, **attempts):
        with open(self.job + "/behaviour.json", "w", encoding="utf-8") as file:
            json.dump({name.split("_")[1]: what for name, what in attempts.items()}, file)
        os.mkfifo(self.job + "/pipe")

    def submit(self, *flags, **kwargs):
        return super().submit("--nodes=2", "--checkpoint_every=5", "--oneflow=" + TRAINER, *flags, **kwargs)

    def find_node(self, attempt, process):
        return self.wait_for_log(attempt, f"process {process} on ", process).split()[3]

    def let_go(self):
        """Ends the wait of an attempt, which must have begun."""
        with open(self.job + "/pipe", "w", encoding="utf-8") as pipe:
            pipe.write("go")

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
        lines = self.slurm.run("squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%j %N").splitlines()
        names, = (nodes for step, nodes in map(str.split, lines) if step == "attempt")
        return self.slurm.run("scontrol", "show", "hostnames", names).split()

    def check_done(self, seconds=60):
        status = self.wait_until_over(seconds)
        self.assertEqual(status["state"], "done", run("logs", "--job_dir=job", cwd=self.dir)[0])
        self.assertEqual(self.losses(), self.whole)
        return status
