"""Runs every command of docs/fine_tuning.md on a small Llama: a folder of Hugging Face and chats in, a folder out."""
import json
import os
import tempfile
import unittest

from tests.e2e import documents
from tests.e2e.cli import run
from tests.e2e.fine_tuning_case import MODEL, make_folder
from tools.hf_checks import files

PAGE = "docs/fine_tuning.md"


class FineTuningTest(unittest.TestCase):
    def test_the_page(self):
        documents.play(PAGE, os.path.abspath("examples"), make_folder, self.inspect)

    def inspect(self, folder):
        before, after = (files.read_model(f"{folder}/{name}") for name in (MODEL, "tuned"))
        self.assertEqual({name: tensor[:2] for name, tensor in before.items()},
                         {name: tensor[:2] for name, tensor in after.items()})
        changed = {name for name in before if before[name] != after[name]}
        self.assertEqual(changed, {name for name in before if "proj" in name})
        for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
            with self.subTest(name), open(f"{folder}/{MODEL}/{name}", "rb") as was, open(f"{folder}/tuned/{name}", "rb") as now:
                self.assertEqual(was.read(), now.read())
        # What came out answers as the run does, through an import as well, and so does the adapter alone.
        ask = ["--chat", "--prompt=Where is the park?", "--tokens=12", "--temperature=0", "--format=json"]
        run("import", "--from=tuned", "--out=of_tuned", cwd=folder)
        tokens = [json.loads(run("generate", "--checkpoint=" + name, *ask, cwd=folder)[0])["tokens"]
                  for name in ("run", "of_tuned")]
        self.assertEqual(tokens[0], tokens[1])
        # Only adapters were saved.
        self.assertTrue(all(".lora_" in name for name in files.read_variables(files.step_folder(folder + "/run"))))
        # A block and a norm.
        self.assertEqual({name.split("/")[0].split(".")[0] for name in files.read_variables(files.step_folder(folder + "/run_last"))},
                         {"h", "norm_f"})

    def test_answers_are_learned(self):
        """The loss over answers falls, to a fraction where all weights are trained."""
        with tempfile.TemporaryDirectory() as folder:
            make_folder(folder)
            for flags, factor in [(["--graph=" + MODEL, "--lora=rank:16"], 0.95), (["--init_from=" + MODEL], 0.7)]:
                out = run("train", *flags, "--data=chats.jsonl", "--chat", "--documents", "--epochs=20", "--batch=2",
                          "--learning_rate=3e-3", "--format=json", cwd=folder)[0]
                losses = [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line]
                self.assertLess(losses[-1], losses[0] * factor)


if __name__ == "__main__":
    unittest.main()
