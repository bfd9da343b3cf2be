"""Files of gpt-oss in MXFP4, and of GLM 4.5 with blocks that predict later tokens, through `oneflow import`, `train` and `export`."""
import array
import json
import math
import random
import shutil
import unittest

from tests.e2e.hugging_face_case import FIXTURES, Case
from tools.hf_checks import files

NUMBERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
NUMBERS += [-x for x in NUMBERS]


def pack(tensors, name, seed, scales=(0, 1, 100, 119, 120, 127, 240)):
    """Replaces a tensor [experts, in, out] with one in MXFP4 of random numbers; returns its values, in this order."""
    _, (experts, ins, outs), _ = tensors.pop(name)
    draw = random.Random(seed)
    count = experts * outs * ins
    bits = [draw.randrange(16) for _ in range(count)]
    scales = [draw.choice(scales) for _ in range(count // 32)]
    blocks = bytes(bits[i] | bits[i + 1] << 4 for i in range(0, count, 2))
    tensors[name + "_blocks"] = ("U8", [experts, outs, ins // 32, 16], blocks)
    tensors[name + "_scales"] = ("U8", [experts, outs, ins // 32], bytes(scales))
    return [math.ldexp(NUMBERS[bits[n]], scales[n // 32] - 127)
            for e in range(experts) for i in range(ins) for n in range((e * outs) * ins + i, (e + 1) * outs * ins, ins)]


class Mxfp4Test(Case):
    def test_experts_are_dequantised_and_written_as_bf16(self):
        values = {}

        def change(tensors):
            for seed, name in enumerate([name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]):
                values[name] = pack(tensors, name, seed)

        self.copy("gpt_oss", change=change, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
        out, error = self.run_here("import", "--from=model", "--out=imported")
        self.assertIn("dequantised from MXFP4 to bf16, in which `export` writes them: 4 tensors", error)
        self.assertIn(", from bf16; ", out)
        variables = files.read_variables(files.step_folder(self.dir + "/imported"))
        for block in (0, 1):
            both = values[f"model.layers.{block}.mlp.experts.gate_up_proj"]
            for first, name in enumerate(("gate", "up")):
                dims, ours = variables[f"h.{block}.mlp.experts.{name}.weight"]
                self.assertEqual((dims, list(ours)), ([4, 32, 32], both[first::2]))
            self.assertEqual(list(variables[f"h.{block}.mlp.experts.proj.weight"][1]),
                             values[f"model.layers.{block}.mlp.experts.down_proj"])
        self.run_here("export", "--checkpoint=imported", "--out=exported")
        exported, original = files.read_model(self.dir + "/exported"), files.read_model(FIXTURES + "/gpt_oss")
        for name, (dtype, shape, data) in exported.items():
            self.assertEqual((dtype, shape), original[name][:2])
            self.assertEqual(files.floats(dtype, data), array.array("f", values[name]) if name in values
                             else files.floats(dtype, original[name][2]))
        self.assertEqual(exported.keys(), original.keys())
        self.assertNotIn("quantization_config", self.config("exported"))
        self.assertEqual(self.config("exported"), {k: v for k, v in self.config("model").items() if k != "quantization_config"})
        self.run_here("import", "--from=exported", "--out=back")
        self.assertEqual(files.read_variables(files.step_folder(self.dir + "/back")), variables)

    def test_what_does_not_fit_is_refused(self):
        def lose(tensors):
            pack(tensors, "model.layers.1.mlp.experts.down_proj", 0)
            del tensors["model.layers.1.mlp.experts.down_proj_scales"]

        self.refuse(['has no tensor "model.layers.1.mlp.experts.down_proj", for variable h.1.mlp.experts.proj.weight, but',
                     "_blocks", "its weights are quantized"], "import", "--from=" + self.copy("gpt_oss", change=lose), "--out=x")
        self.refuse(['"quantization_config"', "fp8", "is not supported"], "import",
                    "--from=" + self.copy("gpt_oss", quantization_config={"quant_method": "fp8"}), "--out=x")


class MeshTest(Case):
    def losses(self, folder, mesh):
        self.run_here("train", "--init_from=" + folder, "--mesh=" + mesh, "--data=text.txt", "--tokenizer=bytes", "--batch=4",
                      "--steps=2", "--metrics=metrics.jsonl")
        with open(self.dir + "/metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file if '"loss"' in line]

    def test_devices_read_their_parts_of_the_files(self):
        def change(tensors):
            pack(tensors, "model.layers.1.mlp.experts.gate_up_proj", 0, scales=[124, 125, 126])

        self.write("text.txt", "some words to learn from. " * 50)
        self.copy("gpt_oss", change=change)
        for folder, meshes in ("model", ("expert=2", "tensor=2")), (FIXTURES + "/glm4_moe", ("data=2,expert=2", "pipe=2")):
            one = self.losses(folder, "data=1")
            for mesh in meshes:
                for loss, other in zip(one, self.losses(folder, mesh), strict=True):
                    self.assertAlmostEqual(loss, other, delta=1e-5 * loss)


class NextTokensTest(Case):
    """The block behind the last, which predicts the token after the next one."""

    def imported(self, folder, *flags):
        """What `import` says, and the tensors of the export."""
        for name in "imported", "exported":
            shutil.rmtree(f"{self.dir}/{name}", ignore_errors=True)
        said = self.run_here("import", "--from=" + folder, "--out=imported", *flags)[1]
        self.run_here("export", "--checkpoint=imported", "--out=exported")
        return said, files.read_model(self.dir + "/exported")

    def copy_block(self, change=None, **config):
        return self.copy("glm4_moe_next", change=change, **config)

    def test_copies_of_embedding_and_head_are_read_where_they_are_copies(self):
        def add(tensors, head="lm_head.weight"):
            tensors["model.layers.2.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
            tensors["model.layers.2.shared_head.head.weight"] = tensors[head]

        whole = files.read_model(FIXTURES + "/glm4_moe_next")
        said, exported = self.imported(self.copy_block(add))
        self.assertIn("the block of next tokens, layer 2, is imported; it acts in training alone", said)
        self.assertEqual(exported, whole)
        said, exported = self.imported(self.copy_block(lambda tensors: add(tensors, "model.embed_tokens.weight")))
        self.assertIn('not imported: its tensor "model.layers.2.shared_head.head.weight" differs from "lm_head.weight"', said)
        self.assertIn("not imported from model: 40 tensors of layers.2.", said)
        self.assertEqual(exported, {name: tensor for name, tensor in whole.items() if ".layers.2." not in name})

    def test_a_folder_may_have_no_such_block_or_be_asked_for_without(self):
        none = 'the block of next tokens is not imported: it has no tensor "model.layers.2.shared_head.norm.weight"'
        left = "not imported from model: 38 tensors of layers.2."
        for folder, flags, words in ((FIXTURES + "/glm4_moe", [], none), (FIXTURES + "/glm4_moe_next", ["--next_tokens=0"], ""),
                                     (self.copy_block(num_nextn_predict_layers=0), [], left)):
            said, exported = self.imported(folder, *flags)
            self.assertIn(words, said)
            self.assertEqual(exported.keys(), files.read_model(FIXTURES + "/glm4_moe").keys())
        for config in {}, {"num_nextn_predict_layers": 0}:
            self.refuse(["--next_tokens=1: is not in", "its config.json has none" if config else "it has no tensor"], "import",
                        "--next_tokens=1", "--out=x", "--from=" + self.copy("glm4_moe", **config))

    def test_what_does_not_fit_is_refused(self):
        lacking = self.copy_block(lambda tensors: tensors.pop("model.layers.2.eh_proj.weight"))
        missing = 'has no tensor "model.layers.2.eh_proj.weight", for variable mtp.of_label.weight'
        self.refuse(["--next_tokens=1", missing], "import", "--next_tokens=1", "--out=x", "--from=" + lacking)
        self.assertIn("is not imported: ", told := self.run_here("import", "--out=without", "--from=" + lacking)[1])
        self.assertIn(missing, told)
        self.refuse(['has tensor "model.layers.3.eh_proj.weight"', "which the model of config.json does not have"], "import", "--out=x",
                    "--from=" + self.copy_block(lambda tensors: tensors.update({"model.layers.3.eh_proj.weight": ("F32", [1], bytes(4))})))

    def test_what_is_trained_is_exported_and_read_again(self):
        self.write("text.txt", "some words to learn from. " * 50)
        self.run_here("model", "glm", "--layers=2", "--hidden=32", "--inner=16", "--heads=4", "--groups=2", "--head_dim=8", "--vocab=128",
                      "--shared_inner=16", "--sequence=32", "--next_tokens=1", "--out=graph.textproto")
        train = ["train", "--data=text.txt", "--tokenizer=bytes", "--batch=4", "--steps=2"]
        self.run_here(*train, "--graph=graph.textproto", "--checkpoint_dir=run")
        self.run_here("export", "--checkpoint=run", "--out=written")
        self.assertEqual(self.config("written")["num_nextn_predict_layers"], 1)
        self.imported("written")
        self.assertEqual(self.config("exported"), self.config("written"))
        trained, again = (files.read_variables(files.step_folder(f"{self.dir}/{name}")) for name in ("run", "imported"))
        self.assertEqual({name: trained[name] for name in again}, again)
        self.assertIn("mtp.mlp.router.bias", again)


if __name__ == "__main__":
    unittest.main()
