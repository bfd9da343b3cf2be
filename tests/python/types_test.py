"""The package and a model that is written with it, checked by mypy."""
import os
import subprocess
import tempfile
import unittest

import oneflow_actors as of

WRONG = """import oneflow_actors as of
of.compile("gpt2-124m", bath=4)
plan: of.Plan = of.search("gpt2-124m", devices=2)
"""


class TypesTest(unittest.TestCase):
    def check(self, *arguments):
        package = os.path.dirname(os.path.dirname(of.__file__))
        done = subprocess.run(["mypy", "--config-file", os.path.abspath("tests/python/mypy.ini"), "--no-incremental", *arguments],
                              env=dict(os.environ, MYPYPATH=package, PYTHONPATH=""), capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def test_all_has_types(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/wrong.py", "w", encoding="utf-8") as file:
                file.write(WRONG)
            told = self.check(os.path.dirname(of.__file__), "tests/python/llama.py", f"{folder}/wrong.py")
        self.assertIn('wrong.py:2: error: Unexpected keyword argument "bath"', told)
        self.assertIn("wrong.py:3: error: Incompatible types in assignment", told)
        self.assertIn("Found 2 errors in 1 file", told)


if __name__ == "__main__":
    unittest.main()
