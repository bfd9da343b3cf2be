"""`oneflow import` and `export`, against what transformers computed with small models (tests/e2e/hugging_face, which
tools/check_hf writes), and what they refuse."""
import array
import json
import math
import os
import shutil
import struct
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run
from tools.hf_checks import files, oneflow_runs

FIXTURES = os.path.abspath("tests/e2e/hugging_face")
FAMILIES = ["gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"]
TOKENIZER = os.path.abspath("actor_runtime/tokenizer/testdata")


def expected(family):
    with open(f"{FIXTURES}/{family}/expected.json", encoding="utf-8") as file:
        return json.load(file)


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.oneflow = oneflow_runs.Oneflow(ONEFLOW, self.dir)

    def run_here(self, *args):
        return run(*args, cwd=self.dir)

    def refuse(self, words, *args):
        error = run(*args, cwd=self.dir, code=2)[1]
        self.assertIn("oneflow: error: ", error)
        for word in words:
            self.assertIn(word, error)

    def copy(self, family, name="model", change=None, **config):
        """A copy of a fixture, with changes of its tensors and its configuration."""
        folder = f"{self.dir}/{name}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        tensors = files.read_model(f"{FIXTURES}/{family}")
        if change is not None:
            change(tensors)
        files.write_safetensors(folder + "/model.safetensors", tensors)
        with open(f"{FIXTURES}/{family}/config.json", encoding="utf-8") as file:
            json_config = {**json.load(file), **config}
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(json_config, file)
        return name

    def config(self, folder):
        with open(f"{self.dir}/{folder}/config.json", encoding="utf-8") as file:
            return json.load(file)


class FamiliesTest(Case):
    def test_results_are_those_of_transformers(self):
        for family in FAMILIES:
            with self.subTest(family):
                self.setUp()
                line = oneflow_runs.check_model(self.oneflow, f"{FIXTURES}/{family}", expected(family))
                self.assertIn("64 greedy tokens", line)

    def evaluate(self, code=0, checkpoint="imported"):
        return run("eval", "--checkpoint=" + checkpoint, "--data=tokens.bin", "--format=json", "--tokenizer=bytes", cwd=self.dir, code=code)

    def test_evaluations_are_those_of_transformers(self):
        for family in FAMILIES:
            with self.subTest(family):
                self.setUp()
                with open(self.dir + "/tokens.bin", "wb") as file:
                    file.write(array.array("H", expected(family)["batch"]).tobytes())
                self.run_here("import", f"--from={FIXTURES}/{family}", "--out=imported")
                result = json.loads(self.evaluate()[0])
                self.assertEqual(result["labels"], len(expected(family)["batch"]) - 1)
                self.assertAlmostEqual(result["loss"], expected(family)["loss"], delta=2e-5)
        self.run_here("import", f"--from={FIXTURES}/{FAMILIES[-1]}", "--pad_vocab=4096", "--out=padded")
        self.assertIn("is padded to 4096, and the loss is one over all of these", self.evaluate(checkpoint="padded")[1])

    def test_weights_that_are_not_finite_are_to_blame(self):
        def spoil(tensors):
            name = next(name for name in tensors if name.endswith("ln_1.weight"))
            dtype, dims, data = tensors[name]
            tensors[name] = (dtype, dims, struct.pack("<f", math.nan) + data[4:])

        self.copy("gpt2", change=spoil)
        with open(self.dir + "/tokens.bin", "wb") as file:
            file.write(array.array("H", expected("gpt2")["batch"]).tobytes())
        self.run_here("import", "--from=model", "--out=imported")
        found = "h.0.ln_1.weight has values that are not finite, NaN or infinity"
        self.assertIn(found, self.evaluate(code=2)[1])
        error = run("train", "--init_from=imported", "--data=tokens.bin", "--batch=1", "--steps=2", cwd=self.dir, code=1)[1]
        self.assertIn(f"step-00000000: {found}: begin with other weights", error)
        self.assertIn("2 steps were skipped, for their loss or gradient was not finite; the first is step 1, before any update", error)
        self.assertNotIn("lower --learning_rate", error)

    def test_names_with_prefix_and_without(self):
        for family in FAMILIES:
            self.setUp()
            self.run_here("import", f"--from={FIXTURES}/{family}", "--out=original")

            def strip(tensors):
                for name in list(tensors):
                    tensors[name.removeprefix("transformer.").removeprefix("model.")] = tensors.pop(name)

            self.run_here("import", "--from=" + self.copy(family, change=strip), "--out=stripped")
            self.assertEqual(*(files.read_variables(files.step_folder(f"{self.dir}/{name}"))
                               for name in ("original", "stripped")))


class PaddedTest(Case):
    """A vocabulary of 128 tokens in 160 rows."""

    def setUp(self):
        super().setUp()
        line = self.run_here("import", f"--from={FIXTURES}/gpt2", "--pad_vocab=160", "--out=padded")[0]
        self.assertIn("vocabulary 128, padded to 160", line)

    def test_results_are_the_same_and_padding_is_neither_drawn_nor_exported(self):
        wanted = expected("gpt2")
        logits = self.oneflow.logits("padded", wanted["batch"][:18], wanted["sequence"])[17]
        self.assertEqual(len(logits), 160)
        self.assertEqual(logits[128:], [0.0] * 32)
        oneflow_runs.check_close("logits", logits[:128], wanted["logits"][wanted["logits_at"].index(17)])
        self.assertEqual(self.oneflow.generate("padded", wanted["prompt"], 64)["tokens"], wanted["greedy"])
        drawn = self.oneflow.generate("padded", wanted["prompt"], 64, temperature=1000)
        self.assertLess(max(drawn["tokens"]), 128)
        self.run_here("export", "--checkpoint=padded", "--out=exported")
        self.assertEqual(files.read_model(self.dir + "/exported"), files.read_model(FIXTURES + "/gpt2"))

    def test_a_run_hands_the_vocabulary_on(self):
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 50)
        train = ["train", "--graph=" + self.oneflow.graph("padded"), "--data=text.txt", "--batch=2", "--checkpoint_dir=tuned"]
        # The graph of the checkpoint is that of the run.
        error = self.run_here(train[0], *train[2:], "--init_from=padded", "--steps=1")[1]
        self.assertIn("the run begins with the weights of padded/step-00000000", error)
        self.run_here(*train, "--resume", "--steps=2")
        self.run_here("export", "--checkpoint=tuned", "--dtype=f32", "--out=exported")
        dtype, shape, _ = files.read_model(self.dir + "/exported")["transformer.wte.weight"]
        self.assertEqual((dtype, shape), ("F32", [128, 32]))
        self.assertEqual(self.config("exported")["vocab_size"], 128)
        with open(self.dir + "/text.txt", "wb") as text:
            text.write(b"x" * 200 + bytes([130]) + b"x" * 200)
        self.refuse(["text.txt", "130"], *train, "--init_from=padded", "--steps=1")


class TrainTest(Case):
    def setUp(self):
        super().setUp()
        self.run_here("import", f"--from={FIXTURES}/gpt2", "--out=imported")
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 50)
        self.train = ["train", "--graph=" + self.oneflow.graph("imported"), "--data=text.txt", "--batch=4", "--micro_batches=2",
                      "--steps=2", "--metrics=metrics.jsonl"]

    def losses(self, *flags):
        self.run_here(*self.train, *flags)
        with open(self.dir + "/metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file if '"loss"' in line]

    def test_a_run_begins_with_the_weights_on_any_mesh_and_in_many_processes(self):
        one = self.losses("--init_from=imported")
        self.assertEqual(self.losses("--init_from=imported/step-00000000", "--mesh=pipe=2"), one)
        self.assertEqual(self.losses("--init_from=imported", "--mesh=pipe=2", "--processes=2"), one)
        for loss, other in zip(one, self.losses("--init_from=imported", "--mesh=tensor=2"), strict=True):
            self.assertAlmostEqual(loss, other, places=4)
        self.assertNotAlmostEqual(self.losses()[0], one[0], places=2)

    def test_states_of_the_optimizer_begin_at_zero(self):
        self.losses("--init_from=imported", "--checkpoint_dir=first")
        # A checkpoint with states begins like one without: with the weights alone.
        states = files.read_variables(files.step_folder(self.dir + "/first"))
        self.assertGreater(max(states["wte/v"][1]), 0)
        self.run_here("export", "--checkpoint=first", "--dtype=f32", "--out=exported")
        self.run_here("import", "--from=exported", "--out=again")
        self.assertEqual(self.losses("--init_from=first"), self.losses("--init_from=again"))

    def test_resume_auto_begins_with_the_weights_once(self):
        flags = ["--init_from=imported", "--checkpoint_dir=tuned", "--resume=auto"]
        first = self.losses(*flags, "--steps=1")
        self.assertEqual(self.losses(*flags)[-1], self.losses("--init_from=imported")[-1])
        self.assertEqual(self.losses("--init_from=imported")[0], first[0])

    def test_what_is_refused(self):
        self.refuse(["none", "check the path"], *self.train, "--init_from=none")
        self.refuse(["--init_from", "cannot be given together with --resume"], *self.train, "--init_from=imported",
                    "--checkpoint_dir=imported", "--resume")
        self.run_here("model", "gpt", "--preset=tiny", "--out=tiny.textproto")
        self.refuse(["holds model \"gpt2\"", "variable wte"], *self.train, "--graph=tiny.textproto", "--init_from=imported")

    def test_a_graph_that_computes_something_else_gives_a_warning(self):
        with open(self.oneflow.graph("imported"), encoding="utf-8") as file:
            graph = file.read()
        with open(self.dir + "/other.textproto", "w", encoding="utf-8") as file:
            file.write(graph.replace('kind: "gelu"', 'kind: "dropout" attr { key: "rate" value { f: 0.5 } }', 1))
        error = self.run_here(*self.train, "--graph=other.textproto", "--init_from=imported")[1]
        self.assertIn("with another graph: op h.0.mlp.gelu: kind gelu, now dropout", error)

    def test_generate_ends_at_any_of_the_models_ids(self):
        wanted = expected("gpt2")
        tokens = wanted["greedy"]
        end = next(i for i, token in enumerate(tokens) if i > 4 and token not in tokens[:i])
        self.copy("gpt2", eos_token_id=[tokens[end], 127])
        self.run_here("import", "--from=model", "--out=ends")
        result = self.oneflow.generate("ends", wanted["prompt"], 64)
        self.assertEqual((result["tokens"], result["end"]), (tokens[:end + 1], "end_of_text"))
        self.run_here("export", "--checkpoint=ends", "--out=exported")
        self.assertEqual(self.config("exported")["eos_token_id"], [tokens[end], 127])


class LlamaTest(Case):
    def test_shorter_sequences_on_meshes_and_padded(self):
        wanted = expected("llama")
        self.run_here("import", f"--from={FIXTURES}/llama", "--sequence=48", "--pad_vocab=160", "--out=short")
        logits = self.oneflow.logits("short", wanted["batch"][:18], 48)[17]
        oneflow_runs.check_close("logits", logits[:128], wanted["logits"][wanted["logits_at"].index(17)])
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 50)
        losses = []
        for mesh in ["data=1", "data=2", "tensor=2", "tensor=2x2", "pipe=2"]:
            self.run_here("train", "--init_from=short", "--mesh=" + mesh, "--data=text.txt", "--batch=4", "--micro_batches=2",
                          "--steps=2", "--metrics=metrics.jsonl", "--checkpoint_dir=tuned")
            with open(self.dir + "/metrics.jsonl", encoding="utf-8") as file:
                losses.append([json.loads(line)["loss"] for line in file if '"loss"' in line])
            for a, b in zip(losses[0], losses[-1], strict=True):
                self.assertAlmostEqual(a, b, places=4)
        self.run_here("export", "--checkpoint=tuned", "--out=exported")
        config, original = self.config("exported"), self.config_of("llama")
        for key in ["model_type", "vocab_size", "max_position_embeddings", "num_key_value_heads", "rms_norm_eps", "head_dim",
                    "tie_word_embeddings"]:
            self.assertEqual(config[key], original[key], key)
        rope = original["rope_parameters"]
        self.assertEqual(config["rope_theta"], rope.pop("rope_theta"))
        self.assertEqual(config["rope_scaling"], rope)

    def test_types_of_models_are_kept(self):
        for family in FAMILIES[1:]:
            self.setUp()
            self.run_here("import", f"--from={FIXTURES}/{family}", "--out=imported")
            self.run_here("export", "--checkpoint=imported", "--out=exported")
            self.assertEqual(self.config("exported")["model_type"], family)
        self.copy("mistral", sliding_window=None)
        self.run_here("import", "--from=model", "--out=plain")
        self.run_here("export", "--checkpoint=plain", "--out=back")
        self.assertEqual((self.config("back")["model_type"], self.config("back")["sliding_window"]), ("mistral", None))

    def config_of(self, family):
        with open(f"{FIXTURES}/{family}/config.json", encoding="utf-8") as file:
            return json.load(file)


class TokenizerTest(Case):
    def test_files_of_the_tokenizer_go_in_and_out(self):
        self.copy("gpt2", eos_token_id=5)
        for name in ["vocab.json", "merges.txt"]:
            shutil.copy(f"{TOKENIZER}/{name}", self.dir + "/model")
        self.run_here("import", "--from=model", "--out=imported")
        with open(files.step_folder(self.dir + "/imported") + "/manifest.json", encoding="utf-8") as file:
            self.assertIn(5, json.load(file)["tokenizer"]["stops"])
        self.run_here("export", "--checkpoint=imported", "--out=exported")
        for name in ["vocab.json", "merges.txt"]:
            with open(f"{TOKENIZER}/{name}", "rb") as original, open(f"{self.dir}/exported/{name}", "rb") as copy:
                self.assertEqual(copy.read(), original.read())
        # The checkpoint knows graph, tokenizer and the end of a document: no flag says them.
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("#%&*" * 60)  # whose ids are below the model's vocabulary
        self.run_here("train", "--init_from=imported", "--data=text.txt,text.txt", "--documents", "--mesh=data=2", "--batch=4",
                      "--steps=2", "--checkpoint_dir=tuned")
        self.run_here("export", "--checkpoint=tuned", "--out=tuned_model")
        self.assertTrue(os.path.exists(self.dir + "/tuned_model/model.safetensors"))

    def test_a_tokenizer_that_cannot_be_used_is_a_warning(self):
        self.copy("gpt2")
        with open(self.dir + "/model/tokenizer.json", "w", encoding="utf-8") as file:
            file.write("{}")
        error = self.run_here("import", "--from=model", "--out=imported")[1]
        self.assertIn("warning: the checkpoint has no tokenizer: model/tokenizer.json", error)


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
        self.assertEqual(self.config("default")["torch_dtype"], "float32")
        self.run_here("export", "--checkpoint=out", "--out=half", "--dtype=f16")
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
        self.refuse(['"decoder_sparse_step": 2 is not supported', "use a model with experts in every layer"],
                    "import", "--from=" + self.copy("qwen3_moe", decoder_sparse_step=2), "--out=x")

    def test_folders_without_a_model(self):
        self.refuse(["--from: is missing"], "import", "--out=x")
        self.refuse(["--out: is missing"], "import", "--from=x")
        self.refuse(["none/config.json"], "import", "--from=none", "--out=x")
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

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

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
        moved = dict(index["weight_map"], **{"transformer.wte.weight": names[3]})
        fewer = {name: file for name, file in index["weight_map"].items() if name != "transformer.ln_f.bias"}
        for words, text in [
                (['names tensor "x" for ' + names[0], "which does not have it"],
                 json.dumps({"weight_map": dict(index["weight_map"], x=names[0])})),
                (['does not name tensor "transformer.wte.weight" for ' + names[0]], json.dumps({"weight_map": moved})),
                (['does not name tensor "transformer.ln_f.bias" for ' + names[3]], json.dumps({"weight_map": fewer})),
                (['"weight_map" is missing'], "{}"),
                (['tensor "x" has no name of a file in the folder'], '{"weight_map": {"x": "../y"}}'),
                (["none.safetensors: no such file"], '{"weight_map": {"x": "none.safetensors"}}'),
                (['"x" has two values in one object'], '{"weight_map": {"x": "a", "x": "b"}}'),
                (["is no JSON"], "{"),
        ]:
            with self.subTest(words):
                self.write("shards/model.safetensors.index.json", text)
                self.refuse(["model.safetensors.index.json", *words], "import", "--from=shards", "--out=x")


class ExportTest(Case):
    def test_flags_of_export(self):
        self.run_here("import", f"--from={FIXTURES}/gpt2", "--out=imported")
        export = ["export", "--checkpoint=imported", "--out=x"]
        self.refuse(["--out: is missing"], "export", "--checkpoint=imported")
        self.refuse(["--checkpoint: is missing"], "export", "--out=x")
        self.refuse(["none: ", "check the path"], "export", "--checkpoint=none", "--out=x")
        self.refuse(["--dtype=f8: is not known", "bf16, f32 or f16"], *export, "--dtype=f8")
        self.refuse(["--shard_bytes=0: is not a size"], *export, "--shard_bytes=0")
        self.run_here(*export)
        self.refuse(["--out=x: exists already; name a new folder"], *export)
        line = json.loads(self.run_here("export", "--checkpoint=imported", "--out=y", "--format=json")[0])
        self.assertEqual((line["folder"], line["model_type"], line["dtype"], line["files"]), ("y", "gpt2", "bf16", 1))

    def test_a_value_that_f16_cannot_hold_is_named_and_nothing_is_left(self):
        def grow(tensors):
            dtype, shape, data = tensors["transformer.h.1.mlp.c_fc.weight"]
            tensors["transformer.h.1.mlp.c_fc.weight"] = (dtype, shape, data[:20] + b"\x80\x47" + data[22:])  # 65536

        self.copy("gpt2", change=grow)
        self.run_here("import", "--from=model", "--out=imported")
        self.refuse(['variable h.1.mlp.fc.weight: tensor "transformer.h.1.mlp.c_fc.weight": element 10 is 65536, which f16 '
                     "cannot hold"], "export", "--checkpoint=imported", "--dtype=f16", "--out=x")
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("x")], [])

    def test_models_that_hugging_face_does_not_have(self):
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 50)

        def trained(*flags, change=None):
            self.run_here("model", "gpt", "--preset=tiny", *flags, "--out=graph.textproto")
            if change:
                with open(self.dir + "/graph.textproto", encoding="utf-8") as file:
                    graph = change(file.read())
                with open(self.dir + "/graph.textproto", "w", encoding="utf-8") as file:
                    file.write(graph)
            self.run_here("train", "--graph=graph.textproto", "--data=text.txt", "--steps=1", "--checkpoint_dir=run")
            return ["export", "--checkpoint=run", "--out=x"]

        self.refuse(["has no biases, and GPT-2 of transformers has"], *trained("--bias=false"))
        self.refuse(["differs from GPT-2 of transformers", "h.1.mlp.gelu: it is a dropout there, and a gelu here"],
                    *trained(change=lambda graph: graph.replace('name: "h.1.mlp.gelu" kind: "gelu"',
                                                                'name: "h.1.mlp.gelu" kind: "dropout" '
                                                                'attr { key: "rate" value { f: 0.5 } }')))
        self.run_here(*trained("--dropout=0.1", "--attention=unfused", "--masks=stored", "--tied=false"))
        self.assertEqual(self.config("x")["resid_pdrop"], 0.1)
        self.assertFalse(self.config("x")["tie_word_embeddings"])
        self.run_here("import", "--from=x", "--out=back")
        trained_weights = files.read_variables(files.step_folder(self.dir + "/run"))
        for name, variable in files.read_variables(files.step_folder(self.dir + "/back")).items():
            self.assertEqual(variable, trained_weights[name])


if __name__ == "__main__":
    unittest.main()
