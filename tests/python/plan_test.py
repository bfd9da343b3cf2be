"""Functions of the package: models, recipes, plans, searches, and what they show; the example of docs/python.md."""
import array
import contextlib
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
        with contextlib.chdir(self.dir):
            near = of.Model.from_hf("config.json")
        self.assertEqual(of.compile(near, batch=4), of.compile(hub, batch=4))
        for path, sentence in [("absent", "cannot be read: No such file"), ("config.json", "is no graph")]:
            with self.assertRaisesRegex(of.InputError, sentence):
                of.Model.load(self.dir / path)
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
        self.assertIn("learning_rate: 0.001", recipe._repr_html_())
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
        with self.assertRaisesRegex(of.InputError, "gate: is no op and no tensor of program train"):
            plan.explain("h.0.mlp.gate")
        with contextlib.chdir(self.dir):
            moved = of.Plan.load("own.plan")
            moved.save("own.plan")
        self.assertEqual(moved, of.compile(self.model, batch=4))
        self.assertIn("all_gather", of.explain(self.model, mesh="data=2", batch=4, after="insert_boxing"))

    def test_other_systems(self):
        model = of.models.gpt(preset="gpt2-124m")
        plan = of.compile(model, mesh="data=8", batch=64, cluster="h100", device="cuda", precision="bf16")
        emitted = plan.emit("megatron", self.dir / "run", steps=77)
        self.assertIn("--global-batch-size 64", emitted["run.sh"])
        self.assertIn("--train-iters 77", emitted["run.sh"])
        self.assertEqual((self.dir / "run/run.sh").read_text(encoding="utf-8"), emitted["run.sh"])
        self.assertEqual(emitted.facts.system, "megatron")
        foreign = of.read_foreign(self.dir / "run/run.sh")
        self.assertEqual((foreign.recipe.message.batch, foreign.own, foreign.facts["gpus"]), (64, None, 8))

    def test_search_and_fit(self):
        heard = []
        model, fix = of.models.gpt(**{**SMALL, "layers": 1}), {"pipe": 1, "tensor": 1, "context": 1, "recompute": "none"}
        best = of.search(model, of.Recipe(precision="bf16"), on_progress=heard.append, devices=2, batch=4, cluster="h100",
                         fix=[fix, "shard=none"])
        self.assertTrue(heard and "plan groups" in heard[0])
        self.assertEqual(best[0].recipe.message.precision, of.Recipe(precision="bf16").message.precision)
        self.assertEqual(best[0].plan.step_seconds, best[0].step_seconds)
        self.assertEqual(best[0].plan.bytes_per_device, best[0].bytes)
        self.assertEqual([plan.step_seconds for plan in best], sorted(plan.step_seconds for plan in best))
        self.assertIn(best.simplest, best[:])
        self.assertIn("choices", best._repr_html_())
        fit = of.fit(model, devices="1x2", cluster="h100", batch_tokens=64.0, fix=fix)
        self.assertEqual((fit.fits, fit.batch), (True, 8))
        self.assertIn("fits 2 devices", fit._repr_html_())
        with self.assertRaisesRegex(of.InputError, "leave one of the two out"):
            of.fit(model, devices=1, cluster="h100", batch_tokens=64, batch=8)
        found = of.search(model, devices=2, batch=4, cluster=of.cluster("h100"), fix=[fix, "shard=none"])[0]
        self.assertEqual(found.plan.step_seconds, found.step_seconds)  # of a cluster whose object is gone
        with self.assertRaisesRegex(of.InputError, "absent.json: cannot be read"):
            of.read_foreign("absent.json")
        fit = of.fit(model, devices=1, cluster="h100", memory="10KB", reserve=0, fix=fix)
        self.assertEqual((fit.fits, fit.miss["bytes_too_many"] > 0), (False, True))
        self.assertIn("too many", fit._repr_html_())

    def test_clusters(self):
        self.assertIn("h100", [known.name for known in of.clusters()])
        with self.assertRaisesRegex(of.InputError, "no cluster is named"):
            of.cluster()
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

    def test_checkpoints(self):
        source = "tests/e2e/hugging_face/gpt2"
        with open(f"{source}/expected.json", encoding="utf-8") as file:
            expected = json.load(file)
        (self.dir / "tokens.bin").write_bytes(array.array("H", expected["batch"]).tobytes())
        imported = of.import_model(source, self.dir / "imported")
        self.assertEqual(imported.checkpoint, str(self.dir / "imported/step-00000000"))
        evaluated = of.evaluate(imported.checkpoint, [self.dir / "tokens.bin"], tokenizer="bytes")
        self.assertAlmostEqual(evaluated.loss, expected["loss"], delta=2e-5)
        text = of.generate(imported.checkpoint, "The ", tokens=5, tokenizer="bytes", seed=1)
        self.assertEqual((text, len(text.facts["tokens"])), (text.facts.text, 5))
        self.assertEqual(of.export(imported.checkpoint, self.dir / "exported").model_type, "gpt2")
        self.assertEqual(of.compile(self.dir / "exported", batch=2), of.compile(source, batch=2))

    def test_the_page_about_it(self):
        with open("docs/python.md", encoding="utf-8") as page:
            blocks = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
        self.assertTrue(blocks)
        before = os.getcwd()
        os.chdir(self.dir)
        self.addCleanup(os.chdir, before)
        names = {}
        for block in blocks:
            with contextlib.redirect_stdout(None):
                exec(compile(block, "docs/python.md", "exec"), names)  # pylint: disable=exec-used


if __name__ == "__main__":
    unittest.main()
