"""--lora and --train_only on the command line: the verbs that take them, recipes, what is printed and what is refused."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, run

SIZES = ["--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=32"]
LORA = "--lora=rank:4,alpha:8,targets:attn+mlp"


class AdaptersCliTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", *SIZES, "--out=plain.textproto", cwd=cls.dir)
        cls.said = run("model", "gpt", *SIZES, LORA, "--out=lora.textproto", cwd=cls.dir)[0]

    def oneflow(self, *args):
        return run(*args, cwd=self.dir)[0]

    def refuse(self, words, *args):
        self.assertIn("oneflow: error: " + words, run(*args, cwd=self.dir, code=2)[1])

    def file(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return file.read()

    def test_model_prints_what_is_trained(self):
        # Of a block: 4 * (16 + 48) + 4 * (16 + 16) + 2 * 4 * (16 + 64).
        self.assertIn("; trains 2048 of 9280 parameters (22.07 %)\n", self.said)
        self.assertNotIn("trains", self.oneflow("model", "gpt", *SIZES, "--out=x.textproto"))
        self.assertIn("trains 128 of", self.oneflow("model", "gpt", *SIZES, "--train_only=h.*.ln_*", "--out=x.textproto"))

    def test_a_graph_is_rewritten_wherever_it_is_named(self):
        def plan(*flags):
            self.oneflow("compile", *flags, "--out=x.plan")
            return json.loads(self.oneflow("explain", "--plan=x.plan", "--format=json"))["stages"]

        one = plan("--graph=lora.textproto")
        self.assertEqual(one, plan("--graph=plain.textproto", LORA))
        with open(os.path.join(self.dir, "graph.recipe"), "w", encoding="utf-8") as file:
            file.write('model { graph: "plain.textproto" lora { rank: 4 alpha: 8 target: "attn" target: "mlp" } }\n')
        self.assertEqual(one, plan("--recipe=graph.recipe"))
        with open(os.path.join(self.dir, "family.recipe"), "w", encoding="utf-8") as file:
            file.write('model { family: "gpt" layers: 2 heads: 2 hidden: 16 sequence: 8 vocab: 32 lora { rank: 4 alpha: 8 } }\n')
        self.assertEqual(one, plan("--recipe=family.recipe"))
        self.assertNotEqual(one, plan("--recipe=family.recipe", "--lora=rank:2"))
        for verb in ["simulate", "explain"]:
            self.oneflow(verb, "--graph=plain.textproto", LORA)
        self.oneflow("search", "--graph=plain.textproto", LORA, "--devices=2", "--batch=8", "--budget_seconds=60", "--cluster=h100",
                     "--out_recipe=found.recipe")
        self.assertIn("rank: 4", self.file("found.recipe"))
        self.oneflow("compile", "--recipe=found.recipe", "--out=x.plan")

    def test_what_cannot_be(self):
        model = ["model", "gpt", *SIZES, "--out=x"]
        for words, *flags in [
                ("--lora=alpha:8: has no rank; write --lora=rank:16", "--lora=alpha:8"),
                ("--lora=rank:0: has the word rank:0, which is no rank of 1 to 65536", "--lora=rank:0"),
                ("--lora=rank:4,alfa:8: has the word alfa:8, which is not known; did you mean alpha?", "--lora=rank:4,alfa:8"),
                ('--lora: target "q_proj": names no product of the model\'s blocks; did you mean c_proj? use all, attn, mlp',
                 "--lora=rank:4,targets:q_proj"),
                ('--lora: target "head": is an embedding or the head, which have no adapters here; train it as it is: --train_only=wte',
                 "--lora=rank:4,targets:head"),
                ('--train_only: pattern "h.*.ln_3.*": names no variable of the model;', "--train_only=h.*.ln_3.*"),
                ('--train_only: pattern "lm_head": names no variable of the model; the head of this model is its embedding: write wte',
                 "--train_only=lm_head"),
                ("--train_only=wte,: has an empty pattern; write names of variables", "--train_only=wte,"),
        ]:
            with self.subTest(flags):
                self.refuse(words, *model, *flags)
        self.refuse('graph "gpt": has adapters already; leave --lora out, or give the model itself', "compile", "--graph=lora.textproto",
                    "--lora=rank:4", "--out=x.plan")
        self.oneflow("compile", "--graph=lora.textproto", "--out=lora.plan")
        self.refuse("--lora", "explain", "--plan=lora.plan", "--lora=rank:4")
        self.refuse('--lora: target "mlp": names "mlp.router": experts of a mixture and their routers have no adapters', "model", "llama",
                    *SIZES, "--inner=16", "--experts=4", "--lora=rank:4,targets:mlp", "--out=x")


if __name__ == "__main__":
    unittest.main()
