"""A signal during training: complete steps, their metrics and a checkpoint, from which the run continues bit by bit."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, read_metrics, read_slices, replaced, run

MESH = ["--mesh=pipe=2,data=2", "--micro_batches=2"]
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

    @staticmethod
    def cpu_seconds(process):
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def start(self, *flags):
        process = subprocess.Popen(
            [ONEFLOW, *replaced(["train", "--graph=gpt.textproto", "--data=text.txt", "--steps=1000000", *flags])],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)])
        self.addCleanup(process.kill)
        return process

    def interrupt(self, numbers, *flags):
        """Trains without end, interrupts after some steps; returns (the error, the metrics)."""
        metrics = self.dir + "/metrics.jsonl"
        process = self.start(*MESH, "--metrics=metrics.jsonl", "--trace=trace.json", "--format=json", *flags)
        told = [process.stdout.readline() for _ in range(12)]
        self.assertEqual([json.loads(line)["step"] for line in told], list(range(12)))
        # The file can be followed while it is written.
        with open(metrics) as lines:
            self.assertGreaterEqual(len(lines.readlines()), 12)
        for number in numbers:
            process.send_signal(number)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("oneflow: error: interrupted", error)
        rows = read_metrics(metrics)
        self.assertEqual([r["step"] for r in rows], list(range(len(rows))))
        with open(self.dir + "/trace.json") as trace:
            self.assertTrue(json.load(trace)["traceEvents"])
        return error, rows

    def test_memory_does_not_grow_with_steps(self):
        self.interrupt([signal.SIGINT], "--steps=4294967296")

    def test_measuring_the_machine_leaves_no_memory(self):
        process = self.start("--batch=4")
        while not process.stdout.readline().startswith("step 1/"):
            self.assertIsNone(process.poll())
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            sanitized = "san.so" in maps.read()
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
            anonymous, = (int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        if not sanitized:  # the measurement takes 6 MiB a core
            self.assertLess(anonymous, 1024 * (10 + 4 * len(os.sched_getaffinity(0))))

    def test_sigusr1_says_what_every_worker_is_at_and_ends_nothing(self):
        process = self.start(*MESH)
        self.assertIn("expects: ", process.stdout.readline())
        self.assertIn("step 1/", process.stdout.readline())
        process.send_signal(signal.SIGUSR1)
        lines = [process.stderr.readline()]
        while not lines[-1].startswith("  host, "):
            lines.append(process.stderr.readline())
            self.assertNotEqual(lines[-1], "", lines)
        self.assertIn("oneflow: asked by SIGUSR1\n", lines)
        lines = lines[lines.index("oneflow: asked by SIGUSR1\n"):]  # perhaps after a warning of few cores
        workers = [line.split(",")[0].strip() for line in lines if not line.startswith("    ")][1:]
        self.assertEqual(workers, ["rank 0", "rank 1", "rank 2", "rank 3", "host"])
        self.assertTrue(any(line.startswith("    compute: actor ") or "inside the kernel of" in line for line in lines))
        process.send_signal(signal.SIGINT)
        self.assertIn("interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)

    def test_without_a_folder_it_ends_at_once(self):
        error, _ = self.interrupt([signal.SIGINT])
        self.assertIn("interrupted; no checkpoint was written: give --checkpoint_dir=DIR", error)

    def check_goes_on(self, error, rows, *flags):
        """The only checkpoint is of the last step that was done; with it the run is one that was never interrupted."""
        last = len(rows)
        self.assertEqual(os.listdir(self.dir + "/ckpt"), [f"step-{last:08}"])
        self.assertIn(f"oneflow: error: interrupted; the latest checkpoint is ckpt/step-{last:08}; go on with --resume\n", error)
        args = ["train", "--graph=gpt.textproto", "--data=text.txt", f"--steps={last + 8}", "--eval_data=text.txt", *flags]
        run(*args, "--checkpoint_dir=ckpt", "--resume", "--metrics=metrics.jsonl", cwd=self.dir)
        run(*args, "--checkpoint_dir=whole", "--metrics=whole.jsonl", cwd=self.dir)
        resumed, whole = ([{key: row.get(key) for key in ("step", "loss", "grad_norm", "learning_rate", "eval_loss")}
                           for row in read_metrics(self.dir + name)] for name in ("/metrics.jsonl", "/whole.jsonl"))
        self.assertEqual(resumed, whole)
        self.assertEqual(*(read_slices(f"{self.dir}/{folder}/step-{last + 8:08}") for folder in ("ckpt", "whole")))

    def test_a_signal_is_followed_by_a_checkpoint_and_the_run_goes_on_with_the_same_bits(self):
        # Whoever sends it twice at once means one.
        error, rows = self.interrupt([signal.SIGTERM, signal.SIGINT], "--checkpoint_dir=ckpt")
        self.assertIn("oneflow: interrupted: a checkpoint is written when the step that has begun is done", error)
        self.check_goes_on(error, rows, *MESH)

    def test_a_hangup_ends_a_run_in_order(self):
        error, rows = self.interrupt([signal.SIGHUP], "--checkpoint_dir=ckpt")
        self.assertIn("oneflow: interrupted: a checkpoint is written when the step that has begun is done", error)
        self.assertEqual(os.listdir(self.dir + "/ckpt"), [f"step-{len(rows):08}"])

    def test_a_reader_that_leaves_does_not_end_a_run(self):
        for flags in [[], ["--format=json"]]:
            with self.subTest(flags):
                process = self.start("--metrics=metrics.jsonl", "--steps=300", "--checkpoint_dir=ckpt", *flags)
                self.assertIn("step", process.stdout.readline())
                process.stdout.close()
                error = process.stderr.read()
                self.assertEqual(process.wait(timeout=60), 0, error)
                self.assertNotIn("error", error)
                self.assertEqual(len(read_metrics(self.dir + "/metrics.jsonl")), 300)
                self.assertIn("step-00000300", os.listdir(self.dir + "/ckpt"))

    def test_weights_that_lag_are_saved_at_the_end_of_a_round(self):
        lag = ["--schedule=2bw", "--clip=0", "--steps_a_round=4"]
        _, rows = self.interrupt([signal.SIGTERM], "--checkpoint_dir=ckpt", *lag)
        self.assertEqual(len(rows) % 4, 0)
        run("train", "--graph=gpt.textproto", "--data=text.txt", f"--steps={len(rows) + 8}", *MESH, *lag,
            "--checkpoint_dir=ckpt", "--resume", cwd=self.dir)

    def test_checkpoints_so_far_stay(self):
        error, rows = self.interrupt([signal.SIGTERM], "--checkpoint_dir=ckpt", "--checkpoint_every=5")
        last = len(rows)
        self.assertEqual(sorted(os.listdir(self.dir + "/ckpt")),
                         [f"step-{step:08}" for step in sorted({*range(5, last, 5), last})])
        self.assertIn(f"step-{last:08}", error)

    def test_a_validation_is_given_up_and_the_step_before_it_saved(self):
        process = self.start("--metrics=metrics.jsonl", "--checkpoint_dir=ckpt", "--eval_every=3", "--eval_data=text.txt",
                             "--eval_batches=1000000000", "--stall_seconds=0")
        metrics = self.dir + "/metrics.jsonl"
        while not os.path.exists(metrics) or len(read_metrics(metrics)) < 2:  # the third is written with its validation
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertIn("go on with --resume", process.communicate(timeout=60)[1])
        rows = read_metrics(metrics)
        self.assertEqual([(row["step"], "eval_loss" in row) for row in rows], [(0, False), (1, False), (2, False)])
        self.assertEqual(os.listdir(self.dir + "/ckpt"), ["step-00000003"])

    def test_a_second_signal_ends_at_once_and_leaves_no_checkpoint(self):
        process = self.start("--batch=8192", "--micro_batches=512", "--checkpoint_dir=ckpt", "--trace=trace.json",
                             "--format=json")
        self.assertEqual(json.loads(process.stdout.readline())["step"], 0)  # the next takes about a second, too
        told = self.cpu_seconds(process)
        while self.cpu_seconds(process) < told + 0.05:  # until the next has begun
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertIn("a second signal ends at once", process.stderr.readline())
        while process.poll() is None:  # those of the first tenth of a second count as one
            process.send_signal(signal.SIGINT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(process.stderr.read(), "")
        # They hold nobody and nothing: folder_test.py.
        self.assertEqual(sorted(os.listdir(self.dir + "/ckpt")), ["attempt-0.tmp", "lock"])
        self.assertFalse(os.path.exists(self.dir + "/trace.json"))


if __name__ == "__main__":
    unittest.main()
