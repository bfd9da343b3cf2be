"""What the host does not allow, by `ulimit`: a sentence with the limit and exit code 1 or 2, never a signal."""
import os
import re
import subprocess
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, replaced, run


class LimitsTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=4", "--heads=4", "--hidden=256", "--sequence=64", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("text.txt", "some words to learn from. " * 100)
        run("compile", "--graph=gpt.textproto", "--batch=16", "--threads=2", "--out=gpt.plan", cwd=cls.dir)

    def train(self, limits, *flags):
        """(exit code, stderr) under `ulimit LIMITS`."""
        done = subprocess.run(["bash", "-c", f'ulimit {limits} && exec "$@"', "bash", ONEFLOW, "train", *replaced(["--plan=gpt.plan", "--data=text.txt",
                               "--steps=2", "--threads=2", *flags])], cwd=self.dir, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_address_space(self):
        code, error = self.train(f"-v {1 << 17}")
        self.assertEqual(code, 2, error)
        sizes = re.search(r"oneflow: error: plan: takes ([0-9,]+) bytes .* of this process, which has mapped ([0-9,]+) bytes .* besides, and "
                          r"`ulimit -v` allows 134,217,728 bytes \(128.0 MiB\); ", error)
        self.assertTrue(sizes, error)
        both = sum(int(size.replace(",", "")) for size in sizes.groups()) >> 10
        for more in [0, 4, 12, 28, 44, 60]:  # MiB, for threads and what libraries take
            with self.subTest(more=more):
                code, error = self.train(f"-v {both + more * 1024}")
                self.assertIn(code, (0, 1, 2), error)
                if code != 0:
                    self.assertRegex(error, r"oneflow: error: .*`ulimit -v` allows [0-9,]+ bytes")
        code, error = self.train(f"-d {1 << 14}")
        self.assertEqual(code, 2, error)
        self.assertRegex(error, r"oneflow: error: plan: takes .* of this process, which has mapped .* besides, and `ulimit -d` allows ")

    def test_files(self):
        for flag in ["--checkpoint_dir=ckpt", "--metrics=metrics.jsonl", "--trace=trace.json"]:
            with self.subTest(flag):
                code, error = self.train("-f 0", flag)
                self.assertIn(code, (1, 2), error)
                self.assertRegex(error, r"oneflow: error: .*File too large \(`ulimit -f` allows 0 bytes\); raise the limit")
        done = subprocess.run(["bash", "-c", 'ulimit -f 0 && exec "$@"', "bash", ONEFLOW, "compile", "--graph=gpt.textproto", "--batch=16",
                               "--out=other.plan"], cwd=self.dir, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (1, 2))
        self.assertRegex(done.stderr, r"other.plan: cannot be written: File too large \(`ulimit -f` allows 0 bytes\); raise the limit")
        self.assertFalse(os.path.exists(self.dir + "/other.plan"))

    def test_descriptors(self):
        run("compile", "--graph=gpt.textproto", "--batch=16", "--mesh=data=2", "--out=2.plan", cwd=self.dir)
        for most in [4, 5, 8, 16, 24, 36]:
            with self.subTest(most):
                code, error = self.train(f"-n {most}", "--processes=2", "--plan=2.plan")
                self.assertEqual(code, 2, error)
                self.assertRegex(error, rf"oneflow: error: .*`ulimit -n`:? allows {most}( open files|\))")
        self.assertEqual(self.train("-n 64", "--processes=2", "--plan=2.plan")[0], 0)


if __name__ == "__main__":
    unittest.main()
