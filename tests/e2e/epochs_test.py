"""--epochs: each record once an epoch, in an order that meshes, processes and resume do not change; and what is refused."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

BIGRAM = "--graph=" + os.path.abspath("examples/bigram.textproto")  # of bytes, 32 tokens a sequence


class EpochsTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("a.txt", "".join(f"line {i} of a text\n" for i in range(40)))
        cls.write("b.txt", "".join(f"verse {i}\n" for i in range(30)))
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=16", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)

    def train(self, *flags, code=0):
        return run("train", BIGRAM, "--data=a.txt,b.txt", "--epochs=2", "--batch=8", "--threads=1", *flags, cwd=self.dir, code=code)

    def losses(self, *flags):
        self.train("--metrics=metrics.jsonl", *flags)
        return [line["loss"] for line in read_metrics(f"{self.dir}/metrics.jsonl")]

    def refuse(self, words, *flags):
        error = self.train(*flags, code=2)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("oneflow: error: "), 1, error)

    def test_each_record_once_an_epoch(self):
        # Weights that do not change: the loss of a batch is the mean over its records.
        flat = ["--learning_rate=1e-30", "--batch=1"]
        losses = self.losses(*flat)
        size = len(self.read("a.txt")) + len(self.read("b.txt"))
        records = (size - 1) // 32
        self.assertEqual(len(losses), 2 * records)
        self.assertEqual(sorted(losses[:records]), sorted(losses[records:]))
        self.assertNotEqual(losses[:records], losses[records:])
        self.assertEqual(len(set(losses[:records])), records)
        # Batches of several are the same records, in the same order, and one crosses the epochs.
        for loss, *parts in zip(self.losses("--learning_rate=1e-30", "--batch=4"), *(losses[i::4] for i in range(4))):
            self.assertAlmostEqual(loss, sum(parts) / 4, delta=2e-6)
        self.assertNotEqual(records % 4, 0)
        self.assertNotEqual(self.losses(*flat, "--seed=2")[:records], losses[:records])

    def test_steps_and_what_is_printed(self):
        size = len(self.read("a.txt")) + len(self.read("b.txt"))
        records = (size - 1) // 32
        steps = -(-2 * records // 8)
        out = self.train()[0]
        self.assertIn(f"data: {records} records: {records} windows of 32 tokens; the last {size - records * 32 - 1} tokens are left out\n"
                      f"2 epochs of {records} records: {steps} steps of 8\n", out)
        self.assertIn(f"step {steps}/{steps} ", out)
        lines = [json.loads(line) for line in self.train("--format=json")[0].splitlines()]
        self.assertEqual({name: lines[0]["data"][name] for name in ("records", "epochs", "steps", "windows", "chats")},
                         {"records": records, "epochs": 2, "steps": steps, "windows": records, "chats": 0})
        self.assertEqual(len(lines), 1 + steps)
        self.assertEqual(self.losses(f"--steps={steps}"), self.losses())
        self.refuse([f"--steps={steps + 1}: is not --epochs=2, which are {steps} steps", "leave --steps or --epochs out"],
                    f"--steps={steps + 1}")

    def test_meshes_and_processes_take_the_same_records(self):
        gpt = ["--graph=gpt.textproto", "--learning_rate=1e-3"]
        one = self.losses(*gpt)
        for flags in [["--mesh=data=2"], ["--mesh=data=4"], ["--micro_batches=4"], ["--mesh=pipe=2", "--micro_batches=2"],
                      ["--mesh=data=2", "--processes=2"], ["--mesh=data=4", "--processes=2"]]:
            with self.subTest(flags=flags):
                for loss, same in zip(self.losses(*gpt, *flags), one, strict=True):
                    self.assertAlmostEqual(loss, same, delta=2e-5)
        self.assertEqual(self.losses(*gpt, "--mesh=data=2"), self.losses(*gpt, "--mesh=data=2", "--processes=2"))

    def test_a_run_resumes_in_the_middle_of_an_epoch(self):
        whole = self.losses("--mesh=data=2")
        for step, more in [(3, []), (5, ["--processes=2"])]:
            with self.subTest(step=step):
                folder = f"--checkpoint_dir=at-{step}"
                self.train("--mesh=data=2", folder, f"--checkpoint_every={step}")
                manifest = json.loads(self.read(f"at-{step}/step-{step:08}/manifest.json"))
                self.assertEqual((manifest["records"]["order"], manifest["step"]), ("epochs", step))
                for name in os.listdir(f"{self.dir}/at-{step}"):
                    if name.startswith("step-") and name != f"step-{step:08}":
                        os.rename(f"{self.dir}/at-{step}/{name}", f"{self.dir}/{step}-{name}")
                error = self.train("--mesh=data=2", folder, "--resume", f"--metrics=rest-{step}.jsonl", *more)[1]
                self.assertNotIn("warning", error)
                self.assertEqual([line["loss"] for line in read_metrics(f"{self.dir}/rest-{step}.jsonl")], whole[step:])

    def test_a_run_goes_on_for_more_epochs_and_with_its_own_data_only(self):
        self.train("--epochs=1", "--checkpoint_dir=one")
        whole = self.losses()
        self.train("--checkpoint_dir=one", "--resume", "--epochs=2", "--metrics=more.jsonl")
        rest = [line["loss"] for line in read_metrics(self.dir + "/more.jsonl")]
        self.assertEqual(len(rest), len(whole) // 2)
        self.assertEqual(rest, whole[-len(rest):])
        resume = ["--checkpoint_dir=one", "--resume", "--epochs=3"]
        self.refuse(["--data: has ", " records, but one/step-", "was trained on "], *resume, "--data=a.txt")
        draws = [BIGRAM, "--data=a.txt,b.txt", "--batch=8", "--threads=1"]
        error = run("train", *draws, "--checkpoint_dir=one", "--resume", "--steps=20", cwd=self.dir, code=2)[1]
        for word in ["--epochs: the run reads samples that begin at any position, but one/step-", "was trained on epochs of ",
                     "--init_from=one/step-"]:
            self.assertIn(word, error)
        run("train", *draws, "--checkpoint_dir=drawn", "--steps=2", cwd=self.dir)
        self.refuse(["--epochs: the run reads epochs of ", "was trained on samples that begin at any position"],
                    "--checkpoint_dir=drawn", "--resume")

    def test_refusals(self):
        self.refuse(["--epochs: cannot be given together with weights of --data"], "--data=a.txt:1,b.txt:2")
        self.refuse(["--epochs=0: is out of range"], "--epochs=0")
        self.refuse(["--epochs=4294967295: of ", "are 2^32 steps or more", "use fewer epochs"], "--epochs=4294967295", "--batch=1")


if __name__ == "__main__":
    unittest.main()
