"""Weighted mixtures of data: which file a sample comes from, what is said of it, and that a run resumes with its own mixture only."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

BIGRAM = "--graph=" + os.path.abspath("examples/bigram.textproto")


class MixtureTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, text in [("a.txt", "abcdefgh" * 100), ("b.txt", "01234567" * 60), ("c.txt", "!?.,;:-+" * 20)]:
            cls.write(name, text)

    def train(self, data, out, *flags, steps=4, code=0):
        return run("train", BIGRAM, "--data=" + data, f"--steps={steps}", "--batch=8", "--seed=3", f"--metrics={out}.jsonl", *flags,
                   cwd=self.dir, code=code)

    def losses(self, out):
        return [line["loss"] for line in read_metrics(f"{self.dir}/{out}.jsonl")]

    def refuse(self, words, *args):
        error = self.train(*args, code=2)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("\n"), 1, error)

    def test_weights_and_shares_are_printed(self):
        out = self.train("a.txt:3,b.txt:1", "shares", steps=50)[0]
        self.assertIn("data: a.txt 75.0 %, b.txt 25.0 %\n", out)
        shares = [line for line in out.splitlines() if line.startswith("data of 50 steps: ")]
        self.assertEqual(len(shares), 1)
        self.assertRegex(shares[0], r"a.txt \d+ sequences, \d+\.\d %, b.txt \d+ sequences, \d+\.\d %$")
        words = shares[0].replace(",", "").split()
        a, b = int(words[5]), int(words[10])
        self.assertEqual(a + b, 400)
        self.assertLess(abs(a - 300), 40)

    def test_without_weights_nothing_is_said_and_weights_need_not_add_up(self):
        self.assertNotIn("data:", self.train("a.txt,b.txt", "plain")[0])
        self.train("a.txt:0.75,b.txt:0.25", "parts")
        self.train("a.txt:3,b.txt:1", "whole")
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.assertNotEqual(self.losses("plain"), self.losses("whole"))
        # The whole weight of one file is that file.
        self.train("a.txt", "alone")
        self.train("a.txt:2", "one")
        self.assertEqual(self.losses("alone"), self.losses("one"))

    def test_devices_and_micro_batches_take_the_same_samples(self):
        self.train("a.txt:1,b.txt:1,c.txt:1", "mixed")
        for flags in [["--micro_batches=4"], ["--mesh=data=2"], ["--mesh=data=2", "--processes=2"]]:
            self.train("a.txt:1,b.txt:1,c.txt:1", "other", *flags)
            for one, two in zip(self.losses("mixed"), self.losses("other")):
                self.assertAlmostEqual(one, two, delta=1e-5)

    def test_a_run_resumes_with_its_own_mixture(self):
        mixture = "a.txt:0.7,b.txt:0.3"
        self.train(mixture, "all", steps=6)
        self.train(mixture, "resumed", "--checkpoint_dir=ckpt", steps=3)
        self.assertEqual(json.loads(self.read("ckpt/step-00000003/manifest.json"))["mixture"],
                         [{"file": "a.txt", "tokens": 800, "weight": 0.7}, {"file": "b.txt", "tokens": 480, "weight": 0.3}])
        resume = ["--checkpoint_dir=ckpt", "--resume"]
        was = "but ckpt/step-00000003 was trained on a.txt:0.7 (800 tokens), b.txt:0.3 (480 tokens)"
        for other, now in [("a.txt:0.6,b.txt:0.4", "a.txt:0.6 (800 tokens), b.txt:0.4 (480 tokens)"),
                           ("a.txt,b.txt", "data without weights"), ("b.txt:0.3,a.txt:0.7", "b.txt:0.3 (480 tokens), a.txt:0.7 (800"),
                           ("a.txt:0.7,c.txt:0.3", "a.txt:0.7 (800 tokens), c.txt:0.3 (160 tokens)")]:
            error = self.train(other, "resumed", *resume, steps=6, code=2)[1]
            self.assertIn("--data: is " + now, error)
            self.assertIn(was, error)
            self.assertIn("resume with the same files and weights", error)
        error = self.train(mixture, "resumed", *resume, steps=6)[1]
        self.assertNotIn("warning", error)
        self.assertEqual(self.losses("resumed"), self.losses("all"))
        # A checkpoint of data without weights.
        self.train("a.txt,b.txt", "none", "--checkpoint_dir=none")
        error = self.train(mixture, "none", "--checkpoint_dir=none", "--resume", steps=6, code=2)[1]
        self.assertIn("was trained on data without weights", error)

    def test_validation(self):
        self.train("a.txt:1,b.txt:1", "fraction", "--eval_fraction=0.2", "--eval_batches=2")
        self.train("a.txt", "data", "--eval_data=b.txt:1,c.txt:3", "--eval_batches=2")
        for out in ["fraction", "data"]:
            self.assertGreater(read_metrics(f"{self.dir}/{out}.jsonl")[-1]["eval_loss"], 0)
        self.refuse(["b.txt: too short: the validation part needs 33 tokens"], "a.txt:1,b.txt:1", "x", "--eval_fraction=0.05")

    def test_weights_that_are_refused(self):
        for weight, text in [("0", "0"), ("-1", "-1"), ("nan", "nan"), ("inf", "inf"), ("1e999", "inf")]:
            self.refuse([f"b.txt: its weight {text} is not positive and finite", "give each file a weight such as 0.7"],
                        f"a.txt:1,b.txt:{weight}", "x")
        self.refuse(["--data=a.txt:1,b.txt: a.txt has a weight, and b.txt has none", "to each file, or to none"], "a.txt:1,b.txt", "x")
        self.refuse(["b.txt:x: no such file"], "a.txt:1,b.txt:x:1", "x")
        self.refuse(["--data=:1", "names a file without a name"], ":1", "x")
        self.refuse(["--eval_data=a.txt,b.txt:2: b.txt has a weight, and a.txt has none"], "a.txt", "x", "--eval_data=a.txt,b.txt:2")
        self.refuse(["--metrics=a.txt", "a.txt is the file of --data, too"], "a.txt:1", "x", "--metrics=a.txt")


if __name__ == "__main__":
    unittest.main()
