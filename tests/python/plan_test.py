"""Functions of the package: models, recipes, plans, searches, and what they show; the example of docs/python.md."""
import json
import os
import re
import tempfile
import unittest
from pathlib import Path

import oneflow_actors as of

SMALL = {"layers": 2, "heads": 2, "hidden": 16, "sequence": 8, "vocab": 256}
CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 16, "vocab_size": 64,
          "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": True}


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = Path(temporary.name)
        cls.model = of.models.gpt(**SMALL)
        cls.plan = of.compile(cls.model, of.Recipe(mesh={"data": 2}, batch=4), cluster="h100")

    def test_models(self):
        self.assertEqual((self.model.graph.family, self.model.parameters), ("gpt", 10816))
        self.assertIn("10,816", self.model._repr_html_())
        self.model.save(self.dir / "gpt.textproto")
        self.assertEqual(of.Model.load(self.dir / "gpt.textproto").graph, self.model.graph)
        (self.dir / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        hub = of.Model.from_hf(self.dir / "config.json")
        self.assertEqual(of.compile(hub, batch=4), of.compile(self.dir / "config.json", batch=4))
        tuned = of.Model.from_hf(self.dir / "config.json", lora="rank:4,targets:attn")
        self.assertEqual(tuned.graph.lora.rank, 4)
        self.assertGreater(tuned.parameters, hub.parameters)
        self.assertTrue([op for op in of.models.moe(layers=1, hidden=16, heads=2, vocab=64).graph.op if op.kind == "route"])
        self.assertEqual(of.models.named("llama3.1-8b").parameters, 8030261248)

    def test_recipes(self):
        recipe = of.Recipe(mesh={"pipe": 2, "data": 2}, batch=8, micro_batches=4, recompute=["full:1", "attention"], fuse=False, prefetch=2,
                           learning_rate=1e-3, schedule="1f1b")
        self.assertEqual(recipe, of.Recipe(mesh="pipe=2,data=2", batch=8, micro_batches=4, recompute="full:1,attention", fuse="false",
                                           prefetch=2, learning_rate="0.001", schedule="1f1b"))
        self.assertNotEqual(recipe, of.Recipe(batch=8))
        self.assertEqual((recipe.message.batch, recipe.message.mesh.axis[0].name), (8, "pipe"))
        self.assertEqual(recipe.optimizer.learning_rate, 0.001)
        self.assertIn("micro_batches", recipe._repr_html_())
        recipe.save(self.dir / "r.textproto")
        self.assertEqual(of.Recipe.load(self.dir / "r.textproto"), recipe)
        self.assertEqual(of.compile(self.model, recipe), of.compile(self.model, self.dir / "r.textproto"))
        self.assertEqual(str(of.Recipe()), "")
        with self.assertRaisesRegex(of.InputError, "belongs to no plan"):
            recipe.emit("megatron")

    def test_a_plan(self):
        plan = self.plan
        self.assertEqual((plan.devices, plan.model, len(plan.fingerprint)), (2, "gpt", 32))
        head = plan.to_json()["headline"]
        self.assertEqual((plan.bytes_per_device, plan.step_seconds, plan.tokens_per_second, plan.mfu, plan.step_band),
                         (head["bytes_a_device"], head["step_seconds"], head["tokens_a_second"], head["mfu"], None))
        self.assertIn(f"memory: {plan.bytes_per_device:,} bytes", str(plan.headline))
        self.assertEqual(of.compile(self.model, plan.recipe, cluster="h100"), plan)
        self.assertRegex(repr(plan), r"^Plan\(gpt on 2 devices: 482.8 KiB each, step 0.89 ms, MFU")
        lines = plan.explain("h.0.mlp.fc.weight").split("\n")
        self.assertTrue(lines and all("h.0.mlp.fc.weight" in line for line in lines))
        self.assertIn("program train", plan.explain())
        self.assertIn("</html>", plan.to_html(self.dir / "plan.html"))
        self.assertEqual((self.dir / "plan.html").read_text(encoding="utf-8"), plan.to_html())
        self.assertRegex(plan._repr_html_(), "^<iframe srcdoc=\"&lt;")
        self.assertEqual(plan.verify(), "live, memory-safe, type-safe")
        self.assertEqual(plan.simulate().step_seconds, plan.step_seconds)
        self.assertIn("critical path", str(plan.simulate(steps=3)))
        self.assertIn("mesh", str(plan.diff(of.compile(self.model, batch=4))))
        written = of.compile(self.model, batch=4, out=self.dir / "own.plan")
        self.assertEqual((written.path, of.Plan.load(self.dir / "own.plan")), (str(self.dir / "own.plan"), written))
        self.assertIn("all_gather", of.explain(self.model, mesh="data=2", batch=4, after="insert_boxing"))

    def test_other_systems(self):
        model = of.models.gpt(preset="gpt2-124m")
        emitted = of.compile(model, mesh="data=8", batch=64, cluster="h100", device="cuda", precision="bf16").emit("megatron", self.dir / "run")
        self.assertIn("--global-batch-size 64", emitted["run.sh"])
        self.assertEqual((self.dir / "run/run.sh").read_text(encoding="utf-8"), emitted["run.sh"])
        self.assertEqual(emitted.facts.system, "megatron")
        foreign = of.read_foreign(self.dir / "run/run.sh")
        self.assertEqual((foreign.recipe.message.batch, foreign.own, foreign.facts["gpus"]), (64, None, 8))

    def test_search_and_fit(self):
        heard = []
        given = {"devices": 2, "batch": 4, "cluster": "h100", "fix": [{"tensor": 1}, "context=1"], "budget_seconds": 2}
        best = of.search(self.model, of.Recipe(precision="bf16"), on_progress=heard.append, **given)
        self.assertTrue(heard and "plan groups" in heard[0])
        self.assertEqual(best[0].recipe.message.precision, of.Recipe(precision="bf16").message.precision)
        self.assertEqual(best[0].plan.step_seconds, best[0].step_seconds)
        self.assertEqual(best[0].plan.bytes_per_device, best[0].bytes)
        self.assertEqual([plan.step_seconds for plan in best], sorted(plan.step_seconds for plan in best))
        self.assertIn(best.simplest, best[:])
        self.assertIn("choices", best._repr_html_())
        fit = of.fit(self.model, devices="1x2", cluster="h100", batch_tokens=64.0, budget_seconds=1)
        self.assertEqual((fit.fits, fit.batch), (True, 8))
        self.assertIn("fits 2 devices", fit._repr_html_())
        fit = of.fit(self.model, devices=1, cluster="h100", memory="10KB", reserve=0, budget_seconds=1)
        self.assertEqual((fit.fits, fit.miss["bytes_too_many"] > 0), (False, True))
        self.assertIn("too many", fit._repr_html_())

    def test_clusters(self):
        self.assertIn("h100", [known.name for known in of.clusters()])
        mine = of.cluster("h100")
        mine.message.device.memory_bytes = 94 * 10**9
        self.assertEqual(of.compile(self.model, batch=4, cluster=mine).headline.device_capacity_bytes, 94 * 10**9)
        sheet = of.cluster(bf16_tflops=362, memory="44.4GiB", memory_bandwidth="864GB", devices=8, link_bandwidth="32GB",
                           network_bandwidth="12.5GB")
        self.assertEqual(sheet.message.level[0].size, 8)

    def test_data(self):
        (self.dir / "text.txt").write_text("some words. " * 50, encoding="utf-8")
        made = of.data(text=self.dir / "text.txt", out=self.dir / "data")
        self.assertEqual(made.files[0]["tokens"], 600)

    def test_the_page_about_it(self):
        with open("docs/python.md", encoding="utf-8") as page:
            blocks = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
        self.assertTrue(blocks)
        before = os.getcwd()
        os.chdir(self.dir)
        self.addCleanup(os.chdir, before)
        names = {}
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), names)  # pylint: disable=exec-used


if __name__ == "__main__":
    unittest.main()
