"""`oneflow import` and `export`, against what transformers computed with small models (tests/e2e/hugging_face, which
tools/check_hf writes), and what they refuse."""
import array
import json
import math
import os
import shutil
import struct
import unittest

from tests.e2e.chat_file import write_chats
from tests.e2e.cli import run
from tests.e2e.hugging_face_case import FIXTURES, TOKENIZER, Case
from tools.hf_checks import files, oneflow_runs

FAMILIES = ["gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "smollm3", "gemma2", "gemma3_text", "olmo2",
            "olmo3", "gpt_oss", "glm4_moe"]
NEXT = "glm4_moe_next"  # with its block of next tokens, whose gradients are those of torch, whole and in documents


def expected(family):
    with open(f"{FIXTURES}/{family}/expected.json", encoding="utf-8") as file:
        return json.load(file)


class FamiliesTest(Case):
    def test_results_are_those_of_transformers(self):
        for family in [*FAMILIES, NEXT]:
            with self.subTest(family):
                self.setUp()
                line = oneflow_runs.check_model(self.oneflow, f"{FIXTURES}/{family}", expected(family))
                self.assertIn("64 greedy tokens", line)

    def test_labels_of_chats_are_those_that_count(self):
        apart, bounds = expected(NEXT)["apart"], expected(NEXT)["apart"]["begins"]
        tokens = [(token, at in apart["labels"]) for at, token in enumerate(apart["batch"])]
        write_chats(self.dir + "/chats.bin", [tokens[begin:end] for begin, end in zip(bounds, bounds[1:])])
        self.run_here("import", f"--from={FIXTURES}/{NEXT}", "--out=imported")
        with open(f"{FIXTURES}/{NEXT}/config.json", encoding="utf-8") as file:
            oneflow_runs.check_gradients(self.oneflow, json.load(file), apart["chats"], "chats.bin", "--documents")

    def evaluate(self, code=0, checkpoint="imported"):
        return run("eval", "--checkpoint=" + checkpoint, "--data=tokens.bin", "--format=json", "--tokenizer=bytes", cwd=self.dir, code=code)

    def test_evaluations_are_those_of_transformers(self):
        for family in FAMILIES:
            with self.subTest(family):
                self.setUp()
                self.write("tokens.bin", array.array("H", expected(family)["batch"]).tobytes())
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
        self.write("tokens.bin", array.array("H", expected("gpt2")["batch"]).tobytes())
        self.run_here("import", "--from=model", "--out=imported")
        found = "h.0.ln_1.weight has values that are not finite, NaN or infinity"
        self.assertIn(found, self.evaluate(code=2)[1])
        error = run("train", "--init_from=imported", "--data=tokens.bin", "--batch=1", "--steps=2", cwd=self.dir, code=1)[1]
        self.assertIn(f"step-00000000: {found}: begin with other weights", error)
        self.assertIn("2 steps were skipped, for their loss or gradient was not finite; the first is step 1, before any update", error)
        self.assertNotIn("lower --learning_rate", error)

    def test_names_with_prefix_and_without(self):
        for family in [*FAMILIES, NEXT]:
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
        self.write("text.txt", "some words to learn from. " * 50)
        train = ["train", "--graph=" + self.oneflow.graph("padded"), "--data=text.txt", "--tokenizer=bytes", "--batch=2",
                 "--checkpoint_dir=tuned"]
        # The graph of the checkpoint is that of the run.
        error = self.run_here(train[0], *train[2:], "--init_from=padded", "--steps=1")[1]
        self.assertIn("the run begins with the weights of padded/step-00000000", error)
        self.run_here(*train, "--resume", "--steps=2")
        self.run_here("export", "--checkpoint=tuned", "--dtype=f32", "--out=exported")
        dtype, shape, _ = files.read_model(self.dir + "/exported")["transformer.wte.weight"]
        self.assertEqual((dtype, shape), ("F32", [128, 32]))
        self.assertEqual(self.config("exported")["vocab_size"], 128)
        self.write("text.txt", b"x" * 200 + bytes([130]) + b"x" * 200)
        self.refuse(["text.txt", "130"], *train, "--init_from=padded", "--steps=1")


class TrainTest(Case):
    def setUp(self):
        super().setUp()
        self.run_here("import", f"--from={FIXTURES}/gpt2", "--out=imported")
        self.write("text.txt", "some words to learn from. " * 50)
        self.train = ["train", "--graph=" + self.oneflow.graph("imported"), "--data=text.txt", "--tokenizer=bytes",
                      "--batch=4", "--micro_batches=2", "--steps=2", "--metrics=metrics.jsonl"]

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
        self.write("other.textproto", graph.replace('kind: "gelu"', 'kind: "dropout" attr { key: "rate" value { f: 0.5 } }', 1))
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
        self.write("text.txt", "some words to learn from. " * 50)
        losses = []
        for mesh in ["data=1", "data=2", "tensor=2", "tensor=2x2", "pipe=2"]:
            self.run_here("train", "--init_from=short", "--mesh=" + mesh, "--data=text.txt", "--tokenizer=bytes",
                          "--batch=4", "--micro_batches=2",
                          "--steps=2", "--metrics=metrics.jsonl", "--checkpoint_dir=tuned")
            with open(self.dir + "/metrics.jsonl", encoding="utf-8") as file:
                losses.append([json.loads(line)["loss"] for line in file if '"loss"' in line])
            for a, b in zip(losses[0], losses[-1], strict=True):
                self.assertAlmostEqual(a, b, places=4)
        self.run_here("export", "--checkpoint=tuned", "--out=exported")
        self.assertEqual(self.config("exported"), self.config_of("llama"))

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
        self.copy_tokenizer("model")
        self.run_here("import", "--from=model", "--out=imported")
        with open(files.step_folder(self.dir + "/imported") + "/manifest.json", encoding="utf-8") as file:
            self.assertIn(5, json.load(file)["tokenizer"]["stops"])
        self.run_here("export", "--checkpoint=imported", "--out=exported")
        for name in ["vocab.json", "merges.txt"]:
            with open(f"{TOKENIZER}/{name}", "rb") as original, open(f"{self.dir}/exported/{name}", "rb") as copy:
                self.assertEqual(copy.read(), original.read())
        # The checkpoint knows graph, tokenizer and the end of a document: no flag says them.
        self.write("text.txt", "#%&*" * 60)  # whose ids are below the model's vocabulary
        self.run_here("train", "--init_from=imported", "--data=text.txt,text.txt", "--documents", "--mesh=data=2", "--batch=4",
                      "--steps=2", "--checkpoint_dir=tuned")
        self.run_here("export", "--checkpoint=tuned", "--out=tuned_model")
        self.assertTrue(os.path.exists(self.dir + "/tuned_model/model.safetensors"))

    def test_a_tokenizer_that_cannot_be_used_is_a_warning(self):
        self.copy("gpt2", eos_token_id=5)
        self.write("model/tokenizer.json", "{}")
        error = self.run_here("import", "--from=model", "--out=imported")[1]
        self.assertIn("warning: the checkpoint has no tokenizer: model/tokenizer.json", error)
        self.refuse(["imported/step-00000000: contains no tokenizer", "give it with --tokenizer"],
                    "generate", "--checkpoint=imported", "--prompt=the", "--tokens=1")
        self.write("ids.bin", bytes([1, 0, 2, 0, 5, 0, 7, 0]) * 100)
        # The ids are those of the model, and so is the end of a document.
        train = ["train", "--init_from=imported", "--data=ids.bin", "--documents", "--steps=1", "--batch=2", "--checkpoint_dir=tuned"]
        out, error = self.run_here(*train, "--end_of_text_id=5", "--format=json")
        self.assertEqual(error.count("the tokenizer is not checked"), 1)
        known = out.splitlines()[0]
        shutil.rmtree(self.dir + "/tuned")
        self.assertEqual(json.loads(self.run_here(*train, "--format=json")[0].splitlines()[0])["loss"], json.loads(known)["loss"])


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
        self.write("text.txt", "some words to learn from. " * 50)

        def trained(*flags, change=None):
            self.run_here("model", "gpt", "--preset=tiny", *flags, "--out=graph.textproto")
            if change:
                with open(self.dir + "/graph.textproto", encoding="utf-8") as file:
                    graph = change(file.read())
                self.write("graph.textproto", graph)
            self.run_here("train", "--graph=graph.textproto", "--data=text.txt", "--steps=1", "--checkpoint_dir=run")
            return ["export", "--checkpoint=run", "--out=x"]

        self.refuse(["has bias=false, which gpt2"], *trained("--bias=false"))
        self.refuse(["differs from a model of the family gpt", "h.1.mlp.gelu: it is a dropout there, and a gelu here"],
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
