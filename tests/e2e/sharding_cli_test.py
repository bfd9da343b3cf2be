"""--shard, --gather and --reduce on the command line: what is refused and why, what a plan that does not fit is told, and that
checkpoints pass between runs that split otherwise."""
import json
import re
import tempfile
import unittest

from tests.e2e.cli import read_metrics, run


class ShardingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = temporary.name
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=64", "--sequence=32", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        with open(cls.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("one line of a text\n" * 100)

    def compile(self, *flags, code=0):
        return run("compile", "--graph=gpt.textproto", "--batch=16", "--threads=1", "--out=x.plan", "--format=json", *flags,
                   cwd=self.dir, code=code)

    def refuse(self, words, *flags):
        error = self.compile(*flags, code=2)[1]
        for word in words:
            self.assertIn(word, error)
        return error

    def bytes(self, *flags):
        return json.loads(self.compile(*flags)[0])["stages"][0]["arena_bytes"]

    def test_what_is_no_layout(self):
        self.refuse(["--shard=state: is not known; did you mean states?", "states:data,gradients:data,weights:data.1"], "--mesh=data=2", "--shard=state")
        self.refuse(["--shard=fsdp: is not known; did you mean weights?"], "--mesh=data=2", "--shard=fsdp")
        self.refuse(["--shard=states:: is not known"], "--mesh=data=2", "--shard=states:")
        self.refuse(["names states twice", "states:data.0+data.1"], "--mesh=data=2x2", "--shard=states:data.0,states:data.1")
        self.refuse(["splits weights over data, and gradients not", "add data to gradients"], "--mesh=data=2",
                    "--shard=states:data,weights:data")
        self.refuse(["splits gradients over data.0, and states not"], "--mesh=data=2x2", "--shard=states:data.1,gradients:data")
        self.refuse(["states:tensor: is no axis that splits the batch"], "--mesh=data=2,tensor=2", "--shard=states:tensor")
        self.refuse(["states:data.3: is no axis of the mesh data=2x2"], "--mesh=data=2x2", "--shard=states:data.3")
        self.refuse(["--reduce=never: is not known", "each_micro_batch:data.1"], "--mesh=data=2", "--reduce=never")
        self.refuse(["each_micro_batch:pipe: is no axis that splits the batch"], "--mesh=data=2", "--reduce=each_micro_batch:pipe")
        self.refuse(["--gather=never: is not known", "use each_use, each_micro_batch or once"], "--mesh=data=2", "--gather=never")

    def test_what_acts_on_nothing_is_said(self):
        for flag, words in [("--gather=once", "--shard splits no weights"), ("--reduce=each_micro_batch", "no axis data")]:
            self.assertIn(words, self.compile("--mesh=tensor=2", flag)[1])

    def test_a_gather_for_a_micro_batch_needs_one_in_flight(self):
        flags = ["--shard=weights", "--gather=each_micro_batch", "--micro_batches=4"]
        self.compile("--mesh=data=2", *flags)
        error = self.refuse(["a stage has 2 micro-batches in flight", "--gather=each_use", "--gather=once"], "--mesh=pipe=2,data=2", *flags)
        block, stage = [float(mb) for mb in re.findall(r"\(([\d.]+) MB\)", error)]
        self.assertLess(0, block)
        self.assertLess(block, stage)
        self.refuse(["has 4 micro-batches in flight"], "--mesh=data=2", "--schedule=gpipe", *flags)

    def test_a_plan_that_does_not_fit_is_told_what_does(self):
        flags = ["--mesh=data=4", "--micro_batches=2", "--cluster=h100", "--device=cuda", "--prefetch=0"]
        needs = {shard: self.bytes(*flags, "--shard=" + shard) for shard in ["none", "states", "weights"]}
        self.assertLess(needs["weights"], needs["states"])
        self.assertLess(needs["states"], needs["none"])
        error = self.refuse(["memory of stage 0: needs", "it fits with\n", "--shard=weights: "], *flags,
                            f"--memory={(needs['weights'] + needs['states']) // 2}")
        offered = re.findall(r"^  (--.*): ([\d.]+) GiB, a step of (\S+) s", error, re.MULTILINE)
        self.assertNotIn("--shard=states", [flag for flag, _, _ in offered])
        for flag, gib, _ in offered:
            self.assertAlmostEqual(float(gib), self.bytes(*flags, flag) / 2**30, delta=0.01)
        self.refuse(["no flag that was tried makes it fit"], *flags, "--memory=100KB")

    def test_runs_go_on_with_another_split(self):
        train = ["train", "--graph=gpt.textproto", "--data=text.txt", "--batch=8", "--mesh=data=2", "--threads=1", "--eval_fraction=0.3",
                 "--learning_rate=1e-2"]

        def losses(name):
            return [line["loss"] for line in read_metrics(f"{self.dir}/{name}.jsonl") if "loss" in line]

        run(*train, "--steps=4", "--metrics=none.jsonl", "--checkpoint_dir=none", cwd=self.dir)
        run(*train, "--steps=2", "--metrics=split.jsonl", "--checkpoint_dir=split", "--shard=weights", cwd=self.dir)
        run(*train, "--steps=3", "--metrics=split.jsonl", "--checkpoint_dir=split", "--shard=states", "--resume", cwd=self.dir)
        run(*train, "--steps=4", "--metrics=split.jsonl", "--checkpoint_dir=split", "--shard=gradients", "--resume", cwd=self.dir)
        self.assertEqual(losses("split"), losses("none"))
        texts = [run("generate", "--checkpoint=" + name, "--prompt=one", "--tokens=20", "--temperature=0", cwd=self.dir)[0]
                 for name in ["none", "split"]]
        self.assertEqual(*texts)


if __name__ == "__main__":
    unittest.main()
