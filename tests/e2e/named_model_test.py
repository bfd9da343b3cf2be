"""A model by its name: config.json, a folder with one, presets and public names, for `model --from` and --graph of planning verbs; what
cannot be built is refused, or approximated for planners."""
import json
import unittest

from tests.e2e.cli import FolderCase, run

LLAMA = {"model_type": "llama", "vocab_size": 256, "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 128,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": True}
NEOX = {"model_type": "gpt_neox", "vocab_size": 256, "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 128,
        "num_attention_heads": 4, "max_position_embeddings": 16, "rotary_pct": 0.25, "hidden_act": "gelu_new"}
PARALLEL = "attention and MLP in parallel, here one after the other: no parameters, no FLOPs"
ROTARY = ("rotary positions of 25 % of a head, here 16 learned ones: -512 parameters, -2,048 bytes of them in f32, "
          "+0 FLOPs a token")


class NamedModelTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("llama.json", json.dumps(LLAMA))
        cls.write("neox.json", json.dumps(NEOX))
        run("model", "--from=neox.json", "--approximate", "--out=neox.textproto", cwd=cls.dir)

    def refuse(self, words, *args):
        error = run(*args, cwd=self.dir, code=2)[1]
        for word in words:
            self.assertIn(word, error)

    def test_a_configuration_is_the_preset_of_its_numbers(self):
        run("model", "llama", "--preset=llama-tiny", "--out=preset.textproto", cwd=self.dir)
        out, told = run("model", "--from=llama.json", "--out=from.textproto", cwd=self.dir)
        self.assertIn("from.textproto: 39072 parameters", out)
        self.assertIn("oneflow: llama.json: llama, 39072 parameters, sequences of 16 tokens, its longest", told)
        self.assertEqual(self.read("from.textproto").replace(b'name: "llama"', b'name: "llama-tiny"', 1),
                         self.read("preset.textproto"))
        out = run("model", "--from=llama.json", "--sequence=8", "--vocab=384", "--out=x.textproto", cwd=self.dir)[0]
        self.assertIn("sequence 8, vocabulary 384", out)

    def test_graphs_of_planning_verbs(self):
        run("compile", "--graph=llama.json", "--batch=4", "--out=json.plan", cwd=self.dir)
        run("compile", "--graph=llama-tiny", "--batch=4", "--out=name.plan", cwd=self.dir)
        run("model", "llama", "--preset=llama-tiny", "--out=tiny.textproto", cwd=self.dir)
        run("compile", "--graph=tiny.textproto", "--batch=4", "--out=file.plan", cwd=self.dir)
        self.assertEqual(self.read("name.plan"), self.read("file.plan"))
        same = run("diff", "json.plan", "name.plan", "--format=json", cwd=self.dir)[0]
        self.assertTrue(json.loads(same))
        told = run("simulate", "--graph=llama-tiny", "--sequence=32", "--batch=4", "--cluster=h100", "--device=cuda", cwd=self.dir)[1]
        self.assertIn("sequences of 32 tokens, and it was published for 16", told)
        run("explain", "--graph=llama-tiny", "--batch=4", cwd=self.dir)

    def test_a_search_writes_a_recipe_of_a_named_model(self):
        search = ["search", "--graph=llama-tiny", "--sequence=8", "--cluster=h100", "--devices=1", "--batch=4", "--budget_seconds=2",
                  "--top=1", "--out_recipe=r.textproto"]
        out = run(*search, cwd=self.dir)[0]
        self.assertIn("--graph=llama-tiny", out)
        self.assertIn(b"sequence: 8", self.read("r.textproto"))
        run("compile", "--recipe=r.textproto", cwd=self.dir)
        self.refuse(["no recipe runs it"], *search, "--graph=neox.json", "--approximate")

    def test_what_cannot_be_built_is_refused_with_all_differences(self):
        for verb in (["model", "--from=neox.json", "--out=x"], ["compile", "--graph=neox.json"]):
            self.refuse(["neox.json: is of type gpt_neox, which differs from what can be built in 2 ways", ROTARY, PARALLEL,
                         "--approximate"], *verb)
        self.refuse(["did you mean llama3.1-8b?"], "compile", "--graph=lama3.1-8b")
        self.refuse(["is no file, no folder, and no name"], "compile", "--graph=xyzzy")

    def test_a_planner_takes_the_nearest(self):
        told = run("compile", "--graph=neox.json", "--approximate", "--batch=4", "--out=neox.plan", cwd=self.dir)[1]
        for line in ("gpt_neox, 41856 parameters", "approximated by a model of the family gpt with 42368 parameters", ROTARY, PARALLEL):
            self.assertIn(line, told)
        told = run("explain", "--graph=neox.textproto", "--batch=4", cwd=self.dir)[1]
        self.assertIn("neox.textproto: gpt_neox (approximate), which differs from its model in 2 ways", told)
        run("verify", "--plan=neox.plan", cwd=self.dir)

    def test_it_is_not_run(self):
        self.write("text.txt", "a text " * 100)
        run("compile", "--graph=neox.textproto", "--batch=4", "--out=trained.plan", cwd=self.dir)
        for given in ("--graph=neox.textproto", "--plan=trained.plan"):
            self.refuse(['graph "gpt_neox (approximate)": approximates a model that differs from it in 2 ways', "no training runs it"],
                        "train", given, "--data=text.txt", "--steps=1")
            self.refuse(["no job runs it"], "submit", given, "--data=text.txt", "--steps=1", "--job_dir=job", "--engine=local")
            self.refuse(["no run runs it"], "run", given)
        self.refuse(["--approximate"], "train", "--graph=neox.json", "--approximate", "--data=text.txt", "--steps=1")

    def test_flags_beside_a_model(self):
        for words, args in [
                (["--hidden=64: is a number of the model that llama.json says"], ["--from=llama.json", "--hidden=64"]),
                (['is given beside the family "llama"'], ["llama", "--from=llama.json"]),
                (["is given beside --preset=llama-tiny"], ["--from=llama.json", "--preset=llama-tiny"]),
                (["--approximate: acts on nothing without --from"], ["llama", "--approximate"])]:
            self.refuse(words, "model", *args, "--out=x")
        self.refuse(["--sequence: acts on nothing: neox.textproto is a graph that is made already"],
                    "compile", "--graph=neox.textproto", "--sequence=8")
        self.refuse(["--sequence", "cannot be given together with --plan"], "train", "--plan=x.plan", "--sequence=8")


if __name__ == "__main__":
    unittest.main()
