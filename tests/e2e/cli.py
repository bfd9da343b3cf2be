"""Runs the command line in a temporary folder; reads what it writes; .npy files without NumPy."""
import array
import json
import os
import struct
import subprocess
import tempfile
import unittest

ONEFLOW = os.path.abspath("tools/oneflow/oneflow")  # the runfiles' root is the working folder


REPEATED = ("--feed", "--fetch", "--stop", "--sbatch_option", "--compare")


def replaced(args):
    """The arguments without flags that are given again later: cases vary the flags that their class begins with."""
    names = [os.fsdecode(arg).split("=")[0] if b"=" in os.fsencode(arg) else None for arg in args]
    last = {name: i for i, name in enumerate(names) if name and name.startswith("--")}
    return [arg for i, arg in enumerate(args) if last.get(names[i], i) == i or names[i] in REPEATED]


def run(*args, cwd, code=0, preexec_fn=None, as_written=False):
    """Runs `oneflow args`, a flag that is given again replacing the one before unless as_written; asserts the exit code;
    returns (stdout, stderr)."""
    args = args if as_written else replaced(args)
    done = subprocess.run([ONEFLOW, *args], cwd=cwd, capture_output=True, text=True, errors="replace",
                          env=dict(os.environ, GLOG_logtostderr="1"), preexec_fn=preexec_fn, check=False)
    assert done.returncode == code, (
        f"oneflow {' '.join(map(str, args))}: exit code {done.returncode}, wanted {code}\n{done.stdout}\n{done.stderr}")
    return done.stdout, done.stderr


class FolderCase(unittest.TestCase):
    """Tests that share a temporary folder, cls.dir."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = temporary.name

    @classmethod
    def write(cls, name, data):
        """data: text or bytes."""
        with open(f"{cls.dir}/{name}", "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    @classmethod
    def read(cls, name):
        with open(f"{cls.dir}/{name}", "rb") as file:
            return file.read()


class TwoStagesCase(FolderCase):
    """Tests that share a plan of a small GPT on two stages, gpt.plan."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)

    def simulate(self, *flags):
        return run("simulate", "--plan=gpt.plan", *flags, cwd=self.dir)[0]


def write_npy(path, dims, values, type="f"):
    """type: f, an f32 file; i, an i32 file."""
    shape = "(" + "".join(f"{d}, " for d in dims) + ")"
    header = f"{{'descr': '<{type}4', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(array.array(type, values).tobytes())


def read_npy(path):
    """(dims, values) of an f32 file."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length].decode())  # a Python literal, by the format's definition
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    return list(header["shape"]), list(array.array("f", data[10 + length:]))


def read_slices(folder):
    """{(variable, begin, size): bytes} of a checkpoint, whichever ranks wrote them."""
    with open(os.path.join(folder, "manifest.json")) as file:
        variables = json.load(file)["variables"]
    slices = {}
    for variable in variables:
        for piece in variable["slices"]:
            with open(os.path.join(folder, piece["file"]), "rb") as file:
                file.seek(piece["offset"])
                slices[variable["name"], *piece["begin"], *piece["size"]] = file.read(piece["bytes"])
    return slices


def read_metrics(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]
