"""Reports of a run of two processes during training: the waiting times of ranks."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run
from tests.processes.job import make_model
from tests.slurm.waiting import wait_for


class StatusTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        make_model(self.dir)
        run("compile", "--graph=gpt.textproto", "--batch=16", "--mesh=data=2,tensor=2", "--out=gpt.plan", cwd=self.dir)
        os.mkdir(self.dir + "/job")

    def status(self):
        """status.json, once it says what ranks wait."""
        try:
            with open(self.dir + "/job/status.json") as file:
                status = json.load(file)
        except FileNotFoundError:
            return None
        return status if len(status.get("wait_ms", {})) == 4 else None

    def test_waits_of_all_ranks(self):
        for processes in [1, 2]:
            with self.subTest(processes=processes):
                train = subprocess.Popen([ONEFLOW, "train", "--plan=gpt.plan", "--data=text.txt", "--steps=1000000",
                                          "--job_dir=job", f"--processes={processes}"], cwd=self.dir,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.addCleanup(train.kill)
                status = wait_for("what ranks wait", self.status)
                train.send_signal(signal.SIGTERM)
                train.communicate(timeout=60)
                self.assertGreater(status["step"], 0)
                self.assertGreater(status["tokens_per_second"], 0)
                for rank in range(4):
                    groups = status["wait_ms"][f"rank {rank}"]
                    self.assertTrue(groups)
                    # A rank is in all groups that it waits for.
                    for group, milliseconds in groups.items():
                        self.assertRegex(group, rf"^[a-z_.0-9]+, ranks (\d and )?({rank}\b|0 to 3)")
                        self.assertGreaterEqual(milliseconds, 0)
                    self.assertGreater(sum(groups.values()), 0)
                os.remove(self.dir + "/job/status.json")


if __name__ == "__main__":
    unittest.main()
