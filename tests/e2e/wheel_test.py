"""The wheel of tools/build_wheel, without its compression. pip installs it into a folder, where it plans and trains in an empty
environment, in Python and as a program of one process and of two, with no library of this machine but those of every Linux."""
import ast
import glob
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tests.e2e.cli import ONEFLOW
from tools.package_files import carry_libraries
from tools.wheel_files import wheel

# The module alone: the package needs Python's protobuf, and Debian's has libraries of the machine.
PLAN = """
import importlib.util, sys
def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
before = mapped()
spec = importlib.util.spec_from_file_location("_engine", sys.argv[1])
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)
for verb, *words in (["model", "gpt", "--layers=1", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256", "--out=gpt.textproto"],
                     ["compile", "--graph=gpt.textproto", "--mesh=data=2", "--batch=4", "--out=gpt.plan"]):
    code, message, *_ = engine.call(verb, words, None, None)
    assert code == 0, message
print(sorted(mapped() - before))
"""
TRAIN = """
import oneflow_actors as of
with of.Trainer("gpt.plan", data="text.txt", steps=2) as trainer:
    losses = [f"{step.loss:.4f}" for step in trainer]
print((losses, of.__file__))
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = pathlib.Path(temporary.name)
        made = wheel.write_wheel(wheel.make_tree(cls.dir / "tree"), cls.dir, seconds=1790000000, level=1)
        cls.site = cls.dir / "site"
        cls.run_in_folder(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir",
                          "--disable-pip-version-check", "--root-user-action=ignore", f"--target={cls.site}", made)
        cls.program = cls.site / "oneflow_actors/bin/oneflow"
        (cls.dir / "text.txt").write_text("The words to learn from are few. " * 40)
        engine = cls.site / list(wheel.BINARIES)[0]
        cls.loaded = ast.literal_eval(cls.run_in_folder(sys.executable, "-c", PLAN, engine).splitlines()[-1])

    @classmethod
    def run_in_folder(cls, *command, **environment):
        done = subprocess.run(command, cwd=cls.dir, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def strangers(self, files):
        return {file for file in map(pathlib.Path, files)
                if not file.resolve().is_relative_to(self.site.resolve()) and file.name not in carry_libraries.MANYLINUX}

    def test_the_module_has_its_own_libraries_and_no_network(self):
        names = {pathlib.Path(file).name for file in self.loaded}
        self.assertTrue(any(name.startswith("libprotobuf.") for name in names))
        self.assertEqual(set(), {name for name in names if re.match("libuc[mpst]|libgrpc|libgpr|libssl|libcrypto|libcpp-httplib", name)})
        libraries = [file for file in self.loaded if ".so" in file]
        self.assertEqual({"libstdc++.so.6.0.30"}, {file.name for file in self.strangers(libraries)})

    def test_it_trains_alike_in_python_and_as_a_program(self):
        """In Python beside Debian's protobuf, whose module has a C++ library of its own."""
        printed = self.run_in_folder(sys.executable, "-c", TRAIN, PYTHONPATH=str(self.site))
        from_python, file = ast.literal_eval(printed.splitlines()[-1])
        self.assertTrue(pathlib.Path(file).is_relative_to(self.site), file)
        losses = {"Python": from_python}
        for processes in ("1", "2"):
            printed = self.run_in_folder(self.program, "train", "--plan=gpt.plan", "--data=text.txt", "--steps=2",
                                         f"--processes={processes}", LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(self.dir / f"log{processes}"))
            losses[processes] = re.findall(r"^step .*loss (\S+)", printed, re.MULTILINE)
            logs = glob.glob(str(self.dir / f"log{processes}.*"))
            self.assertGreaterEqual(len(logs), int(processes))
            loaded = {file for log in logs for file in re.findall(r"calling init: (\S+)", pathlib.Path(log).read_text(errors="replace"))}
            self.assertEqual(set(), self.strangers(loaded))
        self.assertEqual(2, len(losses["1"]))
        self.assertEqual(losses["1"], losses["2"])
        self.assertEqual(losses["1"], losses["Python"])
        self.assertTrue(any(re.fullmatch(r".*/ucx/libuct_cma\.[0-9a-f]{8}\.so\.0", file) for file in loaded))  # UCX's own choice

    def test_the_command(self):
        """Its version and its build are those of the program that it is made beside."""
        version = self.run_in_folder(self.site / "bin/oneflow", "--version", PYTHONPATH=str(self.site))
        self.assertTrue(version.startswith(f"oneflow {wheel.VERSION}\n"), version)
        self.assertEqual(self.run_in_folder(ONEFLOW, "--version"), version)

    def test_no_function_is_there_twice(self):
        """A flag or a message that both the program and the core define would end the program."""
        def defined(path, *options):
            lines = subprocess.run(["nm", "--defined-only", *options, path], capture_output=True, text=True, check=True).stdout
            return set(re.findall(r" [TDBR] (\w*(?:oneflow|FLAGS_|descriptor_table)\w*)$", lines, re.MULTILINE))

        core = defined(f"tools/wheel_files/{wheel.CORE}", "--dynamic")
        self.assertGreater(len(core), 1000)
        for binary in wheel.BINARIES.values():
            self.assertEqual(set(), core & defined(binary), binary)

    def test_no_symbol_is_unique_in_the_process(self):
        for library in self.site.glob("oneflow_actors.libs/**/*.so*"):
            symbols = subprocess.run(["nm", "--dynamic", library], capture_output=True, text=True, check=True).stdout
            self.assertNotIn(" u ", symbols, library)

    def test_its_notices(self):
        text = next(self.site.glob("*.dist-info/NOTICES")).read_text()
        for library in self.site.glob("oneflow_actors.libs/**/*.so*"):
            name = re.sub(r"\.[0-9a-f]{8}\.so", ".so", library.name)
            if name != wheel.CORE:
                self.assertIn(name, text)
        self.assertIn("pybind11 ", text)

    def test_a_binary_that_is_newer_than_its_tag(self):
        with mock.patch.dict(wheel.NEWEST, GLIBC=(2, 30)):
            self.assertRegex(str(wheel.too_new([self.program])), r"'oneflow': \{.*'GLIBC_2\.3[0-9]'")

    def test_the_same_files_make_the_same_wheel(self):
        made = []
        for name in ("first", "second"):
            folder = self.dir / name
            (folder / "tree").mkdir(parents=True)
            (folder / "tree/file.py").write_text("1\n")
            made.append(wheel.write_wheel(folder / "tree", folder, seconds=0).read_bytes())
        self.assertEqual(*made)


if __name__ == "__main__":
    unittest.main()
