"""Ctrl-C while training: a Status, the metrics so far, and checkpoints that are complete or absent."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run

MODEL = ["--layers=2", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256"]


class InterruptTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.dir = self.temporary.name
        with open(self.dir + "/text.txt", "w") as text:
            text.write("some words to learn from. " * 50)
        run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=self.dir)

    def tearDown(self):
        self.temporary.cleanup()

    def interrupt(self, number, *flags):
        """Trains without end, interrupts after some steps; returns (the error, the metrics)."""
        metrics = self.dir + "/metrics.jsonl"
        process = subprocess.Popen(
            [ONEFLOW, "train", "--graph=gpt.textproto", "--mesh=pipe=2,data=2", "--micro_batches=2",
             "--data=text.txt", "--steps=1000000", "--metrics=metrics.jsonl", "--trace=trace.json",
             "--checkpoint_dir=ckpt", "--format=json", *flags],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        told = [process.stdout.readline() for _ in range(12)]
        self.assertEqual([json.loads(line)["step"] for line in told], list(range(12)))
        # The file can be followed while it is written.
        with open(metrics) as lines:
            self.assertGreaterEqual(len(lines.readlines()), 12)
        process.send_signal(number)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("oneflow: error: interrupted", error)
        with open(metrics) as lines:
            rows = [json.loads(line) for line in lines]
        self.assertEqual([r["step"] for r in rows], list(range(len(rows))))
        with open(self.dir + "/trace.json") as trace:
            self.assertTrue(json.load(trace)["traceEvents"])
        return error, rows

    def test_memory_does_not_grow_with_steps(self):
        self.interrupt(signal.SIGINT, "--steps=4294967296")

    def test_sigusr1_says_what_every_worker_is_at_and_ends_nothing(self):
        process = subprocess.Popen(
            [ONEFLOW, "train", "--graph=gpt.textproto", "--mesh=pipe=2,data=2", "--micro_batches=2", "--data=text.txt",
             "--steps=1000000"], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        self.assertIn("step 1/", process.stdout.readline())
        process.send_signal(signal.SIGUSR1)
        lines = [process.stderr.readline()]
        while not lines[-1].startswith("  host, "):
            lines.append(process.stderr.readline())
            self.assertNotEqual(lines[-1], "", lines)
        self.assertEqual(lines[0], "oneflow: asked by SIGUSR1\n")
        workers = [line.split(",")[0].strip() for line in lines if not line.startswith("    ")][1:]
        self.assertEqual(workers, ["rank 0", "rank 1", "rank 2", "rank 3", "host"])
        self.assertTrue(any(line.startswith("    compute: actor ") or "inside the kernel of" in line for line in lines))
        process.send_signal(signal.SIGINT)
        self.assertIn("interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)

    def test_without_a_checkpoint_none_is_left(self):
        self.assertIn("no checkpoint", self.interrupt(signal.SIGINT)[0])
        self.assertEqual(os.listdir(self.dir + "/ckpt"), [])

    def test_checkpoints_so_far_are_complete(self):
        error, rows = self.interrupt(signal.SIGTERM, "--checkpoint_every=5")
        steps = sorted(os.listdir(self.dir + "/ckpt"))
        self.assertFalse([s for s in steps if not s.removeprefix("step-").isdigit()], steps)
        self.assertIn(steps[-1], error)
        last = int(steps[-1].removeprefix("step-"))
        self.assertLessEqual(last, len(rows))
        run("train", "--graph=gpt.textproto", "--data=text.txt", f"--steps={last + 1}", "--checkpoint_dir=ckpt",
            "--resume", "--metrics=metrics.jsonl", cwd=self.dir)
        # Steps past the checkpoint were made again; each is told once.
        with open(self.dir + "/metrics.jsonl") as lines:
            self.assertEqual([json.loads(line)["step"] for line in lines], list(range(last + 1)))


if __name__ == "__main__":
    unittest.main()
