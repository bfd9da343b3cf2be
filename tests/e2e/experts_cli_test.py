"""A mixture of experts on the command line: what is refused, what is printed, and what a hot expert costs."""
import json
import os
import re
import unittest

from tests.e2e.cli import FolderCase, run
from tests.e2e.page import Page

MIXTURE = ["--layers=1", "--heads=2", "--hidden=16", "--inner=16", "--sequence=16", "--vocab=256", "--experts=8"]
WIDE = [*MIXTURE, "--hidden=64", "--inner=256", "--sequence=128"]


class ExpertsCliTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "llama", *MIXTURE, "--out=moe.textproto", cwd=cls.dir)
        run("model", "llama", *MIXTURE, "--capacity=1.25", "--out=capacity.textproto", cwd=cls.dir)
        run("model", "llama", *WIDE, "--out=wide.textproto", cwd=cls.dir)

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
            self.refuse(f"--{name}: acts on nothing without experts; add --experts=N, or leave it out", "model", "llama", flag,
                        "--out=x")
        self.refuse("--rope_scaling=8,4,1,8192: has a HIGH that is not above LOW", "model", "llama", "--rope_scaling=8,4,1,8192",
                    "--out=x")
        self.refuse("--experts=8: is a flag of `oneflow model llama or gemma ", "model", "gpt", "--experts=8", "--out=x")

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
        self.assertRegex(text, r"\nMFU counts ([^\n]*; )?[\d.]+ thousand of [\d.]+ thousand parameters active\n")

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

    def price(self, *flags, code=0):
        return run("compile", "--graph=wide.textproto", "--mesh=expert=4", "--batch=8", *flags, cwd=self.dir, code=code)

    def test_a_price_stands_beside_the_worst(self):
        self.assertRegex(self.price()[0], r"\nmemory: .* a device, at an imbalance of experts of 1.25, .* at the worst\n")
        at = lambda *flags: json.loads(self.price("--format=json", *flags)[0])["headline"]
        usual, written = at(), at("--out=wide.plan")
        self.assertEqual(usual["price"]["imbalance"], 1.25)
        # What is written has room for any routing, and says so.
        self.assertNotIn("price", written)
        self.assertEqual(usual["bytes_a_device"], written["bytes_a_device"])
        self.assertLess(usual["price"]["bytes_a_device"], written["bytes_a_device"])
        self.assertLess(usual["step_seconds"], written["step_seconds"])
        self.assertEqual(at("--imbalance=1")["bytes_a_device"], written["bytes_a_device"])
        self.assertLess(at("--imbalance=1")["price"]["bytes_a_device"], usual["price"]["bytes_a_device"])
        # Two of four devices' worth of queues: one device has all tokens.
        worst = at("--imbalance=4")["price"]
        self.assertEqual(worst["bytes_a_device"], written["bytes_a_device"])
        for verb in "explain", "simulate":
            said = json.loads(run(verb, "--graph=wide.textproto", "--mesh=expert=4", "--batch=8", "--format=json", cwd=self.dir)[0])
            self.assertEqual(said.get("headline", said)["step_seconds"], usual["step_seconds"], verb)
        # Between the two the imbalance that fits is known, and the next one does not fit.
        memory = (usual["price"]["bytes_a_device"] + written["bytes_a_device"]) // 2
        between = at(f"--memory={memory}")["price"]
        self.assertGreater(between["fits_up_to"], 1.25)
        self.assertLess(between["fits_up_to"], 4)
        self.assertLessEqual(at(f"--imbalance={between['fits_up_to']}")["price"]["bytes_a_device"], memory)
        self.assertGreater(at(f"--imbalance={between['fits_up_to'] * 1.1}")["price"]["bytes_a_device"], memory)
        self.assertIn(f"too much at the worst: it fits up to imbalance {between['fits_up_to']}\n", self.price(f"--memory={memory}")[0])
        for verb in ["compile", "--out=x.plan"], ["train", "--data=text.txt", "--steps=1"]:
            self.write("text.txt", bytes(range(32, 120)) * 20)
            self.refuse("memory of stage 0: needs ", *verb, "--graph=wide.textproto", "--mesh=expert=4", "--batch=8", f"--memory={memory}")
        refused = self.price(f"--memory={memory}", "--out=x.plan", code=2)[1]
        self.assertIn(f"it fits up to imbalance {between['fits_up_to']} of experts", refused)
        # The model that the refusal names fits as it says.
        advised = re.search(r"a model with (--slots=\S+) (--slot_groups=4) fits, and drops the rest", refused).groups()
        run("model", "llama", *WIDE, *advised, "--out=slots.textproto", cwd=self.dir)
        run("compile", "--graph=slots.textproto", "--mesh=expert=4", "--batch=8", f"--memory={memory}", "--out=x.plan", cwd=self.dir)
        page = Page(run("explain", "--graph=wide.textproto", "--mesh=expert=4", "--batch=8", "--format=html", cwd=self.dir)[0])
        self.assertEqual(page.json()["step_seconds"], usual["step_seconds"])
        self.assertRegex(page.json("plan")["facts"][-1], "^at an imbalance of experts of 1.25, .* at the worst$")
        # A price that does not fit says that it is one.
        self.assertIn("experts priced at an imbalance of 1.5: memory of stage 0: needs ",
                      self.price("--memory=1MiB", "--imbalance=1.5", code=2)[1])

    def test_a_price_that_cannot_be(self):
        alone = "--imbalance: acts on nothing: no devices split the experts of a mixture that drops nothing; leave it out"
        for words, graph, *flags in [
                ("--imbalance=0.5: is out of range; use the slots of queues", "moe", "--mesh=expert=2", "--imbalance=0.5"),
                ("--imbalance: is for a price, and a plan is written", "moe", "--mesh=expert=2", "--imbalance=2", "--out=x.plan"),
                (alone, "moe", "--mesh=data=2", "--imbalance=2"),
                (alone, "capacity", "--mesh=expert=2", "--imbalance=2"),
        ]:
            with self.subTest(words):
                self.refuse(words, "compile", f"--graph={graph}.textproto", *flags)
        after = run("explain", "--graph=moe.textproto", "--mesh=expert=2", "--after=bind_batch", "--imbalance=2.5", cwd=self.dir)[0]
        self.assertIn("groups=2 imbalance=2.5 parts=2", after)
        self.refuse(alone, "search", "--graph=capacity.textproto", "--devices=2", "--cluster=h100", "--batch=4", "--imbalance=2")

    def test_a_search_prices_and_writes_what_drops_nothing(self):
        search = ["search", "--graph=wide.textproto", "--devices=4", "--cluster=h100", "--batch=8", "--fix=expert=4,micro_batches=1,recompute=none",
                  "--format=json"]
        found = json.loads(run(*search, "--out=found.plan", cwd=self.dir)[0])
        self.assertEqual(found["imbalance"], 1.25)
        shown = found["plans"][found["simplest"]]
        self.assertLess(shown["bytes_a_device"], found["worst_bytes_a_device"])
        plan = json.loads(run("explain", "--plan=found.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual(plan["headline"]["bytes_a_device"], found["worst_bytes_a_device"])
        text = run(*search[:-1], "--imbalance=2", cwd=self.dir)[0]
        self.assertIn("experts priced at an imbalance of 2\n", text)
        self.assertRegex(text, r"plan 1 needs [\d.]+ MiB at an imbalance of experts of 2, [\d.]+ MiB at the worst\n")
        memory = f"--memory={(shown['bytes_a_device'] + found['worst_bytes_a_device']) // 2}"
        out, err = run(*search, memory, "--reserve=0", "--out=none.plan", cwd=self.dir, code=2)
        self.assertGreater(json.loads(out)["fits_up_to"], 1.25)
        self.assertRegex(err, r"of experts, and a plan that is written has room for any: .* --slots=[\d.]+ --slot_groups=4\n")

    SEARCH = ["search", "--graph=wide.textproto", "--devices=4", "--cluster=h100", "--batch=8"]
    ALIKE = "micro_batches=1,recompute=none,shard=none"

    def test_a_search_says_which_plans_are_priced(self):
        both = ["--fix=" + self.ALIKE, "--compare=expert=4", "--compare=expert=1,data=4", "--imbalance=2"]
        text = run(*self.SEARCH, *both, cwd=self.dir)[0]
        self.assertIn("experts priced at an imbalance of 2\n", text)
        self.assertIn("experts (expert=4): time and memory are priced at an imbalance of 2; `oneflow compile` says", text)
        self.assertEqual(text.count(" --imbalance=2\n"), 1)
        sides = json.loads(run(*self.SEARCH, *both, "--format=json", cwd=self.dir)[0])
        self.assertEqual([side.get("imbalance") for side in sides["compare"]], [2, None])
        # The flags that stand below a plan make its price.
        flags = next(line for line in text.splitlines() if line.endswith(" --imbalance=2")).split()
        priced = json.loads(run("compile", *flags, "--format=json", cwd=self.dir)[0])["headline"]
        self.assertEqual(priced["price"]["bytes_a_device"], sides["compare"][0]["bytes_a_device"])
        # No devices split experts.
        alone = run(*self.SEARCH, f"--fix={self.ALIKE},expert=1,data=4", cwd=self.dir)[0]
        self.assertNotIn("imbalance", alone)
        err = run(*self.SEARCH, f"--fix={self.ALIKE},expert=4", "--memory=1MB", "--reserve=0", cwd=self.dir, code=2)[1]
        self.assertIn("on 4 devices of H100-80G nodes of 8, experts priced at an imbalance of 1.25: ", err)

    def test_a_front_has_pages_of_prices_where_the_worst_does_not_fit(self):
        front = [*self.SEARCH, f"--fix={self.ALIKE},expert=4", "--pareto", "--reserve=0"]
        found = json.loads(run(*front, "--format=json", cwd=self.dir)[0])["points"][0]
        self.assertEqual(found["imbalance"], 1.25)
        self.assertIn("experts: time and memory are priced at an imbalance of 1.25; ", run(*front, cwd=self.dir)[0])
        page = lambda name: Page(self.read(name).decode())
        for memory, words in [("80GB", "of experts of 1.25, .* at the worst$"),
                              (str(found["bytes_a_device"]), "of experts of 1.25, too much at the worst$")]:
            with self.subTest(memory):
                said = run(*front, f"--memory={memory}", "--format=html", "--out=front" + memory, cwd=self.dir)[0]
                folder = f"front{memory}/"
                self.assertRegex(page(folder + "plan-1.html").json("plan")["facts"][-1], words)
                index = self.read(folder + "index.html").decode()
                self.assertEqual(Page(index).problems, [])
                self.assertIn("priced at an imbalance of 1.25", index)
                fits = memory == "80GB"
                self.assertEqual(os.path.exists(f"{self.dir}/{folder}plan-1.plan"), fits)
                for text, start in [(index, "no plan is written: "), (said, "no plan-1.plan: ")]:
                    self.assertEqual(start + "it would have room for any routing of experts: memory of stage 0: needs " in text, not fits)

    def test_a_hot_expert_costs_time(self):
        self.compile("moe.textproto", "expert=2")
        with open(f"{self.dir}/slow.textproto", "w", encoding="utf-8") as out:  # kernels, not issuing them, take the time
            out.write("device { kind: CUDA peak_flops: 1e12 memory_bandwidth: 1e11 }\n")
        simulate = ["simulate", "--plan=moe.plan", "--cluster=slow.textproto"]
        self.assertNotIn("experts:", run(*simulate, cwd=self.dir)[0])
        self.assertIn("experts: priced at an imbalance of 1.5 (docs/moe.md)\n", run(*simulate, "--imbalance=1.5", cwd=self.dir)[0])
        steps = []
        for imbalance in (1, 100):
            summary = json.loads(run(*simulate, f"--imbalance={imbalance}", "--format=json", cwd=self.dir)[0])
            self.assertEqual(summary["imbalance"], imbalance)
            steps.append(summary["step_seconds"])
        self.assertLess(steps[0], steps[1])
        self.refuse("--imbalance=0.5: is out of range", *simulate, "--imbalance=0.5")


if __name__ == "__main__":
    unittest.main()
