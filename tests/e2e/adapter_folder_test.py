"""Fine-tuning of a folder of Hugging Face and back to one: adapters in PEFT's form, against what peft computed (tests/e2e/hugging_face/
qwen2_adapter, which tools/check_hf --tuning --write_fixtures writes), and the base of a checkpoint that does not hold it."""
import json
import os
import shutil
import unittest

from tests.e2e.hugging_face_case import FIXTURES, Case
from tools.hf_checks import adapter_runs, files

ADAPTER = FIXTURES + "/qwen2_adapter"
QUICK = ["--data=tokens.bin", "--batch=2", "--learning_rate=1e-2", "--epsilon=1e-6"]


class AdapterCase(Case):
    def setUp(self):
        super().setUp()
        with open(ADAPTER + "/expected.json", encoding="utf-8") as file:
            self.expected = json.load(file)
        self.copy("qwen2")
        self.write("tokens.bin", b"".join(t.to_bytes(2, "little") for t in self.expected["tokens"]))

    def copy_adapter(self, name="adapter", change=None, **config):
        folder = f"{self.dir}/{name}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        tensors = files.read_safetensors(ADAPTER + "/adapter_model.safetensors")
        if change is not None:
            change(tensors)
        files.write_safetensors(folder + "/adapter_model.safetensors", tensors)
        with open(ADAPTER + "/adapter_config.json", encoding="utf-8") as file:
            self.write(name + "/adapter_config.json", json.dumps({**json.load(file), **config}))
        return name

    def losses(self, name):
        return [json.loads(line)["loss"] for line in self.read(name).splitlines()]

    def loss(self, checkpoint, *flags):
        return json.loads(self.run_here("eval", "--checkpoint=" + checkpoint, "--data=tokens.bin", "--tokenizer=bytes",
                                        "--format=json", *flags)[0])["loss"]

    def generated(self, checkpoint, *flags):
        return json.loads(self.run_here("generate", "--checkpoint=" + checkpoint, "--prompt=abc", "--tokens=8", "--temperature=0",
                                        "--tokenizer=bytes", "--format=json", *flags)[0])["tokens"]

    def adapt(self, out, steps, *flags):
        self.run_here("train", "--graph=model", "--lora=rank:4,targets:attn", *QUICK, f"--steps={steps}",
                      "--checkpoint_dir=" + out, f"--metrics={out}.jsonl", *flags)


class ParityTest(AdapterCase):
    def test_training_is_that_of_peft(self):
        adapter_runs.check_adapter(self.oneflow, FIXTURES + "/qwen2", ADAPTER, self.expected)
        ours = adapter_runs.tensors(self.dir + "/exported/adapter_model.safetensors")
        adapter_runs.check_tensors(ours, adapter_runs.tensors(ADAPTER + "/tuned/adapter_model.safetensors"))
        config = json.loads(self.read("exported/adapter_config.json"))
        with open(ADAPTER + "/adapter_config.json", encoding="utf-8") as file:
            theirs = json.load(file)
        for key in "peft_type", "r", "lora_alpha", "use_rslora", "bias", "fan_in_fan_out", "task_type":
            self.assertEqual(config[key], theirs[key])
        self.assertEqual(config["target_modules"],
                         ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"])


class FolderTest(AdapterCase):
    def test_from_a_folder_to_a_folder(self):
        self.adapt("straight", 6)
        self.adapt("run", 3)
        self.run_here("train", *QUICK, "--steps=6", "--checkpoint_dir=run", "--resume=true", "--metrics=run.jsonl")
        self.assertEqual(self.losses("run.jsonl"), self.losses("straight.jsonl"))
        variables = files.read_variables(files.step_folder(self.dir + "/run"))
        self.assertTrue(variables and all(".lora_" in name for name in variables), list(variables))
        loss, tokens = self.loss("run"), self.generated("run")

        self.run_here("export", "--checkpoint=run", "--out=adapter")
        self.assertEqual(json.loads(self.read("adapter/adapter_config.json"))["target_modules"],
                         ["k_proj", "o_proj", "q_proj", "v_proj"])
        self.run_here("import", "--from=adapter", "--out=again")  # the adapter names its base
        self.assertEqual((self.loss("again"), self.generated("again")), (loss, tokens))
        self.run_here("export", "--checkpoint=run", "--merge", "--dtype=f32", "--out=merged")
        self.run_here("import", "--from=merged", "--out=of_merged")
        self.assertAlmostEqual(self.loss("of_merged"), loss, delta=1e-5 * loss)
        self.assertEqual(self.generated("of_merged"), tokens)
        self.run_here("export", "--checkpoint=run", "--merge", "--out=narrow")  # in the folder's own type
        self.assertEqual({t[0] for t in files.read_model(self.dir + "/narrow").values()}, {"BF16"})
        self.assertEqual(self.config("narrow"), self.config("model"))

    def test_weights_beside_adapters(self):
        self.adapt("run", 2, "--train_only=h.1.norm_1,h.*.attn.qkv.bias")
        self.run_here("export", "--checkpoint=run", "--merge", "--out=merged")
        self.refuse(["_proj", "modules_to_save of PEFT has all of a module", "--merge"], "export", "--checkpoint=run", "--out=x")
        self.adapt("norms", 2, "--train_only=h.1.norm_1")
        self.run_here("export", "--checkpoint=norms", "--out=adapter")
        self.assertEqual(json.loads(self.read("adapter/adapter_config.json"))["modules_to_save"], ["layers.1.input_layernorm"])
        self.run_here("import", "--from=adapter", "--out=again")
        self.assertEqual(self.loss("again"), self.loss("norms"))

    def test_a_base_is_found_and_verified(self):
        self.adapt("run", 2)
        tokens = self.generated("run")
        os.rename(self.dir + "/model", self.dir + "/moved")
        for verb in ["generate", "--prompt=abc", "--tokenizer=bytes"], ["export", "--out=adapter"]:
            self.refuse(["/model: holds no weights", "--base=FOLDER"], *verb, "--checkpoint=run")
        self.refuse(["/model: holds no weights"], "train", *QUICK, "--steps=3", "--checkpoint_dir=run", "--resume=true")
        self.refuse(["--base=nowhere: holds no weights"], "export", "--checkpoint=run", "--base=nowhere", "--out=adapter")
        self.assertEqual(self.generated("run", "--base=moved"), tokens)
        self.run_here("train", *QUICK, "--steps=3", "--checkpoint_dir=run", "--resume=true", "--base=moved")
        self.generated("run")  # its newest checkpoint says where the base is now
        self.copy("qwen2", "moved", change=lambda t: t.update({name: (d, s, b[:-1] + b"\x01") for name, (d, s, b) in t.items()}))
        self.refuse(["/moved: has other weights than the base", "--base=FOLDER"], "eval", "--checkpoint=run", "--data=tokens.bin",
                    "--tokenizer=bytes")
        self.refuse(["has other weights"], "train", *QUICK, "--steps=4", "--checkpoint_dir=run", "--resume=true")

    def test_a_checkpoint_is_a_base(self):
        self.run_here("import", "--from=model", "--out=imported")
        self.adapt("of_folder", 3)
        begin = ["--init_from=imported", "--lora=rank:4,targets:attn", *QUICK, "--steps=3"]
        error = self.run_here("train", *begin, "--checkpoint_dir=run", "--metrics=run.jsonl")[1]
        self.assertRegex(error, r"the run begins with the weights of imported/step-00000000; those of \d+ variables of \S+ are not "
                                r"trained; 16 variables that it lacks begin with their initial values\n")
        self.assertEqual(self.losses("run.jsonl"), self.losses("of_folder.jsonl"))
        self.assertEqual(self.generated("run"), self.generated("of_folder"))
        self.refuse(["holds the checkpoint of --init_from"], "train", *begin, "--checkpoint_dir=imported")
        # A frozen weight rests in the type of the products that read it.
        self.run_here("train", *begin, "--precision=bf16", "--checkpoint_dir=narrow", "--metrics=narrow.jsonl")
        for ours, wide in zip(self.losses("narrow.jsonl"), self.losses("run.jsonl")):
            self.assertAlmostEqual(ours, wide, delta=0.02 * wide)

    def test_a_folder_that_gives_nothing_is_refused(self):
        train = ["train", "--base=model", "--lora=rank:4,targets:attn", *QUICK, "--steps=1"]
        self.copy("qwen2", "same")
        self.run_here(*train, "--init_from=same")
        self.copy("qwen2", "other", change=lambda t: t.update({name: (d, s, b[:-1] + b"\x01") for name, (d, s, b) in t.items()}))
        self.refuse(["--init_from=other: has none of the variables that are trained, such as h.0.attn.", "is not the base of the graph",
                     "leave out --init_from"], *train, "--init_from=other")

    def test_all_weights_from_a_folder(self):
        flags = [*QUICK, "--steps=3"]
        self.run_here("train", "--init_from=model", *flags, "--checkpoint_dir=run", "--metrics=run.jsonl")
        self.run_here("import", "--from=model", "--out=imported")
        self.run_here("train", "--init_from=imported", *flags, "--checkpoint_dir=other", "--metrics=other.jsonl")
        self.assertEqual(self.losses("run.jsonl"), self.losses("other.jsonl"))
        self.run_here("export", "--checkpoint=run", "--out=tuned")
        self.run_here("export", "--checkpoint=other", "--out=tuned_other")
        self.assertEqual(files.read_model(self.dir + "/tuned"), files.read_model(self.dir + "/tuned_other"))
        self.assertEqual(self.config("tuned"), self.config("model"))
        self.refuse(["--merge", "has no adapters"], "export", "--checkpoint=run", "--merge", "--out=none")
        self.refuse(["--base", "is no adapter"], "import", "--from=model", "--base=model", "--out=none")
        anew = ["train", "--graph=model", *QUICK, "--steps=1"]
        self.assertIn("the weights of model are not read", self.run_here(*anew)[1])
        self.refuse(["--base=model: acts on nothing", "--init_from"], *anew, "--base=model")

    def test_some_weights_from_a_folder(self):
        self.run_here("train", "--init_from=model", "--train_only=h.*.norm_1", *QUICK, "--steps=2", "--checkpoint_dir=run")
        self.assertEqual({n.split("/")[0] for n in files.read_variables(files.step_folder(self.dir + "/run"))},
                         {"h.0.norm_1.weight", "h.1.norm_1.weight"})
        self.run_here("export", "--checkpoint=run", "--out=tuned")
        was, now = files.read_model(self.dir + "/model"), files.read_model(self.dir + "/tuned")
        self.assertEqual({name for name in was if now[name] != was[name]},
                         {f"model.layers.{i}.input_layernorm.weight" for i in range(2)})

    def test_a_tokenizer_of_a_folder_encodes_text(self):
        self.write("text.txt", "#%&*" * 60)  # whose ids are below the model's vocabulary
        train = ["train", "--init_from=model", "--data=text.txt", "--batch=1", "--steps=1", "--checkpoint_dir=run"]
        self.refuse(["text.txt: is text, and the tokenizer of model is not known"], *train)
        self.write("model/tokenizer.json", "{}")
        self.refuse(["the tokenizer of model is not known: model/tokenizer.json"], *train)
        os.remove(self.dir + "/model/tokenizer.json")
        self.copy_tokenizer("model")
        self.run_here(*train)
        self.run_here("export", "--checkpoint=run", "--out=tuned")
        for name in ["vocab.json", "merges.txt", "config.json"]:
            self.assertEqual(self.read("tuned/" + name), self.read("model/" + name))


class RefusalTest(AdapterCase):
    def refuse_import(self, words, *flags, **changes):
        self.copy_adapter(**changes)
        self.refuse(words, "import", "--from=adapter", *(flags or ["--base=model"]), "--out=imported")

    def test_settings_that_have_no_equivalent(self):
        for key, value in [("use_dora", True), ("layers_to_transform", [0]), ("rank_pattern", {"q_proj": 8}),
                           ("alpha_pattern", {"q_proj": 8}), ("bias", "all"), ("init_lora_weights", "pissa"),
                           ("trainable_token_indices", [1]), ("r", 0), ("r", "8"), ("lora_dropout", 1.0)]:
            with self.subTest(key):
                self.refuse_import(["adapter_config.json", f'"{key}"', "has no equivalent here"], **{key: value})
        self.refuse_import(["is of peft_type IA3"], peft_type="IA3")

    def test_files_that_do_not_fit(self):
        name = "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight"
        self.refuse_import([name, "h.1.mlp.up.lora_a", "layers of some blocks"], change=lambda t: t.pop(name))
        self.refuse_import([name, "has the shape [16,8]"], change=lambda t: t.update({name: (t[name][0], [16, 8], t[name][2])}))
        other = "base_model.model.model.embed_tokens.weight"
        self.refuse_import([other, "modules_to_save"], change=lambda t: t.update({other: t[name]}))
        outside = "base_model.model.lm_head.lora_A.weight"
        self.refuse_import([outside, "outside the blocks"], change=lambda t: t.update({outside: t[name]}))
        self.refuse_import(["has the shape"], r=8)

    def test_no_base(self):
        self.copy_adapter()
        self.refuse(["does not say which model it adapts", "--base=FOLDER"], "import", "--from=adapter", "--out=imported")
        self.copy_adapter(base_model_name_or_path="org/name")
        self.refuse(["adapts org/name, which is no folder here"], "import", "--from=adapter", "--out=imported")
        os.remove(self.dir + "/adapter/adapter_model.safetensors")
        self.refuse(["has no adapter_model.safetensors"], "import", "--from=adapter", "--base=model", "--out=imported")
        self.copy_adapter()
        self.refuse(["--sequence", "is not of an adapter"], "import", "--from=adapter", "--base=model", "--sequence=8", "--out=imported")
        self.refuse(["is an adapter", "oneflow import"], "train", "--init_from=adapter", "--data=tokens.bin")


if __name__ == "__main__":
    unittest.main()
