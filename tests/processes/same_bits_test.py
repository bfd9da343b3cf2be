"""One plan, the same bits in one process and in many: losses, validation losses, checkpoints, resumed runs.

tools/test runs the cases marked `short`, ONEFLOW_TEST_FULL=1 all of them, and with more numbers of processes.
"""
import os
import tempfile
import unittest

from tests.e2e.cli import read_metrics, run
from tests.processes.job import contents, make_model

FULL = os.environ.get("ONEFLOW_TEST_FULL") == "1"
# name -> flags of the model, flags of the compiler, numbers of processes, and whether it is short
CASES = {
    "data and tensor": ([], ["--mesh=data=2,tensor=2"], [2, 4], True),
    "1F1B": ([], ["--mesh=pipe=4", "--micro_batches=8"], [2, 4], True),
    "interleaved": ([], ["--mesh=pipe=2,data=2", "--micro_batches=4", "--schedule=interleaved", "--chunks=2"], [2, 4],
                    True),
    "zero bubble": ([], ["--mesh=pipe=2,data=2", "--micro_batches=4", "--schedule=zero_bubble"], [2, 4], False),
    "2bw": ([], ["--mesh=pipe=2", "--micro_batches=4", "--schedule=2bw", "--clip=0", "--steps_a_round=2"], [2],
            True),
    "bf16": ([], ["--mesh=data=2,tensor=2", "--precision=bf16"], [2, 4], True),
    "recompute": ([], ["--mesh=pipe=2,tensor=2", "--micro_batches=4", "--recompute=full"], [2, 4], False),
    "sharded on data": ([], ["--mesh=data=4", "--shard=weights"], [2, 4], True),
    "tied": (["--tied"], ["--mesh=pipe=2,tensor=2", "--micro_batches=2"], [2, 4], True),
    "eight devices": ([], ["--mesh=pipe=2,data=2,tensor=2", "--micro_batches=4"], [2, 4, 8], False),
}


def losses(path):
    """The metrics that are a function of the run alone."""
    return [{key: line[key] for key in ("step", "loss", "eval_loss", "grad_norm") if key in line}
            for line in read_metrics(path)]


class SameBitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def train(self, processes, name, *flags):
        run("train", "--plan=gpt.plan", "--data=text.txt", "--eval_fraction=0.1", "--eval_batches=2",
            f"--metrics={name}.jsonl", f"--checkpoint_dir={name}",
            *([f"--processes={processes}"] if processes > 1 else []), *flags, cwd=self.dir)
        return losses(f"{self.dir}/{name}.jsonl"), contents(f"{self.dir}/{name}")

    def test_same_bits(self):
        for name, (model, flags, numbers, short) in CASES.items():
            if not short and not FULL:
                continue
            with self.subTest(name):
                make_model(self.dir, "--layers=4", *model)
                run("compile", "--graph=gpt.textproto", "--batch=16", *flags, "--out=gpt.plan", cwd=self.dir)
                # Weights of 2bw are complete at even steps only.
                steps = ["--steps=8", "--eval_every=4", "--checkpoint_every=4"]
                one = self.train(1, f"{name} 1", *steps)
                self.assertEqual(len(one[0]), 8)
                self.assertGreater(len(one[1]), 2)
                for processes in numbers:
                    many = self.train(processes, f"{name} {processes}", *steps)
                    self.assertEqual(one[0], many[0], f"{name}, {processes} processes")
                    self.assertEqual(one[1], many[1], f"{name}, {processes} processes")

    def test_resumed_by_another_number(self):
        make_model(self.dir, "--layers=4")
        run("compile", "--graph=gpt.textproto", "--batch=16", "--mesh=pipe=2,data=2", "--micro_batches=2",
            "--out=gpt.plan", cwd=self.dir)
        whole = self.train(1, "whole", "--steps=6", "--eval_every=3")
        for numbers in [(1, 4), (4, 2), (2, 1)]:
            name = "from {} to {}".format(*numbers)
            self.train(numbers[0], name, "--steps=3", "--eval_every=3")
            resumed = self.train(numbers[1], name, "--steps=6", "--eval_every=3", "--resume=true")
            self.assertEqual(whole[0], resumed[0], name)
            for path, content in whole[1].items():
                self.assertEqual(content, resumed[1][path], f"{name}: {path}")


if __name__ == "__main__":
    unittest.main()
