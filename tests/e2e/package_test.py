"""The package of tools/package, without the build and the compression: it runs in another folder and an empty environment, in one
process and in two, with no library of this machine but glibc; its notices name every library."""
import glob
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW
from tools.package_files import archive, carry_libraries, notices


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = pathlib.Path(temporary.name)
        archive.make_folder(cls.dir / "made", ONEFLOW)
        cls.package = (cls.dir / "made").rename(cls.dir / "moved")

    def oneflow(self, *args, **environment):
        return subprocess.run([self.package / "bin/oneflow", *args], cwd=self.dir, env=environment, capture_output=True, text=True,
                              check=True).stdout

    def test_it_runs_with_its_own_libraries(self):
        self.assertEqual(f"oneflow {archive.VERSION}", self.oneflow("--version").splitlines()[0])
        self.oneflow("model", "gpt", "--layers=1", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256", "--out=gpt.textproto")
        self.oneflow("compile", "--graph=gpt.textproto", "--mesh=data=2", "--batch=4", "--out=gpt.plan")
        (self.dir / "text.txt").write_text("The words to learn from are few. " * 40)
        loaded, losses = {}, {}
        for processes in ("1", "2"):
            printed = self.oneflow("train", "--plan=gpt.plan", "--data=text.txt", "--steps=2", f"--processes={processes}",
                                   LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(self.dir / f"loaded{processes}"))
            losses[processes] = re.findall(r"^step .*loss (\S+)", printed, re.MULTILINE)
            logs = glob.glob(str(self.dir / f"loaded{processes}.*"))
            self.assertGreaterEqual(len(logs), int(processes))
            loaded[processes] = {pathlib.Path(file) for log in logs
                                 for file in re.findall(r"calling init: (\S+)", pathlib.Path(log).read_text(errors="replace"))}
        self.assertEqual(losses["1"], losses["2"])
        self.assertEqual(2, len(losses["2"]))
        own = (self.package / "lib").resolve()
        left = carry_libraries.GLIBC | carry_libraries.DRIVERS
        for processes, files in loaded.items():
            strangers = {file for file in files if not file.resolve().is_relative_to(own) and file.name not in left}
            self.assertEqual(set(), strangers, processes)
        self.assertIn("libuct_cma.so.0", {file.name for file in loaded["2"]})  # UCX's own choice, opened at run time

    def test_what_else_it_holds(self):
        text = (self.package / "NOTICES").read_text()
        for library in self.package.glob("lib/**/*.so*"):
            self.assertIn(library.name, text)
        self.assertIn("nlohmann-json3 ", text)
        self.assertIn("GNU GENERAL PUBLIC LICENSE", text)
        for path in ["README", "docs/cli.md", "examples/two_layers.textproto", *archive.COMPLETIONS.values()]:
            self.assertGreater((self.package / path).stat().st_size, 100, path)
        self.assertFalse(list(self.package.glob("**/BUILD.bazel")))

    def test_the_same_files_make_the_same_archive(self):
        folder = self.dir / "small"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/program").write_text("#!/bin/sh\n")
        (folder / "bin/program").chmod(0o700)
        made = []
        for name in ("a.tar.gz", "b.tar.gz"):
            archive.write_archive(folder, self.dir / name, 1790000000)
            made.append((self.dir / name).read_bytes())
            (folder / "bin/program").touch()
        self.assertEqual(*made)
        listed = subprocess.run(["tar", "-tvzf", self.dir / "a.tar.gz"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(listed, r"-rwxr-xr-x 0/0 +10 2026-09-21 .* small/bin/program\n")

    def test_what_cannot_be_carried(self):
        program = self.dir / "program"
        shutil.copyfile(self.package / "bin/oneflow", program)
        subprocess.run(["patchelf", "--add-needed", "libnone.so.1", program], check=True)
        into = self.dir / "libraries"
        command = [sys.executable, carry_libraries.__file__, f"--into={into}", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((1, f"carry_libraries: {program}: libnone.so.1 is not found; is its package installed (tools/install_deps)?\n"),
                         (done.returncode, done.stderr))
        self.assertFalse(into.exists())
        with self.assertRaisesRegex(LookupError, "not a dynamic executable"):
            carry_libraries.resolve(self.package / "README")
        with self.assertRaisesRegex(LookupError, "program: belongs to no Debian package"):
            notices.notices([program])


if __name__ == "__main__":
    unittest.main()
