"""A model of the family llama, from its preset to text: model, compile, train, generate; meshes agree."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

TINY = ["--preset=llama-tiny", "--sequence=32"]
# Blocks as those of Qwen 2.5 and 3, Mistral and Llama 3.1 at once.
ALL = [*TINY, "--qkv_bias=true", "--qk_norm=true", "--window=12", "--rope_scaling=8,1,4,16", "--tied=false"]


class LlamaTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "the cat sat on the mat. " * 400)
        run("model", "llama", *TINY, "--out=tiny.textproto", cwd=cls.dir)
        run("model", "llama", *ALL, "--out=all.textproto", cwd=cls.dir)

    def losses(self, graph, *flags, steps=4):
        run("train", "--graph=" + graph, "--data=text.txt", "--batch=8", f"--steps={steps}", "--seed=1", "--threads=1",
            "--learning_rate=5e-3", "--metrics=metrics.jsonl", *flags, cwd=self.dir)
        return [line["loss"] for line in read_metrics(os.path.join(self.dir, "metrics.jsonl")) if "loss" in line]

    def test_from_the_preset_to_text(self):
        printed = run("model", "llama", "--preset=llama-small", "--out=small.textproto", cwd=self.dir)[0]
        self.assertIn("small.textproto: 820352 parameters, ", printed)
        self.assertIn("layers 4, heads 4 in 2 groups, hidden 128, inner 384, sequence 64, vocabulary 256\n", printed)
        run("compile", "--graph=small.textproto", "--mesh=data=2,tensor=2", "--batch=8", "--threads=1", "--out=small.plan",
            cwd=self.dir)
        run("train", "--plan=small.plan", "--data=text.txt", "--steps=20", "--seed=1", "--learning_rate=3e-3",
            "--metrics=small.jsonl", "--checkpoint_dir=small", cwd=self.dir)
        losses = [line["loss"] for line in read_metrics(self.dir + "/small.jsonl") if "loss" in line]
        self.assertEqual(len(losses), 20)
        self.assertGreater(losses[0], 5)
        self.assertLess(losses[-1], 2.5)
        text = json.loads(run("generate", "--checkpoint=small", "--prompt=the cat", "--temperature=0", "--tokens=80",
                              "--format=json", cwd=self.dir)[0])
        self.assertEqual(len(text["tokens"]), 80)

    def test_meshes_agree(self):
        for graph in ["tiny.textproto", "all.textproto"]:
            one = self.losses(graph)
            self.assertLess(one[-1], one[0])
            for mesh in ["data=2", "tensor=2", "tensor=2x2", "pipe=2,data=2", "pipe=2,tensor=2"]:
                with self.subTest(graph=graph, mesh=mesh):
                    for loss, same in zip(self.losses(graph, "--mesh=" + mesh), one, strict=True):
                        self.assertAlmostEqual(loss, same, delta=2e-5)

    def test_beyond_the_groups_attention_splits_query_heads(self):
        run("model", "llama", "--layers=1", "--hidden=512", "--heads=16", "--groups=2", "--sequence=256", "--vocab=256",
            "--out=wide.textproto", cwd=self.dir)
        mesh = ["--batch=1", "--mesh=tensor=2x4"]
        graph = run("explain", "--graph=wide.textproto", "--program=train", "--after=insert_boxing", *mesh, cwd=self.dir)[0]
        self.assertIn("\n  h.0.attn.core:(S(2),S(3)) ", graph)
        self.assertIn("\n  h.0.attn.k_rotary:(S(2),B) ", graph)
        self.assertIn("\n  h.0.attn.core.dq:(S(2),S(3)) :1:(S(2),P) :2:(S(2),P) ", graph)
        one = self.losses("wide.textproto", "--batch=1", steps=3)
        for loss, same in zip(self.losses("wide.textproto", *mesh, steps=3), one, strict=True):
            self.assertAlmostEqual(loss, same, delta=2e-5)

    def test_recomputation_changes_no_bit(self):
        one = self.losses("all.textproto")
        for words in ["attention", "selective", "full", "full:1,attention"]:
            self.assertEqual(self.losses("all.textproto", "--recompute=" + words), one)

    def test_bf16_learns(self):
        one, narrow = self.losses("tiny.textproto"), self.losses("tiny.textproto", "--precision=bf16")
        self.assertNotEqual(one, narrow)
        for loss, near in zip(narrow, one, strict=True):
            self.assertAlmostEqual(loss, near, delta=0.02)

    def test_text_is_what_was_learned_beyond_the_window_and_on_any_mesh(self):
        for name in ["tiny", "all"]:
            self.losses(name + ".textproto", "--checkpoint_dir=" + name, steps=150)
            generate = lambda *flags: json.loads(
                run("generate", "--checkpoint=" + name, "--prompt=the cat", "--temperature=0", "--tokens=50", "--format=json",
                    *flags, cwd=self.dir)[0])
            one = generate()
            self.assertIn("sat on the mat. the cat sat", one["text"])
            for mesh in ["tensor=2", "tensor=2x2", "pipe=2", "data=2"]:
                with self.subTest(name=name, mesh=mesh):
                    self.assertEqual(generate("--mesh=" + mesh)["tokens"], one["tokens"])

    def test_a_mixture_continues_a_text_token_by_token_without_dropping_one(self):
        run("model", "llama", *TINY, "--experts=4", "--inner=32", "--capacity=1.25", "--routed_positions=16", "--out=mixture.textproto",
            cwd=self.dir)
        self.losses("mixture.textproto", "--checkpoint_dir=mixture", steps=150)
        text = json.loads(run("generate", "--checkpoint=mixture", "--prompt=the cat", "--temperature=0", "--tokens=40",
                              "--format=json", cwd=self.dir)[0])["text"]
        self.assertIn("sat on the mat. the cat", text)

    def test_memory_is_that_of_blocks(self):
        run("compile", "--graph=tiny.textproto", "--batch=8", "--out=tiny.plan", cwd=self.dir)
        header, numbers = run("explain", "--plan=tiny.plan", "--format=memory", cwd=self.dir)[0].split("stage  matrices_")[1].split(
            "\n")[:2]
        of = dict(zip(("matrices_" + header).split(), map(int, numbers.split()[1:]), strict=True))
        # Weights, two moments and the gradient, in f32, of two layers.
        self.assertEqual(of["matrices_of_blocks"], 16 * 2 * (32 * 64 + 32 * 32 + 3 * 32 * 128))
        self.assertGreater(of["kept_in_blocks"], 0)
        self.assertGreater(of["kept_statistics"], 0)

    def test_more_of_tensor_than_groups(self):
        error = run("compile", "--graph=tiny.textproto", "--mesh=tensor=4", "--out=x.plan", cwd=self.dir, code=2)[1]
        self.assertIn('tensor=4: is more parts than the 2 of groups in "h.0.attn.qkv.weight" [32,2,4,8]; write '
                      "--mesh=tensor=2x2: the first factor splits the groups, the second the query heads of each", error)


if __name__ == "__main__":
    unittest.main()
