"""The package and a model that is written with it, checked by mypy."""
import os
import shutil
import subprocess
import tempfile
import unittest

import oneflow_actors as of

WRONG = """import oneflow_actors as of
of.compile("gpt2-124m", bath=4)
plan: of.Plan = of.search("gpt2-124m", devices=2)
"""


class TypesTest(unittest.TestCase):
    def test_all_has_types(self):
        config = os.path.abspath("tests/python/mypy.ini")
        package = os.path.dirname(os.path.dirname(os.path.abspath(of.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile("tests/python/llama.py", f"{folder}/llama.py")
            with open(f"{folder}/wrong.py", "w", encoding="utf-8") as file:
                file.write(WRONG)
            # Errors of a package that is found by MYPYPATH are told, too.
            told = subprocess.run(["mypy", "--config-file", config, "--no-incremental", "llama.py", "wrong.py"], cwd=folder,
                                  env=dict(os.environ, MYPYPATH=package, PYTHONPATH=""), capture_output=True, text=True, check=False).stdout
        self.assertIn('wrong.py:2: error: Unexpected keyword argument "bath"', told)
        self.assertIn("wrong.py:3: error: Incompatible types in assignment", told)
        self.assertIn("Found 2 errors in 1 file", told)


if __name__ == "__main__":
    unittest.main()
