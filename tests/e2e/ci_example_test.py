"""The workflow of examples/ci, run as it says: its commands are read from it."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, run

EXAMPLE = pathlib.Path("examples/ci")
PROGRAM = "bazel-bin/tools/oneflow/oneflow"


def commands(text):
    """The `run:` lines of a workflow; a block of several lines is not read, and none has one."""
    lines = re.findall(r"^ *(?:- )?run: (.*)$", text, re.MULTILINE)
    assert lines and not any(line.startswith(("|", ">")) for line in lines)
    return lines


class CiExampleTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(EXAMPLE, f"{cls.dir}/{EXAMPLE}")
        os.makedirs(os.path.dirname(f"{cls.dir}/{PROGRAM}"))
        os.symlink(ONEFLOW, f"{cls.dir}/{PROGRAM}")
        cls.workflow = (EXAMPLE / "plan.yml").read_text(encoding="utf-8")
        cls.recipe = f"{EXAMPLE}/recipe.textproto"

    def test_installs_builds_and_compares(self):
        install, build, diff = commands(self.workflow)
        self.assertEqual(install, "tools/install_deps")
        self.assertEqual(build, "bazel build //" + os.path.relpath(os.path.dirname(PROGRAM), "bazel-bin"))
        done = subprocess.run(diff, shell=True, cwd=self.dir, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout, "the plan is as locked\n", "run the command below, and commit the lock")
        worse = shlex.split(diff)[1:] + ["--micro_batches=4"]
        self.assertIn("above 1%", run(*worse, cwd=self.dir, code=3)[1])

    def test_its_comment_writes_the_lock(self):
        """The command to write the lock, in the comment of the workflow."""
        command = re.search(r"^# +oneflow (compile .*)$", self.workflow, re.MULTILINE).group(1)
        lock = f"{EXAMPLE}/plan.lock"
        before = self.read(lock)
        run(*command.split(), cwd=self.dir)
        self.assertEqual(self.read(lock).decode(), before.decode(), f"run oneflow {command}")


if __name__ == "__main__":
    unittest.main()
