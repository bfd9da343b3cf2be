"""What tests of jobs share: a small plan, and the directory of a job with what is in it."""
import json
import os
import unittest

from tests.e2e.cli import read_metrics, run
from tests.slurm.waiting import wait_for

TRAINER = os.path.abspath("tests/slurm/trainer.py")


def make_plan(folder, mesh, batch):
    """gpt.textproto and gpt.plan, and text.txt to train on."""
    with open(folder + "/text.txt", "w", encoding="utf-8") as text:
        text.write("some words to learn from. " * 50)
    run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto",
        cwd=folder)
    run("compile", "--graph=gpt.textproto", f"--mesh={mesh}", f"--batch={batch}", "--out=gpt.plan", cwd=folder)


def write_commands(folder, **scripts):
    """Programs of bash, each with its lines."""
    os.makedirs(folder, exist_ok=True)
    for name, text in scripts.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(file.name, 0o755)


class JobCase(unittest.TestCase):
    """A test's folder is self.dir, its job's self.job."""

    def oneflow(self, verb, *flags, code=0):
        """What `oneflow verb` of the job prints: to stdout, or to stderr where the exit code is not to be 0."""
        return run(verb, "--job_dir=" + os.path.relpath(self.job, self.dir), *flags, cwd=self.dir, code=code)[0 if code == 0 else 1]

    def read(self, name):
        with open(f"{self.job}/{name}", encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        with open(f"{self.job}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def behave(self, **attempts):
        """behave(attempt_1={"wait": 7}): what trainer.py does."""
        os.makedirs(self.job, exist_ok=True)
        self.write("behaviour.json", json.dumps({name.split("_")[1]: what for name, what in attempts.items()}))
        if not os.path.exists(self.job + "/pipe"):
            os.mkfifo(self.job + "/pipe")

    def submit_and_wait(self, *flags, **attempts):
        """Submits a job whose first attempt waits at step 7; returns what submit() does, once it is there."""
        self.behave(**{"attempt_1": {"wait": 7}, **attempts})
        submitted = self.submit(*flags)
        self.wait_for_log(1, "waits at step 7")
        return submitted

    def let_go(self):
        """Ends the wait of an attempt, which must have begun."""
        self.write("pipe", "go")

    def status(self):
        return json.loads(self.oneflow("status", "--format=json"))

    def describe_cluster(self):
        return ""

    def wait_until_over(self, seconds=60):
        try:
            return wait_for("the job's end", lambda: (s := self.status())["state"] not in ("running", "queued") and s, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe_cluster()}\nstatus: {self.status()}\n{self.all_logs()}") from error

    def all_logs(self):
        parts = []
        for folder, _, names in sorted(os.walk(self.job + "/logs")):
            for name in sorted(names):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as log:
                    parts.append(f"== {os.path.join(folder, name)}\n{log.read()[-3000:]}")
        return "\n".join(parts)

    def wait_for_log(self, attempt, text, process=0):
        """Returns the log."""
        name = f"logs/attempt-{attempt}/process-{process}.log"

        def there():
            return os.path.exists(f"{self.job}/{name}") and text in (log := self.read(name)) and log
        return wait_for(f"'{text}' of process {process} of attempt {attempt}", there)

    def attempts(self):
        """(job, checkpoint) of each."""
        return [tuple(line.split()[1:]) for line in self.read("attempts").splitlines() if line[0] != "-"]

    def losses(self):
        rows = read_metrics(self.job + "/metrics.jsonl")
        self.assertEqual([row["step"] for row in rows], list(range(len(rows))))
        return [row["loss"] for row in rows]
