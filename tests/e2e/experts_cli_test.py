"""A mixture of experts on the command line: what is refused, what is printed, and what a hot expert costs."""
import json
import unittest

from tests.e2e.cli import FolderCase, run

MIXTURE = ["--layers=1", "--heads=2", "--hidden=16", "--inner=16", "--sequence=16", "--vocab=256", "--experts=8"]


class ExpertsCliTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "llama", *MIXTURE, "--out=moe.textproto", cwd=cls.dir)
        run("model", "llama", *MIXTURE, "--capacity=1.25", "--out=capacity.textproto", cwd=cls.dir)

    def refuse(self, words, *args):
        self.assertIn("oneflow: error: " + words, run(*args, cwd=self.dir, code=2)[1])

    def compile(self, graph, mesh, *flags):
        return run("compile", "--graph=" + graph, "--mesh=" + mesh, "--batch=8", "--out=moe.plan", *flags, cwd=self.dir)

    def test_models_that_cannot_be(self):
        for words, flag in [
                ("--experts=data: is no whole number; write it in digits", "--experts=data"),
                ("--experts_per_token=9: is out of range: there are 8 experts; use 1 to 8", "--experts_per_token=9"),
                ("--routed_positions=5: does not divide --sequence=16; use a divisor", "--routed_positions=5"),
                ("--capacity=-1: is out of range; use 0 to 4096", "--capacity=-1"),
                ("--capacity=0.0001: leaves less than one slot to a queue", "--capacity=0.0001"),
                ("--slots=0.0001: leaves less than one slot to a queue", "--slots=0.0001"),
                ("--slot_groups=3: acts on nothing without --slots", "--slot_groups=3"),
                ("--aux_loss_coeff=-1: is out of range; use 0 to 1000", "--aux_loss_coeff=-1"),
                ("--z_loss_coeff=-1: is out of range", "--z=-1"),
                ("--scores=tanh: is not known; use softmax or sigmoid", "--scores=tanh"),
                ("--bias_rate=2: is out of range; use 0 to 1", "--bias_rate=2"),
        ]:
            with self.subTest(flag):
                self.refuse(words, "model", "llama", *MIXTURE, flag, "--out=x")
        self.refuse("--capacity=1.25: is --slots with a queue for each expert, and --slots or --slot_groups is given, too", "model", "llama",
                    *MIXTURE, "--slots=1.25", "--capacity=1.25", "--out=x")
        self.refuse("--slot_groups=3: does not divide the 8 experts; use a divisor", "model", "llama", *MIXTURE, "--slots=1.25",
                    "--slot_groups=3", "--out=x")
        for flag, name in [("--choices=2", "experts_per_token=2"), ("--shared=8", "shared_inner=8"), ("--capacity=1.25", "capacity=1.25"),
                           ("--norm_topk_prob=false", "norm_topk_prob=false")]:
            self.refuse(f"--{name}: acts on nothing in a model without experts; add --experts=N, or leave it out", "model", "llama", flag,
                        "--out=x")
        self.refuse("--rope_scaling=8,4,1,8192: has a HIGH that is not above LOW", "model", "llama", "--rope_scaling=8,4,1,8192",
                    "--out=x")
        self.refuse("--experts=8: is a flag of `oneflow model llama`", "model", "gpt", "--experts=8", "--out=x")

    def test_splits_that_cannot_be(self):
        for words, graph, *flags in [
                ('mesh axis expert of 3 parts: does not divide the 8 experts of "h.0.mlp.route"', "moe", "--mesh=expert=3"),
                ('mesh axis expert of 3 parts: does not divide the 8 groups of experts', "capacity", "--mesh=expert=3"),
                ("--experts=data.1: is no axis of the mesh data=2", "moe", "--mesh=data=2", "--experts=data.1"),
        ]:
            with self.subTest(words):
                self.refuse(words, "compile", f"--graph={graph}.textproto", *flags, "--batch=12", "--out=x.plan")
        self.refuse('--fix=slots=1.25: "slots" is nothing that the search chooses', "search", "--graph=moe.textproto", "--devices=2",
                    "--cluster=h100", "--batch=4", "--fix=slots=1.25")
        # Without experts the axis is one that no layout is written for.
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=64", "--out=gpt.textproto",
            cwd=self.dir)
        warning = run("compile", "--graph=gpt.textproto", "--mesh=expert=2", "--batch=8", "--out=x.plan", cwd=self.dir)[1]
        self.assertIn("warning: mesh axis expert: the model has no experts to split; all layouts over it are inferred", warning)

    def test_exchanges_of_tokens_have_a_reason_and_a_time(self):
        run("model", "llama", *MIXTURE, "--hidden=64", "--inner=64", "--sequence=32", "--out=wide.textproto", cwd=self.dir)
        printed = self.compile("wide.textproto", "data=2,expert=4")[0]
        self.assertIn("h.0.mlp.experts.gate.weight is S(0) on expert: the default says so", printed)
        boxing = run("explain", "--plan=moe.plan", cwd=self.dir)[0]
        # Slots are exchanged, or tokens gathered, whichever costs less.
        self.assertRegex(boxing, r"(mlp\.dispatch is S\(1\) on expert; h\.0\.mlp\.experts\.gate needs S\(0\): all_to_all"
                         r"|norm_2 is S\(0\) on expert; h\.0\.mlp\.dispatch needs B: all_gather), [\d,]+ bytes \(.*\), .* us\n")

    def train(self, graph, mesh, *flags, steps=4):
        """The lines of a run of the graph, as JSON, and what it says on stderr."""
        self.write("text.txt", bytes(range(32, 120)) * 20)
        out, err = run("train", "--graph=" + graph, "--mesh=" + mesh, "--batch=8", "--micro_batches=2", "--data=text.txt",
                       f"--steps={steps}", "--threads=1", "--format=json", *flags, cwd=self.dir)
        return [line for line in map(json.loads, out.splitlines()) if "loss" in line], err

    def test_a_run_reports_the_load_of_experts(self):
        run("model", "llama", *MIXTURE, "--layers=2", "--out=two.textproto", cwd=self.dir)
        alone, err = self.train("two.textproto", "data=1")
        self.assertNotIn("dropped", err)
        for line in alone:
            self.assertEqual(line["dropped"], 0)
            self.assertEqual(len(line["expert_shares"]), 8)
            self.assertAlmostEqual(sum(line["expert_shares"]), 1)
        # Counts are whole numbers, so stages and devices change none.
        for mesh, *flags in [("data=2,expert=2",), ("pipe=2", "--recompute=full"), ("data=2", "--global_norm=false", "--clip=0")]:
            with self.subTest(mesh):
                self.assertEqual(self.train("two.textproto", mesh, *flags, steps=1)[0][0]["expert_shares"],
                                 alone[0]["expert_shares"])
        text = run("train", "--graph=two.textproto", "--batch=8", "--data=text.txt", "--steps=1", "--threads=1",
                   cwd=self.dir)[0]
        self.assertRegex(text, r"step 1/1  loss .*  hottest \d\.\d\dx  left")

    def test_a_run_warns_once_of_what_it_drops(self):
        run("model", "llama", *MIXTURE, "--capacity=0.5", "--out=small.textproto", cwd=self.dir)
        lines, err = self.train("small.textproto", "expert=2")
        self.assertEqual(err.count("of its choices of experts"), 1)
        self.assertRegex(err, r"warning: step 1 dropped [5-9]\d\.\d % of its choices of experts, which were full; write the "
                         r"model with more --slots")
        for line in lines:
            self.assertGreaterEqual(line["dropped"], 0.5)
        # Each has a slot for all tokens of a sequence.
        run("model", "llama", *MIXTURE, "--capacity=4", "--out=large.textproto", cwd=self.dir)
        lines, err = self.train("large.textproto", "expert=2")
        self.assertNotIn("of its choices", err)
        self.assertEqual([line["dropped"] for line in lines], [0] * 4)

    def test_full_queues_drop_the_same_choices_in_any_number_of_processes(self):
        run("model", "llama", *MIXTURE, "--slots=1.1", "--slot_groups=4", "--out=slots.textproto", cwd=self.dir)
        alone = [(line["dropped"], line["expert_shares"]) for line in self.train("slots.textproto", "data=1")[0]]
        self.assertGreater(min(dropped for dropped, _ in alone), 0)
        for mesh, *flags in [("expert=2", "--processes=2"), ("data=2,expert=2", "--processes=2")]:
            with self.subTest(mesh):
                lines = self.train("slots.textproto", mesh, *flags)[0]
                self.assertEqual([(line["dropped"], line["expert_shares"]) for line in lines], alone)

    def test_biases_that_a_rule_moves_go_on_from_a_checkpoint(self):
        run("model", "llama", *MIXTURE, "--scores=sigmoid", "--bias_rate=0.01", "--out=bias.textproto", cwd=self.dir)
        seen = ["loss", "grad_norm", "expert_shares"]
        whole = [[line[key] for key in seen] for line in self.train("bias.textproto", "data=2")[0]]
        saved = ["--checkpoint_dir=bias", "--checkpoint_every=2"]
        self.train("bias.textproto", "data=2", *saved, steps=2)
        rest = self.train("bias.textproto", "data=2", *saved, "--resume")[0]
        self.assertEqual([[line[key] for key in seen] for line in rest], whole[2:])

    def test_a_hot_expert_costs_time(self):
        self.compile("moe.textproto", "expert=2")
        with open(f"{self.dir}/slow.textproto", "w", encoding="utf-8") as out:  # kernels, not issuing them, take the time
            out.write("device { kind: CUDA peak_flops: 1e12 memory_bandwidth: 1e11 }\n")
        cluster = "--cluster=slow.textproto"
        text = run("simulate", "--plan=moe.plan", cluster, cwd=self.dir)[0]
        self.assertIn("experts: every one has as many tokens; --imbalance=1.3 says what a hot one costs\n", text)
        steps = []
        for imbalance in (1, 100):
            summary = json.loads(run("simulate", "--plan=moe.plan", cluster, f"--imbalance={imbalance}", "--format=json",
                                     cwd=self.dir)[0])
            self.assertEqual(summary["imbalance"], imbalance)
            steps.append(summary["step_seconds"])
        self.assertLess(steps[0], steps[1])
        self.refuse("--imbalance=0.5: is out of range", "simulate", "--plan=moe.plan", cluster, "--imbalance=0.5")


if __name__ == "__main__":
    unittest.main()
