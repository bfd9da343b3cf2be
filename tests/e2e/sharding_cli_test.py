"""--shard, --gather and --reduce on the command line: what is refused and why, what a plan that does not fit is told, what `explain`
and `compile` say of a plan, and that checkpoints pass between runs that split otherwise."""
import json
import re
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run


class ShardingTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=64", "--sequence=32", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("text.txt", "one line of a text\n" * 100)

    def compile(self, *flags, code=0, batch=16):
        return run("compile", "--graph=gpt.textproto", f"--batch={batch}", "--threads=1", "--out=x.plan", "--format=json", *flags,
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
        self.refuse(["states:tensor: is no axis that splits tokens"], "--mesh=data=2,tensor=2", "--shard=states:tensor")
        self.refuse(["states:data.3: is no axis of the mesh data=2x2"], "--mesh=data=2x2", "--shard=states:data.3")
        self.refuse(["--reduce=never: is not known", "each_micro_batch:data.1"], "--mesh=data=2", "--reduce=never")
        self.refuse(["each_micro_batch:pipe: is no axis that splits tokens"], "--mesh=data=2", "--reduce=each_micro_batch:pipe")
        self.refuse(["--gather=never: is not known", "use each_use, each_micro_batch or once"], "--mesh=data=2", "--gather=never")

    def test_what_acts_on_nothing_is_said(self):
        for flag, words in [("--gather=once", "--shard splits no weights"), ("--reduce=each_micro_batch", "no axis of 2 or more devices splits tokens")]:
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
        flags = ["--mesh=data=4", "--micro_batches=2", "--cluster=h100", "--device=cuda", "--prefetch=0", "--reserve=0"]
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

    def explain(self, *flags):
        """The table of variables: {name: (states, gradient, weight, gathered, reduced)}; and the entries of the JSON by name."""
        self.compile(*flags)
        lines = run("explain", "--plan=x.plan", cwd=self.dir)[0].splitlines()
        first = [line.startswith("variables of program train") for line in lines].index(True)
        rows = {}
        for line in lines[first + 2:]:
            if not line.startswith("    "):
                break
            name, *columns = re.split(r"  +", line.strip())
            rows[name] = tuple(columns)
        told = json.loads(run("explain", "--plan=x.plan", "--format=json", cwd=self.dir)[0])
        return rows, {v["name"]: v for v in told["variables"]}

    def test_explain_says_where_variables_are_and_when_they_move(self):
        flags = ["--mesh=data=4", "--micro_batches=4"]
        fc, bias = "h.*.mlp.fc.weight", "h.*.mlp.fc.bias"
        self.assertEqual(self.explain(*flags)[0][fc], ("replicated", "full", "replicated", "-", "once over data; 2 times"))
        self.assertEqual(self.explain(*flags, "--shard=states")[0][fc],
                         ("data", "full", "replicated", "once over data", "once over data; 2 times"))
        self.assertEqual(self.explain(*flags, "--reduce=each_micro_batch")[0][fc],
                         ("replicated", "full", "replicated", "-", "each micro-batch over data; 2 times"))
        self.assertEqual(self.explain(*flags, "--shard=gradients")[0][fc],
                         ("data", "data", "replicated", "once over data", "each micro-batch over data; 2 times"))
        each = "each micro-batch over data; 2 times"
        rows, told = self.explain(*flags, "--shard=weights")
        self.assertEqual(rows[fc], ("data", "data", "data", "2 a micro-batch over data", each))
        self.assertEqual(rows[bias], ("data", "data", "data", "1 a micro-batch over data", each))  # the backward needs none
        part = [{"dtype": "f32", "split": {"data": 0}}]
        for name, value in {"states": part, "gradients": part, "weights": part, "reduced": {"once": [], "each_micro_batch": ["data"]},
                            "gathered": {"once": [], "each_micro_batch": ["data"], "a_micro_batch": 2, "ahead": 0}}.items():
            self.assertEqual(told["h.1.mlp.fc.weight"][name], value)
        self.assertNotIn("states", told["h.1.mlp.fc.weight/m"])
        self.assertEqual(self.explain(*flags, "--shard=weights", "--gather=once", "--precision=bf16")[0][fc],
                         ("data", "data", "bf16 replicated", "once over data", each))
        rows = self.explain(*flags, "--shard=weights", "--gather=each_micro_batch", "--precision=bf16")[0]
        self.assertEqual(rows[fc], ("data", "data", "data", "1 a micro-batch over data", each))
        self.assertEqual(rows["wte"], ("data", "data", "data", "2 a micro-batch over data", "each micro-batch over data"))
        rows = self.explain("--mesh=data=2x2", "--micro_batches=4", "--shard=states:data,gradients:data.1,weights:data.1")[0]
        self.assertEqual(rows[fc], ("data.0+data.1", "data.1", "data.1", "once over data.0, 2 a micro-batch over data.1",
                                    "once over data.0, each micro-batch over data.1; 2 times"))
        rows = self.explain("--mesh=pipe=2,data=2,tensor=2", "--micro_batches=4", "--shard=states")[0]
        self.assertEqual(rows[fc], ("data+tensor", "tensor", "tensor", "once over data", "once over data; 2 times"))
        self.compile("--mesh=data=1")
        self.assertNotIn("variables of program", run("explain", "--plan=x.plan", cwd=self.dir)[0])

    def test_explain_says_how_far_ahead_weights_are_gathered(self):
        run("model", "gpt", "--layers=8", "--heads=2", "--hidden=64", "--sequence=32", "--vocab=256", "--out=deep.textproto", cwd=self.dir)
        flags = ["--graph=deep.textproto", "--shard=weights", "--overlap=true", "--micro_batches=4"]
        for mesh, more in [("data=2", []), ("data=2", ["--precision=bf16"]), ("pipe=2,data=2", []),
                           ("pipe=2,data=2", ["--schedule=interleaved"])]:
            for ahead in [0, 1, 2]:
                rows, told = self.explain("--mesh=" + mesh, f"--prefetch={ahead}", *more, *flags)
                # A chunk of two blocks has uses for one gather ahead.
                most = min(ahead, 1) if "--schedule=interleaved" in more else ahead
                self.assertEqual(told["h.3.mlp.fc.weight"]["gathered"]["ahead"], most, (mesh, more, ahead))
                self.assertIn(f"2 a micro-batch over data{f' ({most} ahead)' if most else ''}", rows["h.*.mlp.fc.weight"])

    def test_compile_says_what_changes_bits(self):
        def bits(*flags):
            told = json.loads(self.compile(*flags)[0])["headline"].get("bits", "")
            text = run("explain", "--plan=x.plan", cwd=self.dir)[0]
            self.assertEqual(re.findall("^bits: (.*)$", text, re.MULTILINE), [told] if told else [])
            return told

        equal = "equal to those of the plan without --shard"
        other = "gradients are reduced over {} with every micro-batch, so sums have another order than once a step"
        for flags in [["--mesh=data=1", "--shard=weights"], ["--mesh=data=2"], ["--mesh=tensor=2", "--shard=states"]]:
            self.assertEqual(bits("--micro_batches=4", *flags), "")
        for shard in ["states", "gradients", "weights"]:  # of one micro-batch there is one order
            for precision in ["f32", "bf16"]:
                self.assertEqual(bits("--mesh=data=4", "--shard=" + shard, "--precision=" + precision), equal)
        several = ["--mesh=data=4", "--micro_batches=4"]
        self.assertEqual(bits(*several, "--shard=states"), equal)
        for flags in [["--shard=gradients"], ["--shard=weights", "--gather=once", "--precision=bf16"],
                      ["--shard=states", "--reduce=each_micro_batch"]]:
            self.assertEqual(bits(*several, *flags), f"{other.format('data')}; {equal} and with --reduce=each_micro_batch")
        self.assertEqual(bits(*several, "--reduce=each_micro_batch"), other.format("data"))
        self.assertEqual(bits("--mesh=data=4", "--reduce=each_micro_batch"), "equal to those of the plan without --reduce")
        factors = ["--mesh=data=2x2", "--micro_batches=4"]
        self.assertEqual(bits(*factors, "--shard=states:data,gradients:data.1"),
                         f"{other.format('data.1')}; {equal} and with --reduce=each_micro_batch:data.1")
        self.assertEqual(bits(*factors, "--shard=weights"),
                         "within rounding of the plan without --shard: gradients are summed over data.0+data.1 axis by axis")
        self.assertRegex(bits("--mesh=data=4", "--shard=states", "--device=cuda"), f"^{equal}; NCCL sums .* within rounding$")
        self.assertEqual(bits("--mesh=data=2", "--shard=states", "--device=cuda"), equal)

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

    def test_what_axes_split(self):
        def axes(*flags, batch=16):
            headline = json.loads(self.compile(*flags, batch=batch)[0])["headline"]
            return {axis["axis"]: (axis["splits"], axis["gathers"]) for axis in headline["axes"]}
        self.assertEqual(axes("--mesh=pipe=2,data=2,tensor=2"),
                         {"pipe": (["blocks, 1 a stage"], 0), "data": (["batch"], 0), "tensor": (["products by heads, inner"], 0)})
        self.assertEqual(axes("--mesh=data=2,context=2", "--shard=weights"),
                         {"data": (["batch", "weights"], 0), "context": (["positions", "weights"], 0)})
        self.assertEqual(axes("--mesh=data=2", "--shard=states"), {"data": (["batch", "states"], 0)})
        # With many tokens a micro-batch it costs less to gather weights than activations.
        self.assertEqual(axes("--mesh=tensor=2", batch=1024)["tensor"], ([], 4))
        self.assertIn("\naxis tensor=2: gathers the weights of 4 of 4 products a block\n", run("explain", "--plan=x.plan", cwd=self.dir)[0])
        products = "products by vocab, heads, inner"
        self.assertEqual(axes("--mesh=tensor=2", "--split_products", batch=1024), {"tensor": ([products], 0)})
        self.assertIn("\naxis tensor=2: " + products + "\n", run("explain", "--plan=x.plan", cwd=self.dir)[0])


if __name__ == "__main__":
    unittest.main()
