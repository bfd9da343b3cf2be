"""The folder of checkpoints from one run to the next: whose it is, what --resume=auto goes on from, what --keep leaves there."""
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, read_metrics, read_slices, run

MODEL = ["--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256"]
TRAIN = ["train", "--plan=gpt.plan", "--data=text.txt", "--checkpoint_dir=ckpt"]


def a_full_disk():
    """Writes of a process beyond a limit of bytes in a file fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


class FolderTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        with open(self.dir + "/text.txt", "w") as text:
            text.write("some words to learn from. " * 50)
        run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=self.dir)
        run("compile", "--graph=gpt.textproto", "--batch=4", "--out=gpt.plan", cwd=self.dir)

    def train(self, *flags, code=0, **options):
        return run(*TRAIN, *flags, cwd=self.dir, code=code, **options)[1]

    def read(self, name):
        with open(self.dir + "/" + name, "rb") as file:
            return file.read()

    def steps(self, folder="ckpt"):
        return sorted(int(name[5:]) for name in os.listdir(f"{self.dir}/{folder}") if re.fullmatch("step-[0-9]+", name))

    def start_without_end(self, *flags):
        """A run that has written a checkpoint and goes on; returns the process."""
        process = subprocess.Popen([ONEFLOW, *TRAIN, "--steps=4000000000", "--checkpoint_every=20", "--keep=3", "--metrics=metrics.jsonl",
                                    *flags], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not os.path.exists(self.dir + "/ckpt") or not self.steps():
            self.assertIsNone(process.poll())
        return process

    def test_a_second_run_in_a_folder_is_refused_and_changes_nothing(self):
        process = self.start_without_end()
        for name in ["other.jsonl", "trace.json"]:
            with open(self.dir + "/" + name, "w") as file:
                file.write("of another run\n")
        for resume in ["--resume", "--resume=auto", "--resume=false"]:
            error = self.train("--steps=1", "--metrics=other.jsonl", "--trace=trace.json", resume, code=2)
            self.assertRegex(error, rf"oneflow: error: --checkpoint_dir=ckpt: is in use by process {process.pid} on .* since 20.*; "
                                    "give another folder, or wait until that run has ended\n")
        self.assertEqual([b"of another run\n"] * 2, [self.read("other.jsonl"), self.read("trace.json")])
        self.assertFalse(os.path.exists(self.dir + "/ckpt/old-1"))
        run(*TRAIN[:-1], "--checkpoint_dir=another", "--steps=1", cwd=self.dir)
        # A run that was killed leaves the file, and no lock.
        process.kill()
        process.wait()
        self.assertTrue(os.path.exists(self.dir + "/ckpt/lock"))
        last = self.steps()[-1]
        self.assertIn(f"oneflow: the run goes on from ckpt/step-{last:08}\n", self.train(f"--steps={last + 1}", "--resume=auto"))
        self.assertFalse(os.path.exists(self.dir + "/ckpt/lock"))

    def test_a_run_that_is_refused_moves_and_removes_nothing(self):
        self.train("--steps=2", "--metrics=metrics.jsonl", "--trace=trace.json")
        run("model", "gpt", *MODEL, "--layers=2", "--out=gpt2.textproto", cwd=self.dir)
        run("compile", "--graph=gpt2.textproto", "--batch=4", "--out=gpt2.plan", cwd=self.dir)
        run(*TRAIN[:-1], "--plan=gpt2.plan", "--checkpoint_dir=other", "--steps=2", cwd=self.dir)

        def files():
            return {path: hash(self.read(path)) for path in (os.path.relpath(os.path.join(where, name), self.dir)
                                                       for where, _, names in os.walk(self.dir) for name in names)}
        before, metrics = files(), self.read("metrics.jsonl")
        for flags, sentence in [
                (["--init_from=ckpt"], "--checkpoint_dir=ckpt: holds the checkpoint of --init_from, and a new run moves those in its "
                                       "folder aside; give another folder, or go on with that run by --resume"),
                (["--init_from=ckpt/step-00000002", "--checkpoint_dir=./ckpt/"], "holds the checkpoint of --init_from"),
                (["--plan=gpt2.plan", "--init_from=ckpt", "--checkpoint_dir=other"], "ckpt/step-00000002: holds another model"),
                (["--resume", "--seed=7"], "was trained with --seed=1"),
                (["--checkpoint_dir=ckpt/step-00000002"], "--checkpoint_dir=ckpt/step-00000002: is one checkpoint itself"),
                (["--trace=absent/trace.json"], "--trace: absent/trace.json: cannot be written: No such file or directory"),
                (["--trace=ckpt"], "--trace: ckpt: cannot be written"), (["--metrics=absent/m.jsonl"], "--metrics=absent/m.jsonl: ")]:
            with self.subTest(flags):
                error = self.train("--steps=3", "--metrics=metrics.jsonl", "--trace=trace.json", *flags, code=2)
                self.assertIn(sentence, error)
                self.assertEqual(files(), before)
        # It goes on where there is something to go on from, and from a folder aside it may begin.
        self.assertIn("the run goes on from ckpt/step-00000002", self.train("--steps=3", "--init_from=ckpt", "--resume=auto"))
        self.train("--steps=1", "--init_from=other", "--metrics=metrics.jsonl")
        self.assertEqual(self.steps("ckpt/old-1"), [2, 3])
        self.assertEqual(self.read("metrics.jsonl.old-1"), metrics)
        self.train("--steps=2", "--init_from=ckpt/old-1")
        self.assertEqual(self.steps("ckpt/old-2"), [1])

    def test_a_resumed_run_loses_no_line_of_the_metrics_before_its_first_step(self):
        process = self.start_without_end()
        process.kill()
        process.wait()
        first = self.steps()[-1]
        with open(self.dir + "/metrics.jsonl", "ab") as file:
            file.write(b'{"step": 123456789, "lo')  # it was killed in the middle of a line
        before = self.read("metrics.jsonl").splitlines(keepends=True)[:first]
        self.train(f"--steps={first + 3}", "--resume=auto", "--metrics=metrics.jsonl")
        after = self.read("metrics.jsonl").splitlines(keepends=True)
        self.assertEqual(before, after[:first])
        self.assertEqual([row["step"] for row in read_metrics(self.dir + "/metrics.jsonl")], list(range(first + 3)))

    def test_resume_auto_begins_where_there_is_nothing_to_go_on_from(self):
        self.assertIn("--resume=auto: ckpt holds no complete checkpoint: the run begins\n", self.train("--steps=2", "--resume=auto"))
        self.assertIn("oneflow: the run goes on from ckpt/step-00000002\n", self.train("--steps=4", "--resume=auto"))
        self.assertNotIn("--resume=auto", self.train("--steps=4", "--checkpoint_dir=whole"))
        self.assertEqual(*(read_slices(f"{self.dir}/{folder}/step-00000004") for folder in ("ckpt", "whole")))
        self.assertIn("is one checkpoint itself", self.train("--checkpoint_dir=ckpt/step-00000004", "--resume=auto", code=2))
        # One that is not complete is passed over.
        os.remove(self.dir + "/ckpt/step-00000004/manifest.json")
        self.assertIn("the run goes on from ckpt/step-00000002\n", self.train("--steps=5", "--resume=auto"))
        self.train("--steps=1", "--resume=false")
        self.assertEqual([[1], [2, 4, 5]], [self.steps(), self.steps("ckpt/old-1")])

    def test_resume_goes_back_to_the_newest_checkpoint_that_verifies(self):
        self.train("--steps=8", "--checkpoint_every=2")
        self.train("--steps=8", "--checkpoint_dir=whole")
        slices = f"{self.dir}/ckpt/step-00000008/rank-00000.bin"
        with open(slices, "r+b") as file:
            file.seek(100)
            byte = file.read(1)[0]
            file.seek(100)
            file.write(bytes([byte ^ 1]))
        os.truncate(self.dir + "/ckpt/step-00000006/graph.textproto", 0)
        error = self.train("--steps=8", "--resume=auto", "--keep=2")
        self.assertRegex(error, "oneflow: warning: ckpt/step-00000008 is skipped: ckpt/step-00000008/rank-00000.bin: is damaged: bytes .*, "
                         "do not match their checksum; ckpt/step-00000004 is used instead\n"
                         "oneflow: warning: ckpt/step-00000006 is skipped: ckpt/step-00000006/graph.textproto: is truncated: it has 0 "
                         "bytes, and had .* when it was written; ckpt/step-00000004 is used instead\n"
                         "oneflow: the run goes on from ckpt/step-00000004\n"
                         "oneflow: checkpoints of later steps are moved to ckpt/old-1\n")
        # A damaged checkpoint does not count as one of the newest.
        self.assertEqual([[4, 8], [6, 8]], [self.steps(), self.steps("ckpt/old-1")])
        self.assertEqual(*(read_slices(f"{self.dir}/{folder}/step-00000008") for folder in ("ckpt", "whole")))
        # If none is good the run does not begin anew: the user has to say so.
        for step in [4, 8]:
            os.truncate(f"{self.dir}/ckpt/step-{step:08}/train.textproto", 1)
        for resume in ["--resume=auto", "--resume"]:
            error = self.train("--steps=9", resume, code=2)
            self.assertRegex(error, "oneflow: error: ckpt: none of its checkpoints can be used:\n"
                             "  ckpt/step-00000008: ckpt/step-00000008/train.textproto: is truncated: .*\n"
                             "  ckpt/step-00000004: ckpt/step-00000004/train.textproto: is truncated: .*\n")
        self.assertEqual([4, 8], self.steps())

    def test_keep_leaves_the_newest(self):
        self.train("--steps=3", "--checkpoint_every=1")
        self.assertEqual([1, 2, 3], self.steps())
        self.train("--steps=6", "--checkpoint_every=1", "--keep=2", "--resume")
        self.assertEqual([5, 6], self.steps())
        self.train("--steps=7", "--keep=1", "--resume")
        self.assertEqual(["step-00000007"], os.listdir(self.dir + "/ckpt"))

    def test_what_is_old_goes_only_when_the_new_one_is_there(self):
        self.train("--steps=1")
        shutil.copytree(self.dir + "/ckpt/step-00000001", self.dir + "/ckpt/step-00000000")
        error = self.train("--steps=2", "--keep=1", "--resume", code=1, preexec_fn=a_full_disk)
        self.assertIn("ckpt/attempt-0.tmp/step-00000002/rank-00000.bin: cannot be written: File too large", error)
        self.assertEqual(["step-00000000", "step-00000001"], sorted(os.listdir(self.dir + "/ckpt")))
        self.train("--steps=2", "--keep=1", "--resume")
        self.assertEqual([2], self.steps())

    def test_what_cannot_be_removed_is_told_and_ends_no_run(self):
        self.train("--steps=1")
        longest = "step-" + "0" * 250  # no room for .tmp
        os.rename(self.dir + "/ckpt/step-00000001", self.dir + "/ckpt/" + longest)
        error = self.train("--steps=3", "--keep=1", "--checkpoint_every=2", "--resume")
        self.assertEqual(2, error.count(f"oneflow: warning: ckpt/{longest}: cannot be removed: File name too long"), error)
        self.assertEqual([0, 3], self.steps())

    def test_a_run_whose_last_loss_is_not_finite_fails(self):
        error = self.train("--steps=4", "--learning_rate=1e30", code=1)
        self.assertIn("oneflow: error: the loss of the last step is not finite: what was trained is of no use; go back to an earlier "
                      "checkpoint, or begin again, with a lower --learning_rate\n", error)
        self.assertEqual([4], self.steps())
        # Weights as large as numbers get give no finite loss before any update.
        graph = self.read("gpt.textproto").decode().replace("f: 0.02", "f: 3e38")
        with open(self.dir + "/large.textproto", "w") as file:
            file.write(graph)
        error = run("train", "--graph=large.textproto", "--data=text.txt", "--steps=2", cwd=self.dir, code=1)[1]
        self.assertIn("what was trained is of no use; the first step was not finite either, before any update, so that no "
                      "--learning_rate is to blame: look at the weights with which the run begins", error)


if __name__ == "__main__":
    unittest.main()
