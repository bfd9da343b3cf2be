"""Folders that `oneflow import` reads in spite of something, folders that it refuses, and what comes out of `export` again."""
import json
import os
import shutil
import unittest

from tests.e2e.hugging_face_case import FIXTURES, Case
from tools.hf_checks import files

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4\n"


class FolderTest(Case):
    """Folders that are read in spite of something, and folders that are refused."""

    def take(self, name, *flags):
        shutil.rmtree(self.dir + "/out", ignore_errors=True)
        self.run_here("import", "--from=" + name, "--out=out", *flags)
        return files.read_variables(files.step_folder(self.dir + "/out"))

    def test_buffers_are_ignored_and_a_tied_head_is_compared(self):
        plain = self.take(self.copy("gpt2"))

        def add(tensors):
            tensors["transformer.h.0.attn.bias"] = ("BOOL", [1, 1, 2, 2], b"\1\0\1\1")
            tensors["h.1.attn.masked_bias"] = ("F32", [], b"\0\0\0\0")
            tensors["lm_head.weight"] = tensors["transformer.wte.weight"]

        self.assertEqual(self.take(self.copy("gpt2", change=add)), plain)

        def differ(tensors):
            dtype, shape, data = tensors["transformer.wte.weight"]
            tensors["lm_head.weight"] = (dtype, shape, data[:-1] + bytes([data[-1] ^ 1]))

        self.refuse(['tensor "lm_head.weight": differs from "transformer.wte.weight"', '"tie_word_embeddings": true'],
                    "import", "--from=" + self.copy("gpt2", change=differ), "--out=x")
        untied = self.take(self.copy("gpt2", change=differ, tie_word_embeddings=False))
        self.assertNotEqual(untied["head.weight"], untied["wte"])

    def test_elements_of_f16_and_f32(self):
        def widen(tensors):
            for name, (dtype, shape, data) in list(tensors.items()):
                tensors[name] = ("F32", shape, files.floats(dtype, data).tobytes())

        plain = self.take(self.copy("gpt2"))
        self.assertEqual(self.take(self.copy("gpt2", change=widen)), plain)
        self.run_here("export", "--checkpoint=out", "--out=default")
        self.assertEqual(files.read_model(self.dir + "/default"), files.read_model(self.dir + "/model"))
        self.assertEqual(self.config("default"), self.config("model"))
        self.run_here("export", "--checkpoint=out", "--out=half", "--dtype=f16")
        self.assertEqual(self.config("half"), dict(self.config("model"), dtype="float16"))
        for name, (dtype, _, data) in files.read_model(self.dir + "/half").items():
            self.assertEqual(dtype, "F16")
            # Weights of bf16 that f16 rounds are small.
            original = files.floats(*files.read_model(self.dir + "/model")[name][::2])
            for a, b in zip(files.floats(dtype, data), original, strict=True):
                self.assertLessEqual(abs(a - b), 2**-11 * max(abs(b), 2**-14))

    def test_tensors_that_do_not_fit_are_named(self):
        def changed(change):
            return ["import", "--from=" + self.copy("gpt2", change=change), "--out=x"]

        self.refuse(['has no tensor "transformer.h.1.ln_2.bias", for variable h.1.ln_2.bias'],
                    *changed(lambda t: t.pop("transformer.h.1.ln_2.bias")))
        self.refuse(['has tensor "transformer.h.1.x" [1] and 1 more, which the model of config.json does not have'],
                    *changed(lambda t: t.update({"transformer.h.1.x": ("F32", [1], bytes(4)),
                                                 "transformer.h.2.x": ("F32", [1], bytes(4))})))
        self.run_here("import", "--from=" + self.copy("gpt2", change=lambda t: t.update({"empty": ("F32", [32, 0], b"")})), "--out=y")
        self.refuse(['tensor "transformer.ln_f.bias": has the shape [4,8], and the model of config.json [32]'],
                    *changed(lambda t: t.update({"transformer.ln_f.bias": ("F32", [4, 8], bytes(128))})))
        self.refuse(['tensor "transformer.ln_f.bias": has elements of type I32'],
                    *changed(lambda t: t.update({"transformer.ln_f.bias": ("I32", [32], bytes(128))})))
        self.refuse(['has two tensors of one meaning: "ln_f.bias" and "transformer.ln_f.bias"'],
                    *changed(lambda t: t.update({"ln_f.bias": ("F32", [32], bytes(128))})))

    def test_experts_that_do_not_fit_are_named(self):
        tensor = "model.layers.1.mlp.experts.7.up_proj.weight"
        self.refuse([f'has no tensor "{tensor}", for variable h.1.mlp.experts.up.weight'],
                    "import", "--from=" + self.copy("qwen3_moe", change=lambda t: t.pop(tensor)), "--out=x")
        self.refuse(['block_sparse_moe.gate.weight": has the shape [4,32], and the model of config.json [3,32]'],
                    "import", "--from=" + self.copy("mixtral", num_local_experts=3), "--out=x")
        self.refuse(['has no tensor "model.layers.0.mlp.gate.weight", for variable h.0.mlp.router.weight'],
                    "import", "--from=" + self.copy("qwen3_moe", mlp_only_layers=[]), "--out=x")

    def test_folders_without_a_model(self):
        self.refuse(["--from: is missing"], "import", "--out=x")
        self.refuse(["--out: is missing"], "import", "--from=x")
        self.refuse(["none: there is no such folder", "hf download"], "import", "--from=none", "--out=x")
        self.copy("gpt2")
        os.remove(self.dir + "/model/model.safetensors")
        self.refuse(["model: has neither model.safetensors nor model.safetensors.index.json"], "import", "--from=model",
                    "--out=x")
        self.write("model/pytorch_model.bin", "x")
        self.refuse(["weights of torch's own format", "save_pretrained"], "import", "--from=model", "--out=x")
        self.write("model/model.safetensors", "x" * 100)
        self.refuse(["model/model.safetensors: its header has"], "import", "--from=model", "--out=x")
        self.copy("gpt2", n_head=5)
        self.refuse(['config.json: "n_head": 5 does not divide "n_embd": 32'], "import", "--from=model", "--out=x")

    def test_flags_of_import(self):
        model = f"--from={FIXTURES}/gpt2"
        self.refuse(["--pad_vocab=127: is less than the 128 tokens of the model"], "import", model, "--out=x", "--pad_vocab=127")
        self.refuse(["--pad_vocab=x"], "import", model, "--out=x", "--pad_vocab=x")
        self.refuse(["--sequence=64: is not 96, for which this model has embedded positions"], "import", model, "--out=x",
                    "--sequence=64")
        self.refuse(["--sequence=97: is more than the 96 positions of the model"], "import", model, "--out=x", "--sequence=97")
        self.refuse(["--sequence=0: is out of range"], "import", model, "--out=x", "--sequence=0")
        self.run_here("import", model, "--out=x")
        self.refuse(["--out=x: holds checkpoints already; name a new folder"], "import", model, "--out=x")

    def test_shards_and_their_index(self):
        self.run_here("import", f"--from={FIXTURES}/gpt2", "--out=imported")
        self.run_here("export", "--checkpoint=imported", "--shard_bytes=20000", "--out=shards")
        names = sorted(name for name in os.listdir(self.dir + "/shards") if name.endswith(".safetensors"))
        self.assertEqual(names, [f"model-{i:05}-of-00004.safetensors" for i in range(1, 5)])
        for name in names:
            self.assertLess(os.path.getsize(f"{self.dir}/shards/{name}"), 20000 + 3000)
        path = self.dir + "/shards/model.safetensors.index.json"
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        self.assertEqual(index["metadata"]["total_size"], sum(len(t[2]) for t in files.read_model(self.dir + "/shards").values()))
        # The headers say where tensors are: an index may name one for another file, or one that is not used and nowhere.
        moved = dict(index["weight_map"], **{"transformer.wte.weight": names[3], "lm_head.weight": names[0], "x": names[1]})
        self.write("shards/model.safetensors.index.json", json.dumps({"weight_map": moved}))
        self.run_here("import", "--from=shards", "--out=moved")
        # Not each release of transformers reads a tensor that the index leaves out.
        fewer = {name: file for name, file in index["weight_map"].items() if name != "transformer.ln_f.bias"}
        absent = {name: names[0] for name in index["weight_map"]}
        for words, text in [
                (['has no tensor "transformer.h.', ": its index names it for " + names[0] + ", which does not have it"],
                 json.dumps({"weight_map": absent})),
                (['does not name tensor "transformer.ln_f.bias", which ' + names[3] + " has"],
                 json.dumps({"weight_map": fewer})),
                (['"weight_map" is missing'], "{}"),
                (['tensor "x" has no name of a file in the folder'], '{"weight_map": {"x": "../y"}}'),
                (["names none.safetensors, and 1 of its 1 files is missing; get all files of the model"],
                 '{"weight_map": {"x": "none.safetensors"}}'),
                (['"x" has two values in one object'], '{"weight_map": {"x": "a", "x": "b"}}'),
                (["is no JSON"], "{"),
        ]:
            with self.subTest(words):
                self.write("shards/model.safetensors.index.json", text)
                self.refuse(words, "import", "--from=shards", "--out=x")


class WordsTest(Case):
    """What is refused in the words of its cause."""

    def refuse_import(self, *words, name="model"):
        self.refuse(words, "import", "--from=" + name, "--out=refused")

    def test_pointers_of_git_lfs_and_links_that_lead_nowhere(self):
        for name in ["model.safetensors", "model.safetensors.index.json", "config.json", "generation_config.json",
                     "tokenizer_config.json", "chat_template.jinja"]:
            with self.subTest(name):
                self.copy("gpt2")
                path = f"{self.dir}/model/{name}"
                if name.endswith(".index.json"):
                    os.remove(self.dir + "/model/model.safetensors")
                self.write("model/" + name, POINTER)
                self.refuse_import(f"model/{name}: is a pointer of Git LFS, not the file itself; run `git lfs pull`")
                os.remove(path)
                os.symlink("../blobs/0123", path)
                self.refuse_import(f"model/{name}: is a link to ../blobs/0123, which is missing")
        self.copy("gpt2")
        self.write("model/tokenizer.json", POINTER)
        self.refuse_import("model/tokenizer.json: is a pointer of Git LFS")
        # Nobody misses these.
        self.copy("gpt2")
        for name in ["notes.txt", "results.json", "README.md"]:
            os.symlink("../blobs/0123", f"{self.dir}/model/{name}")
        self.write("model/pointer.txt", POINTER)
        error = self.run_here("import", "--from=model", "--out=left")[1]
        self.assertIn("not imported from model: README.md, notes.txt, pointer.txt, results.json\n", error)

    def test_other_files_under_the_name_of_weights(self):
        self.copy("gpt2")
        self.write("model/model.safetensors", "<!DOCTYPE html><html><body>404</body></html>")
        self.refuse_import("model/model.safetensors: its header has", 'it begins with "<!DOCTYP"')

    def test_weights_of_other_formats_are_named(self):
        for name, words in [("pytorch_model.bin", "weights of torch's own format"), ("consolidated.00.pth", "weights of torch"),
                            ("model-q4.gguf", "weights of llama.cpp"), ("adapter_model.safetensors", "an adapter without"),
                            ("zero_to_fp32.py", "a checkpoint of DeepSpeed ZeRO"),
                            ("consolidated.safetensors", "weights under another name")]:
            with self.subTest(name):
                self.copy("gpt2")
                os.rename(self.dir + "/model/model.safetensors", f"{self.dir}/model/{name}")
                self.refuse_import("has neither model.safetensors nor model.safetensors.index.json, but " + words, name)
                os.remove(self.dir + "/model/config.json")
                self.refuse_import("model: has no config.json, but " + words, name)
                self.refuse_import(f"model/{name}: is a file, and a model is a folder", name="model/" + name)

    def test_tensors_without_elements_and_quantized_ones(self):
        name = "model.layers.0.self_attn.q_proj.weight"

        def changed(change):
            return self.copy("llama", change=change)

        self.refuse_import(f'tensor "{name}": has the shape [0], no elements', "ZeRO-3",
                           name=changed(lambda t: t.update({name: ("BF16", [0], b"")})))
        self.refuse_import(f'tensor "{name}": has elements of type U8', "quantized",
                           name=changed(lambda t: t.update({name: ("U8", [16, 1], bytes(16))})))

        def pack(tensors):
            tensors[name.replace("weight", "qweight")] = ("I32", [4], bytes(16))
            tensors.pop(name)

        self.refuse_import(f'has no tensor "{name}"', 'q_proj.qweight" of I32', "quantized", name=changed(pack))
        self.copy("llama", quantization_config={"quant_method": "gptq"})
        self.refuse_import('"quantization_config"', "not quantized")

    def test_a_cache_of_the_hub(self):
        self.copy("gpt2", name="hub/models--org--name/snapshots/0123")
        cache = "hub/models--org--name"
        self.write(cache + "/refs/main", "0123")
        for name in [cache, cache + "/", cache + "/snapshots", cache + "/snapshots/0123"]:
            shutil.rmtree(self.dir + "/x", ignore_errors=True)
            error = self.run_here("import", "--from=" + name, "--out=x")[1]
            self.assertEqual("hub/models--org--name/snapshots/0123\n" in error, not name.endswith("0123"))
        self.refuse_import("hub: has no config.json: it is a cache of the hub", "hub/models--org--name", name="hub")
        self.write(cache + "/refs/main", "4567")
        self.refuse_import("with 1 snapshots, and refs/main names none of them", "snapshots/0123", name=cache)
        self.refuse_import("x: has no config.json", "imported already", name="x")

    def test_a_folder_of_hugging_face_as_a_checkpoint(self):
        self.copy("gpt2")
        words = ["model: is a model's folder of Hugging Face, and no checkpoint", "`oneflow import --from=model --out=FOLDER`"]
        self.refuse(words, "generate", "--checkpoint=model", "--prompt=a")
        self.refuse(words, "export", "--checkpoint=model", "--out=x")

    def test_a_folder_as_tokenizer(self):
        self.copy_tokenizer("t")
        self.write("text.txt", "some words to learn from. " * 50)
        self.run_here("data", "--text=text.txt", "--tokenizer=t", "--out=a")
        self.run_here("data", "--text=text.txt", "--tokenizer=gpt2:t", "--out=b")
        for name in ["train.bin", "tokenizer/vocab.json", "tokenizer/merges.txt"]:
            with open(f"{self.dir}/a/{name}", "rb") as one, open(f"{self.dir}/b/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read())
        os.mkdir(self.dir + "/empty")
        self.refuse(["--tokenizer=empty: has no files of a tokenizer; give a folder with tokenizer.json"], "data",
                    "--text=text.txt", "--tokenizer=empty", "--out=c")


class BesideWeightsTest(Case):
    """What lies beside the weights comes out again."""

    def setUp(self):
        super().setUp()
        self.copy("gpt2", eos_token_id=5, pad_token_id=7, odd=float("inf"))
        self.copy_tokenizer("model")
        for name in ["tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "generation_config.json",
                     "additional_chat_templates/tools.jinja", "README.md", "LICENSE", "spiece.model", "added.txt"]:
            self.write("model/" + name, '{"name": "' + name + '"}')
        self.carried = sorted(os.path.relpath(os.path.join(at, name), self.dir + "/model")
                              for at, _, names in os.walk(self.dir + "/model") for name in names)
        for name in ["modeling_x.py", "pytorch_model.bin", "adapter_config.json", "pytorch_model.bin.index.json",
                     "original/params.json", ".gitattributes"]:
            self.write("model/" + name, "{}")
        self.write("model/large.txt", "x" * ((16 << 20) + 1))
        self.write("text.txt", "#%&*" * 60)  # whose ids are below the model's vocabulary

    def check(self, folder, change=lambda name, text: text):
        exported = sorted(os.path.relpath(os.path.join(at, name), f"{self.dir}/{folder}")
                          for at, _, names in os.walk(f"{self.dir}/{folder}") for name in names)
        self.assertEqual(exported, self.carried)
        for name in exported:
            if not name.endswith(".safetensors"):
                self.assertEqual(self.read(f"{folder}/{name}"), change(name, self.read("model/" + name)), name)

    def test_through_import_train_resume_processes_and_export(self):
        error = self.run_here("import", "--from=model", "--out=imported")[1]
        self.assertIn("oneflow: not imported from model: adapter_config.json, large.txt, modeling_x.py, original/, "
                      "pytorch_model.bin, pytorch_model.bin.index.json\n", error)
        error = self.run_here("export", "--checkpoint=imported", "--out=same")[1]
        self.assertEqual(error, "")
        self.check("same")
        self.assertEqual(files.read_model(self.dir + "/same"), files.read_model(self.dir + "/model"))
        train = ["train", "--init_from=imported", "--data=text.txt", "--batch=2", "--steps=1", "--checkpoint_dir=tuned",
                 "--mesh=data=2"]
        self.run_here(*train, "--processes=2")
        self.run_here(train[0], *train[2:], "--graph=" + self.oneflow.graph("imported"), "--resume", "--steps=2")
        # A run that begins with the weights of a run.
        self.run_here(*train, "--init_from=tuned", "--checkpoint_dir=again")
        self.run_here("export", "--checkpoint=again", "--out=tuned_model")
        self.check("tuned_model")
        self.run_here("export", "--checkpoint=again", "--dtype=f16", "--out=half")
        dtype = json.loads(self.read("model/config.json"))["dtype"]
        self.assertEqual(dtype, "bfloat16")
        self.assertEqual(self.config("half"), dict(self.config("model"), dtype="float16"))
        # The files are verified as the slices are.
        path = files.step_folder(self.dir + "/again") + "/model/README.md"
        with open(path, "r+b") as file:
            file.write(b"?")
        self.refuse(["model/README.md: is damaged"], "export", "--checkpoint=again", "--out=x")

    def test_a_tokenizer_whose_ends_are_in_other_files(self):
        os.remove(self.dir + "/model/tokenizer_config.json")
        os.remove(self.dir + "/model/special_tokens_map.json")
        self.carried = [name for name in self.carried if os.path.exists(f"{self.dir}/model/{name}")]
        self.write("model/generation_config.json", '{"eos_token_id": [5, 6]}')
        self.run_here("import", "--from=model", "--out=imported")
        self.run_here("export", "--checkpoint=imported", "--out=same")
        self.check("same")

    def test_a_tokenizer_of_the_run_replaces_one_that_could_not_be_read(self):
        os.remove(self.dir + "/model/vocab.json")
        os.remove(self.dir + "/model/merges.txt")
        self.write("model/tokenizer.json", "{}")
        self.copy_tokenizer("t")
        self.run_here("import", "--from=model", "--out=imported")
        self.run_here("train", "--init_from=imported", "--data=text.txt", "--tokenizer=t", "--batch=2", "--steps=1",
                      "--checkpoint_dir=tuned")
        self.run_here("export", "--checkpoint=tuned", "--out=out")
        self.assertTrue(os.path.exists(self.dir + "/out/vocab.json"))
        self.assertFalse(os.path.exists(self.dir + "/out/tokenizer.json"))
        self.assertTrue(os.path.exists(self.dir + "/out/tokenizer_config.json"))


class ElementsTest(Case):
    def test_tensors_keep_their_types(self):
        def widen(tensors):
            for name, (_, shape, _) in tensors.items():
                if "ln_" in name:
                    count = shape[0]
                    tensors[name] = ("F32", shape, (b"\0\x20\x80\x3f" * count))  # 1.0009765625

        self.copy("gpt2", change=widen)
        self.run_here("import", "--from=model", "--out=imported")
        error = self.run_here("export", "--checkpoint=imported", "--out=same")[1]
        self.assertEqual(error, "")
        self.assertEqual(files.read_model(self.dir + "/same"), files.read_model(self.dir + "/model"))
        error = self.run_here("export", "--checkpoint=imported", "--out=narrow", "--dtype=bf16")[1]
        self.assertIn("warning: 10 tensors that were imported as f32 are rounded to bf16; without --dtype they keep", error)
        self.assertEqual({dtype for dtype, _, _ in files.read_model(self.dir + "/narrow").values()}, {"BF16"})
        error = self.run_here("export", "--checkpoint=imported", "--out=half", "--dtype=f16")[1]
        self.assertRegex(error, "warning: [0-9]+ tensors that were imported as bf16 are rounded to f16;")
        self.assertIn("warning: 10 tensors that were imported as f32 are rounded to f16;", error)
        self.assertEqual(self.run_here("export", "--checkpoint=imported", "--out=wide", "--dtype=f32")[1], "")

    def test_a_half_that_the_other_half_cannot_hold_is_reported(self):
        def change(tensors):
            _, shape, _ = tensors["transformer.ln_f.weight"]
            tensors["transformer.ln_f.weight"] = ("F16", shape, b"\x01\x3c" * shape[0])

        self.copy("gpt2", change=change)
        self.run_here("import", "--from=model", "--out=imported")
        error = self.run_here("export", "--checkpoint=imported", "--out=narrow", "--dtype=bf16")[1]
        self.assertEqual(error, "oneflow: warning: 1 tensor that was imported as f16 is rounded to bf16; without --dtype it keeps its "
                                "type\n")

    def test_values_that_are_not_finite_are_reported(self):
        def spoil(tensors):
            for name, value in [("transformer.h.1.attn.c_attn.weight", b"\x80\x7f" * 2 + b"\xc0\x7f"),
                                ("transformer.ln_f.bias", b"\x80\xff")]:
                dtype, shape, data = tensors[name]
                tensors[name] = (dtype, shape, data[:6] + value + data[6 + len(value):])

        self.copy("gpt2", change=spoil)
        error = self.run_here("import", "--from=model", "--out=imported")[1]
        elements = files.read_model(self.dir + "/model")["transformer.h.1.attn.c_attn.weight"][1]
        self.assertIn(f"warning: model/model.safetensors: tensor transformer.h.1.attn.c_attn.weight has 2 infinite values and "
                      f"1 NaNs among {elements[0] * elements[1]}\n", error)
        self.assertIn("tensor transformer.ln_f.bias has 1 infinite values and 0 NaNs among 32\n", error)
        self.run_here("export", "--checkpoint=imported", "--out=same")
        self.assertEqual(files.read_model(self.dir + "/same"), files.read_model(self.dir + "/model"))

    def test_a_tied_head_alone(self):
        self.run_here("import", f"--from={FIXTURES}/gpt2", "--out=plain")

        def rename(tensors):
            tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")

        self.run_here("import", "--from=" + self.copy("gpt2", change=rename), "--out=head")
        self.assertEqual(*(files.read_variables(files.step_folder(f"{self.dir}/{name}")) for name in ("plain", "head")))
        self.refuse(['has no tensor "transformer.wte.weight"'], "import", "--out=x",
                    "--from=" + self.copy("gpt2", change=rename, tie_word_embeddings=False))

    def test_the_text_part_of_a_model_for_images(self):
        self.run_here("import", f"--from={FIXTURES}/gemma3_text", "--out=text")
        with open(f"{FIXTURES}/gemma3_text/config.json", encoding="utf-8") as file:
            config = json.load(file)
        for begin, others in [("language_model.model.", ["vision_tower.a", "multi_modal_projector.b"]),
                              ("model.language_model.", ["model.vision_tower.a", "model.vision_tower.c"])]:
            def rename(tensors, begin=begin, others=others):
                for name in list(tensors):
                    tensors[name.replace("model.", begin, 1)] = tensors.pop(name)
                tensors.update({name: ("BF16", [2], bytes(4)) for name in others})

            self.copy("gemma3_text", change=rename)
            self.write("model/config.json", json.dumps({"model_type": "gemma3", "text_config": config, "vision_config": {}}))
            shutil.rmtree(self.dir + "/imported", ignore_errors=True)
            error = self.run_here("import", "--from=model", "--out=imported")[1]
            self.assertIn("not imported from model: ", error)
            self.assertIn("tensors of vision_tower." if "model.vision_tower.c" in others else "1 tensors of multi_modal", error)
            self.assertEqual(*(files.read_variables(files.step_folder(f"{self.dir}/{name}")) for name in ("text", "imported")))
        # What is exported is a model of text.
        self.run_here("export", "--checkpoint=imported", "--out=out")
        self.assertEqual(files.read_model(self.dir + "/out"), files.read_model(f"{FIXTURES}/gemma3_text"))
        self.assertEqual(self.config("out")["model_type"], "gemma3_text")
        self.run_here("import", "--from=out", "--out=back")
        self.assertEqual(*(files.read_variables(files.step_folder(f"{self.dir}/{name}")) for name in ("text", "back")))

    def test_heads_that_do_not_divide_the_width(self):
        # Releases 5 of transformers refuse a llama of such heads, and take a mistral, which computes the same.
        self.write("text.txt", "some words to learn from. " * 50)
        self.run_here("model", "llama", "--layers=1", "--hidden=32", "--inner=32", "--groups=3", "--heads=3", "--head_dim=6",
                      "--sequence=16", "--vocab=256", "--out=g.textproto")
        self.run_here("train", "--graph=g.textproto", "--data=text.txt", "--batch=2", "--steps=1", "--checkpoint_dir=run")
        self.run_here("export", "--checkpoint=run", "--out=out")
        config = self.config("out")
        self.assertEqual([config[key] for key in ("model_type", "architectures", "head_dim", "sliding_window")],
                         ["mistral", ["MistralForCausalLM"], 6, None])
        self.run_here("import", "--from=out", "--out=back")
        trained = files.read_variables(files.step_folder(self.dir + "/run"))
        for name, variable in files.read_variables(files.step_folder(self.dir + "/back")).items():
            self.assertEqual(variable, trained[name])
        # An imported one keeps its type.
        self.write("out/config.json", json.dumps(dict(config, model_type="llama", architectures=["LlamaForCausalLM"])))
        self.run_here("import", "--from=out", "--out=llama")
        self.run_here("export", "--checkpoint=llama", "--out=llama_out")
        self.assertEqual(self.config("llama_out")["model_type"], "llama")


if __name__ == "__main__":
    unittest.main()
