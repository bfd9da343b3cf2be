"""Multi-token prediction: its loss acts through the gradient alone, the same on every mesh."""
import json
import tempfile
import unittest

from tests.e2e.cli import run

MODEL = ["model", "llama", "--layers=2", "--heads=4", "--groups=2", "--hidden=32", "--inner=64", "--sequence=16", "--vocab=64"]


class NextTokensTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        with open(f"{self.dir}/text.bin", "wb") as file:
            file.write(b"".join((7 * i * i % 61).to_bytes(2, "little") for i in range(4000)))

    def train(self, name, model_flags, *flags):
        run(*MODEL, *model_flags, f"--out={name}.textproto", cwd=self.dir)
        run("train", f"--graph={name}.textproto", "--data=text.bin", "--steps=6", "--batch=8", "--micro_batches=2", "--learning_rate=0.01",
            f"--metrics={name}.jsonl", "--eval_every=3", "--eval_data=text.bin", "--eval_batches=1", *flags, cwd=self.dir)
        with open(f"{self.dir}/{name}.jsonl", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [row["loss"] for row in rows if "loss" in row], [row["eval_loss"] for row in rows if "eval_loss" in row]

    def test_loss_acts_through_gradient(self):
        plain = self.train("plain", [])
        nothing = self.train("nothing", ["--next_tokens=1", "--next_tokens_coeff=0"])
        ahead = self.train("ahead", ["--next_tokens=1"])
        self.assertEqual(plain, nothing)
        self.assertEqual(plain[0][0], ahead[0][0])
        self.assertNotEqual(plain[0][1], ahead[0][1])
        for at, mesh in enumerate(["pipe=2,data=2", "tensor=2,context=2"]):
            with self.subTest(mesh):
                losses, validation = self.train(f"on{at}", ["--next_tokens=1"], f"--mesh={mesh}")
                for got, wanted in zip(losses + validation, ahead[0] + ahead[1], strict=True):
                    self.assertAlmostEqual(got, wanted, delta=1e-5)

    def test_eval_has_the_loss_of_labels_alone(self):
        said = []
        for name, flags in ("plain", []), ("nothing", ["--next_tokens=1", "--next_tokens_coeff=0"]):
            self.train(name, flags, f"--checkpoint_dir={name}")
            for mesh in "", "tensor=2":
                text = run("eval", f"--checkpoint={name}", "--data=text.bin", "--format=json", f"--mesh={mesh}" if mesh else "--batch=8", cwd=self.dir)[0]
                said.append(json.loads(text)["loss"])
        self.assertEqual(said[:2], said[2:])

    def test_documents_on_meshes(self):
        documents = ["--documents", "--end_of_text_id=7"]
        one, validation = self.train("one", ["--next_tokens=1"], *documents)
        self.assertNotEqual(one, self.train("plain", [], *documents)[0])
        for at, mesh in enumerate(["pipe=2,data=2", "tensor=2,context=2", "data=4"]):
            with self.subTest(mesh):
                for got, wanted in zip(sum(self.train(f"on{at}", ["--next_tokens=1"], *documents, f"--mesh={mesh}"), []), one + validation,
                                       strict=True):
                    self.assertAlmostEqual(got, wanted, delta=1e-5)

    def test_export_to_a_type_without_such_a_block_leaves_it_out(self):
        self.train("ahead", ["--next_tokens=1"], "--checkpoint_dir=run")
        error = run("export", "--checkpoint=run", "--out=model", cwd=self.dir)[1]
        self.assertIn("the block of --next_tokens is left out: files of llama have none", error)


if __name__ == "__main__":
    unittest.main()
