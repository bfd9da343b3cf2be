"""What the host does not allow, by `ulimit`: a sentence with the limit and exit code 1 or 2, never a signal."""
import os
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run


class LimitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = temporary.name
        run("model", "gpt", "--layers=2", "--heads=4", "--hidden=192", "--sequence=64", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        with open(cls.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("some words to learn from. " * 100)
        run("compile", "--graph=gpt.textproto", "--batch=16", "--threads=2", "--out=gpt.plan", cwd=cls.dir)

    def train(self, limits, *flags):
        """(exit code, stderr) under `ulimit LIMITS`."""
        done = subprocess.run(["bash", "-c", f'ulimit {limits} && exec "$@"', "bash", ONEFLOW, "train", "--plan=gpt.plan", "--data=text.txt",
                               "--steps=2", "--threads=2", *flags], cwd=self.dir, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def least(self):
        """KiB of address space with which the program gets as far as the plan."""
        low, high = 1 << 14, 1 << 23
        while high - low > 1 << 12:
            middle = (low + high) // 2
            code, error = self.train(f"-v {middle}")
            if code == 0:
                high = middle
            else:
                low = middle
        return high

    def test_address_space(self):
        enough = self.least()
        self.assertEqual(self.train(f"-v {enough}")[0], 0)
        said = set()
        for missing in [1, 2, 4, 8, 16, 24, 32, 48, 64]:  # MiB
            code, error = self.train(f"-v {enough - missing * 1024}")
            if "error while loading shared libraries" in error:
                break
            with self.subTest(missing=missing):
                self.assertIn(code, (0, 1, 2), error)
                if code != 0:
                    self.assertRegex(error, r"^oneflow: error: .*`ulimit -v` allows [0-9,]+ bytes")
                    said.add("plan: takes" in error)
        self.assertIn(True, said)
        code, error = self.train(f"-d {1 << 14}")
        self.assertEqual(code, 2, error)
        self.assertRegex(error, r"oneflow: error: plan: takes .* of this process, which has mapped .* besides, and `ulimit -d` allows ")

    def test_files(self):
        for flag in ["--checkpoint_dir=ckpt", "--metrics=metrics.jsonl", "--trace=trace.json"]:
            with self.subTest(flag):
                code, error = self.train("-f 0", flag)
                self.assertIn(code, (1, 2), error)
                self.assertRegex(error, r"oneflow: error: .*File too large \(`ulimit -f` allows 0 bytes\)")
        done = subprocess.run(["bash", "-c", f'ulimit -f 0 && exec "$@"', "bash", ONEFLOW, "compile", "--graph=gpt.textproto", "--batch=16",
                               "--out=other.plan"], cwd=self.dir, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (1, 2))
        self.assertRegex(done.stderr, r"other.plan: cannot be written: File too large \(`ulimit -f` allows 0 bytes\)")
        self.assertFalse(os.path.exists(self.dir + "/other.plan"))

    def test_descriptors(self):
        for most in [3, 4, 5, 6, 8, 12, 16, 24]:
            with self.subTest(most):
                code, error = self.train(f"-n {most}", "--processes=2", "--graph=gpt.textproto", "--plan=", "--mesh=data=2", "--batch=16")
                self.assertIn(code, (0, 1, 2), error)
                if code != 0:
                    self.assertRegex(error, "oneflow: error: .")


if __name__ == "__main__":
    unittest.main()
