"""--recipe=FILE: a file says what flags say; flags beside it count; what is wrong in it is named by its line. `oneflow recipe`: the
complete one of a plan makes the same plan."""
import json
import unittest

from tests.e2e.cli import FolderCase, run

RECIPE = """recipe {
  mesh { axis { name: "pipe" size: 2 } axis { name: "data" size: 2 } }
  batch: 16
  micro_batches: 4
  shard { states: "data" }
  recompute { term { policy: "full" counts: 1 } term { policy: "attention" } }
  prefetch: 2
}
run {
  steps: 2
  optimizer { learning_rate: 1e-3 clip: 0 }
}
cluster: "h100"
"""
FLAGS = ["--mesh=pipe=2,data=2", "--batch=16", "--micro_batches=4", "--shard=states", "--recompute=full:1,attention", "--prefetch=2",
         "--learning_rate=1e-3", "--clip=0", "--cluster=h100"]


class RecipeTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=4", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("r.textproto", RECIPE)
        cls.write("own.order", 'stage { task: "F0 F1 B0 B1" }\nstage { task: "F0 B0 F1 B1" }\n')

    def compile(self, *flags, out="x.plan", code=0):
        return run("compile", "--graph=gpt.textproto", *flags, f"--out={out}", cwd=self.dir, code=code)

    def test_a_file_says_what_flags_say(self):
        self.assertEqual(self.compile("--recipe=r.textproto", out="file.plan")[1], "")
        self.compile(*FLAGS, out="flags.plan")
        self.assertEqual(self.read("file.plan"), self.read("flags.plan"))
        for verb in ("simulate", "explain"):
            self.assertEqual(run(verb, "--graph=gpt.textproto", "--recipe=r.textproto", cwd=self.dir)[0],
                             run(verb, "--graph=gpt.textproto", *FLAGS, cwd=self.dir)[0])

    def test_flags_beside_it_count(self):
        errors = self.compile("--recipe=r.textproto", "--micro_batches=2", "--prefetch=auto", "--batch=16", "--cluster=a100", out="a.plan")[1]
        self.assertEqual(errors, "oneflow: --recipe=r.textproto, but --prefetch=auto in place of 2, --micro_batches=2 in place of 4, "
                                 "--cluster=a100 in place of h100\n")
        others = ["--micro_batches=2", "--prefetch=auto", "--cluster=a100"]
        names = [flag.split("=")[0] for flag in others]
        self.compile(*[flag for flag in FLAGS if flag.split("=")[0] not in names], *others, out="b.plan")
        self.assertEqual(self.read("a.plan"), self.read("b.plan"))

    def test_what_depends_on_another_value_is_dropped(self):
        pipe = ["--mesh=pipe=2", "--batch=8", "--micro_batches=4"]
        for made, flags, words in [
                (["--schedule=2bw", "--clip=0"], ["--schedule=1f1b"], "--schedule=1f1b in place of 2bw"),
                (["--schedule=zero_bubble"], ["--schedule=2bw", "--clip=0"], "without its"),
                (["--schedule=zero_bubble"], ["--schedule=zero_bubble", "--micro_batches=8"], "--micro_batches=8 in place of 4"),
                (["--schedule=interleaved", "--stage_layers=1,1,2,0"], ["--schedule=gpipe"], "stage_layers"),
                (["--order=own.order", "--micro_batches=2"], ["--schedule=gpipe"], "without its order"),
                (["--schedule=gpipe"], ["--order=own.order", "--micro_batches=2"], "without its "),
                (["--schedule=1f1b", "--stage_layers=1,3"], ["--mesh=data=2"], "stage_layers"),
                (["--lr_schedule=cosine", "--decay_steps=9", "--min_learning_rate=1e-5"], ["--lr_schedule=constant"],
                 "without its decay_steps, min_learning_rate")]:
            with self.subTest(made=made, flags=flags):
                self.compile(*pipe, *made, out="made.plan")
                run("recipe", "--plan=made.plan", "--out=made.recipe", cwd=self.dir)
                self.assertIn(words, run("compile", "--recipe=made.recipe", *flags, "--out=again.plan", cwd=self.dir)[1])
                kept = [flag for flag in made if flag.startswith(("--clip", "--micro_batches"))]
                self.compile(*pipe, *kept, *flags, out="direct.plan")
                self.assertIn("the plans are alike", run("diff", "again.plan", "direct.plan", cwd=self.dir)[0])

    def test_what_a_verb_has_no_use_for(self):
        small = ["search", "--graph=gpt.textproto", "--devices=2", "--fix=tensor=1,context=1"]
        told = run(*small, "--recipe=r.textproto", cwd=self.dir)[1]
        self.assertIn("says what search chooses or leaves out: mesh, shard, micro_batches, recompute\n", told)
        self.write("steps.textproto", RECIPE.replace("steps: 2", "steps: 1000000"))
        explained = run("explain", "--graph=gpt.textproto", "--recipe=steps.textproto", cwd=self.dir)[0]
        self.assertEqual(explained, run("explain", "--graph=gpt.textproto", "--recipe=r.textproto", cwd=self.dir)[0])
        self.assertIn("2 steps", run("simulate", "--graph=gpt.textproto", "--recipe=steps.textproto", cwd=self.dir)[0])

    def test_recipes_that_do_not_train(self):
        self.write("eval.textproto", "recipe { purpose: EVALUATION batch: 4 }\n")
        self.assertIn("no program train; it has init, eval, save, load", self.compile("--recipe=eval.textproto")[0])
        self.assertIn("eval.textproto: purpose=evaluation: is of plans that do not train",
                      run("train", "--graph=gpt.textproto", "--recipe=eval.textproto", "--data=x", cwd=self.dir, code=2)[1])

    def test_a_run_that_goes_on_keeps_what_is_not_said(self):
        self.write("text.txt", "some words to train on, over and over again. " * 40)
        train = ["train", "--data=text.txt", "--steps=1", "--checkpoint_dir=run"]
        run(*train, "--graph=gpt.textproto", "--batch=4", "--micro_batches=2", "--shard=gradients", "--mesh=data=2", cwd=self.dir)
        for flags, words in [([], None), (["--batch=8"], "other numbers: --batch 4, now 8\n"),
                             (["--sync_every=2"], "--batch 4, now 8; --micro_batches 2, now 4"),
                             (["--batch=2"], "--batch 4, now 2; --micro_batches 2, now 1")]:
            with self.subTest(flags):
                told = run(*train, "--mesh=data=2", *flags, "--resume", cwd=self.dir)[1]
                self.assertIn(words, told) if words else self.assertNotIn("was trained", told)

    def test_the_model_of_a_file(self):
        for text, words in [('model {\n graph: "gpt.textproto"\n layers: 4\n}', "m.textproto:3: layers: is said beside graph"),
                            ("model {\n layers: 4\n}", "m.textproto:2: layers: is a number of a family, which is missing"),
                            ('model { family: "gptt" }', 'm.textproto: family "gptt"'),
                            ('model { graph: "absent.plan" }', "m.textproto: graph=absent.plan: is not there; the path is relative")]:
            with self.subTest(text):
                self.write("m.textproto", text)
                self.assertIn(words, run("compile", "--recipe=m.textproto", "--out=m.plan", cwd=self.dir, code=2)[1])
        self.write("m.textproto", 'model { family: "gpt" }')
        self.assertIn("--graph=gpt.textproto in place of its model", self.compile("--recipe=m.textproto")[1])

    def test_what_is_wrong_in_it(self):
        for was, now, words in [
                ("prefetch: 2", "prefetch: 9", "r2.textproto:7: prefetch=9: is out of range; use auto, or 0 to 8"),
                ("prefetch: 2", "prefetsch: 2", 'r2.textproto:7:12: Message type "oneflow.proto.Recipe" has no field named "prefetsch"'),
                ('"full"', '"ful"', 'r2.textproto:6: recompute=ful:1,attention: "ful:1" is not known; did you mean full?'),
                ("batch: 16", 'batch: 16 residual: F64', "r2.textproto:3: residual=f64: is not known; use f32 or bf16"),
                ("size: 2 }", "size: 0 }", 'r2.textproto:2: mesh=pipe=0,data=2: axis "pipe" has size 0'),
                ("steps: 2", "steps: 0", "r2.textproto:10: steps=0: "),
                ("batch: 16", "batch: 16 gather: ONE", "use one of EACH_USE, EACH_MICRO_BATCH, ONCE"),
                ("batch: 16", 'batch: 16 order { stage { task: "F0 X0" } }', "r2.textproto: stage 0"),
                ('"h100"', '"h101"', "--cluster=h101")]:
            with self.subTest(now):
                self.write("r2.textproto", RECIPE.replace(was, now, 1))
                self.assertIn(words, self.compile("--recipe=r2.textproto", code=2)[1])
        self.assertIn("absent.textproto: cannot be read", self.compile("--recipe=absent.textproto", code=2)[1])
        self.compile("--recipe=r.textproto", out="r.plan")
        self.assertIn("--recipe=r.textproto: cannot be given together with --plan: the plan has its recipe",
                      run("simulate", "--plan=r.plan", "--recipe=r.textproto", cwd=self.dir, code=2)[1])

    def test_the_recipe_of_a_plan_makes_the_same_plan(self):
        for flags in [["--batch=4"], FLAGS, ["--mesh=pipe=2", "--batch=4", "--micro_batches=2", "--order=own.order"],
                      ["--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--schedule=zero_bubble", "--cluster=a100", "--fill_memory"],
                      ["--mesh=tensor=2,data=2", "--batch=8", "--cluster=h100", "--memory=1GB", "--reserve=0"],
                      ["--mesh=pipe=2", "--schedule=2bw", "--clip=0", "--batch=4", "--micro_batches=2"],
                      ["--batch=4", "--device=cuda", "--precision=bf16", "--loss_pieces=auto", "--offload=activations:0.5,states"]]:
            with self.subTest(flags):
                self.compile(*flags, out="made.plan")
                run("recipe", "--plan=made.plan", "--out=made.recipe", cwd=self.dir)
                run("compile", "--recipe=made.recipe", "--out=again.plan", cwd=self.dir)
                self.assertEqual(self.read("made.plan"), self.read("again.plan"))
        self.compile(*FLAGS, out="made.plan")
        printed = json.loads(run("recipe", "--plan=made.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual((printed["model"], printed["cluster"]), ({"graph": "made.plan"}, "made.plan"))
        self.assertEqual((printed["recipe"]["batch"], printed["run"]["optimizer"]["learning_rate"]), ("16", 0.001))
        run("recipe", "--plan=made.plan", "--format=json", "--out=made.json", cwd=self.dir)
        self.assertEqual(json.loads(self.read("made.json")), printed)
        self.assertIn("--plan: is missing", run("recipe", cwd=self.dir, code=2)[1])
        self.assertIn("--batch", run("recipe", "--plan=made.plan", "--batch=4", cwd=self.dir, code=2)[1])

    def test_the_recipe_that_flags_say(self):
        run("recipe", *FLAGS[:-1], "--out=said.recipe", cwd=self.dir)
        self.assertIn('recipe {', self.read("said.recipe").decode())
        self.compile("--recipe=said.recipe", "--cluster=h100", out="said.plan")
        self.compile(*FLAGS, out="flags.plan")
        self.assertEqual(self.read("said.plan"), self.read("flags.plan"))
        shown = run("recipe", "--recipe=r.textproto", "--batch=32", "--format=json", cwd=self.dir)
        self.assertEqual(json.loads(shown[0])["recipe"]["batch"], "32")
        self.assertIn("--batch=32 in place of 16", shown[1])
        self.assertIn("--recompute=ful: ", run("recipe", "--recompute=ful", cwd=self.dir, code=2)[1])

    def test_a_plan_keeps_its_cluster(self):
        self.compile(*FLAGS, out="h100.plan")
        simulate = ["simulate", "--plan=h100.plan"]
        self.assertEqual(run(*simulate, cwd=self.dir), run(*simulate, "--cluster=h100", cwd=self.dir))
        self.assertIn("on H100", run("explain", "--plan=h100.plan", cwd=self.dir)[0])
        self.compile("--batch=4", "--device=cuda", out="gpu.plan")
        self.assertIn("--cluster: is missing", run("simulate", "--plan=gpu.plan", cwd=self.dir, code=2)[1])

    def test_a_file_may_say_the_model(self):
        self.write("model.textproto", 'model { family: "gpt" layers: 4 heads: 2 hidden: 32 sequence: 16 vocab: 256 }\nrecipe { batch: 4 }\n')
        run("compile", "--recipe=model.textproto", "--out=model.plan", cwd=self.dir)
        self.compile("--batch=4", out="graph.plan")
        self.assertIn("the plans are alike", run("diff", "model.plan", "graph.plan", cwd=self.dir)[0])


if __name__ == "__main__":
    unittest.main()
