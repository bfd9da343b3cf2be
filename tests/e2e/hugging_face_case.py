"""What the tests of `oneflow import` and `export` share: copies of small models that transformers saved."""
import json
import os
import shutil
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run
from tools.hf_checks import files, oneflow_runs

FIXTURES = os.path.abspath("tests/e2e/hugging_face")
TOKENIZER = os.path.abspath("training/tokenizer/testdata")


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

    def copy_tokenizer(self, folder):
        os.makedirs(f"{self.dir}/{folder}", exist_ok=True)
        for name in ["vocab.json", "merges.txt"]:
            shutil.copy(f"{TOKENIZER}/{name}", f"{self.dir}/{folder}")

    def write(self, name, data):
        """data: text or bytes."""
        os.makedirs(os.path.dirname(f"{self.dir}/{name}"), exist_ok=True)
        with open(f"{self.dir}/{name}", "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def read(self, name):
        with open(f"{self.dir}/{name}", encoding="utf-8") as file:
            return file.read()

    def config(self, folder):
        with open(f"{self.dir}/{folder}/config.json", encoding="utf-8") as file:
            return json.load(file)
