"""oneflow train on the emulated GPU: what it tells of host time, memory and devices."""
import json
import os
import tempfile
import unittest

from tests.e2e import cli

cli.ONEFLOW = os.path.abspath("tools/oneflow/oneflow_emulated")


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.dir = self.folder.name
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as file:
            file.write("to be or not to be, that is the question. " * 40)

    def model(self, *sizes):
        cli.run("model", "gpt", "--layers=1", "--heads=1", "--vocab=256", *sizes, "--out=gpt.textproto", cwd=self.dir)

    def train(self, *flags, code=0):
        return cli.run("train", "--graph=gpt.textproto", "--device=cuda", "--data=text.txt", "--batch=2", *flags,
                       cwd=self.dir, code=code)

    def test_steps_tell_host_seconds_and_the_start_tells_memory(self):
        self.model("--hidden=8", "--sequence=4")
        out, _ = self.train("--steps=3", "--mesh=data=2", "--metrics=metrics.jsonl", "--synchronous")
        self.assertRegex(out, r"GPU 1, Emulated GPU: the plan takes [\d,]+ bytes.*; libraries and NCCL [\d,]+ bytes.*; "
                              r"the context and other processes [\d,]+ bytes.*; free are [\d,]+ bytes")
        self.assertRegex(out, r"step 3/3 .*  host \d+%")
        rows = cli.read_metrics(self.dir + "/metrics.jsonl")
        self.assertEqual(len(rows), 3)
        for row in rows:
            self.assertGreater(row["host_seconds"], 0)
            self.assertLessEqual(row["host_seconds"], row["step_seconds"])

    def test_a_cpu_tells_no_host_seconds(self):
        self.model("--hidden=8", "--sequence=4")
        out, _ = cli.run("train", "--graph=gpt.textproto", "--data=text.txt", "--batch=2", "--steps=1", "--format=json",
                         cwd=self.dir)
        self.assertNotIn("host_seconds", json.loads(out))

    def test_a_plan_that_does_not_fit_is_refused_before_the_first_step(self):
        self.model("--hidden=4096", "--sequence=4")
        _, error = self.train("--steps=1", "--metrics=metrics.jsonl", code=2)
        self.assertRegex(error, r"GPU 0, Emulated GPU: the plan takes [\d,]+ bytes.* there, and of 1,073,741,824 bytes "
                                r"\(1\.0 GiB\) only .* are free; compile for more GPUs")
        self.assertFalse(os.path.exists(self.dir + "/metrics.jsonl"))


if __name__ == "__main__":
    unittest.main()
