"""Runs examples/fine_tune.py on a small folder of Hugging Face, as docs/fine_tuning.md does by the command line."""
import os
import subprocess
import sys
import tempfile
import unittest

import oneflow_actors
from tests.e2e.fine_tuning_test import MODEL, make_folder
from tools.hf_checks import files

EXAMPLE = os.path.abspath("examples/fine_tune.py")


class FineTuneTest(unittest.TestCase):
    def test_the_example(self):
        with open(EXAMPLE, encoding="utf-8") as file:
            self.assertLessEqual(sum(bool(line.strip()) for line in file), 12)
        package = os.path.dirname(os.path.dirname(os.path.abspath(oneflow_actors.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            make_folder(folder)
            done = subprocess.run([sys.executable, EXAMPLE, MODEL, "chats.jsonl", "tuned"], cwd=folder, text=True, capture_output=True,
                                  check=False, env=dict(os.environ, PYTHONPATH=package))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^step 1: loss \d+\.\d{3}\nstep 2")
            before, after = (files.read_model(f"{folder}/{name}") for name in (MODEL, "tuned"))
        self.assertEqual({name: tensor[:2] for name, tensor in before.items()}, {name: tensor[:2] for name, tensor in after.items()})
        self.assertEqual({name for name in before if before[name] != after[name]}, {name for name in before if "proj" in name})


if __name__ == "__main__":
    unittest.main()
