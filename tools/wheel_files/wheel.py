#!/usr/bin/env python3
"""The wheel of the Python package oneflow_actors. `tools/build_wheel` runs it among the files that Bazel has made (its runfiles).

  write_wheel(make_tree(folder / "tree"), folder, seconds=0)      # folder / WHEEL

It holds the package, its module `_engine`, the program `oneflow`, and in oneflow_actors.libs/ the libraries of both: liboneflow_core.so,
which is the code that they have in common, and those that the policy of manylinux does not count on. All are renamed, in files and
SONAMEs, as auditwheel does: a process that has loaded another libprotobuf.so.32 keeps that for itself. One digest renames all. UCX
opens libuct_NAME with the ending of libucs, in its own folder and then in the machine's; the digest is part of the ending, so the
machine's transports, which need another UCX, do not match. Those of InfiniBand are left out, for they need a driver's libraries.

The same files make the same wheel, byte by byte.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT))

from tools.package_files import carry_libraries, notices  # pylint: disable=wrong-import-position

VERSION = (ROOT / "tools/version.txt").read_text(encoding="utf-8").strip()
PACKAGE = "oneflow_actors"
TAG = "cp311-cp311-manylinux_2_36_x86_64"
WHEEL = f"{PACKAGE}-{VERSION}-{TAG}.whl"
BINARIES = {f"{PACKAGE}/_engine.cpython-311-x86_64-linux-gnu.so": "tools/wheel_files/_engine.so",
            f"{PACKAGE}/bin/oneflow": "tools/oneflow/oneflow_of_wheel"}
CORE = "liboneflow_core.so"
# The newest versions of symbols that the tag promises to need.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
SHT_DYNSYM, STB_GLOBAL, STB_GNU_UNIQUE = 11, 1, 10  # of elf.h
METADATA = f"""Metadata-Version: 2.1
Name: oneflow-actors
Version: {VERSION}
Summary: Plans and trains GPT models: every plan is proved before it runs
Requires-Python: >=3.11,<3.12
Requires-Dist: jinja2
Requires-Dist: numpy
Requires-Dist: protobuf>=4.21

import oneflow_actors plans, trains and generates; the command `oneflow --help` lists the verbs of the program. NOTICES, beside
this file, names the libraries that are inside, and their licences.
"""
# Starts the program without importing the package; its scripts run in the same Python, which pip writes into the first line.
SCRIPT = f"""#!python
import importlib.util, os, sys
os.environ.setdefault("ONEFLOW_PYTHON", sys.executable)
program = os.path.join(importlib.util.find_spec("{PACKAGE}").submodule_search_locations[0], "bin", "oneflow")
os.execv(program, ["oneflow", *sys.argv[1:]])
"""


def rename(binaries, libraries):
    """Gives the libraries names with a digest of all of them, by which `binaries` and they themselves know each other.

    libraries: {file: what it is a copy of}. Returns the same with the new names.
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in libraries.values())).hexdigest()[:8]
    names = {file.name: file.name.replace(".so", f".{digest}.so", 1) for file in libraries}
    for file in [*binaries, *libraries]:
        needed = subprocess.run(["patchelf", "--print-needed", file], capture_output=True, text=True, check=True).stdout.split()
        if options := [word for name in needed if name in names for word in ("--replace-needed", name, names[name])]:
            subprocess.run(["patchelf", *options, file], check=True)
        if file in libraries:  # patchelf 0.14 confuses the names if it does both at once
            subprocess.run(["patchelf", "--set-soname", names[file.name], file], check=True)
    return {file.rename(file.with_name(names[file.name])): source for file, source in libraries.items()}


def make_symbols_ordinary(file):
    """Makes unique symbols of a library (STB_GNU_UNIQUE) ordinary ones.

    Of a unique symbol a process has but one, even if two modules of Python know nothing of each other: two versions of Protobuf
    would have one ShutdownData. Ordinary ones are looked up among the libraries of the module that loads them.
    """
    data = bytearray(file.read_bytes())
    sections, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for section in range(sections, sections + size * count, size):
        kind, offset, length = (struct.unpack_from(form, data, section + at)[0] for form, at in (("<I", 4), ("<Q", 24), ("<Q", 32)))
        for symbol in range(offset, offset + length, 24) if kind == SHT_DYNSYM else ():
            binding, rest = divmod(data[symbol + 4], 16)
            data[symbol + 4] = (STB_GLOBAL if binding == STB_GNU_UNIQUE else binding) * 16 + rest
    file.write_bytes(data)


def too_new(files):
    """Symbols' versions, of libraries that the machine has, that are newer than the tag promises: {file name: versions}."""
    found = {}
    for file in files:
        needs = subprocess.run(["readelf", "--wide", "--version-info", file], capture_output=True, text=True, check=True).stdout
        for name, version in re.findall(r"Name: ([A-Z]+)_([0-9.]+) ", needs):
            if name in NEWEST and tuple(map(int, version.split("."))) > NEWEST[name]:
                found.setdefault(file.name, set()).add(f"{name}_{version}")
    return found


def copy_binaries(tree, root):
    """Copies module, program and libraries into `tree`, where they find each other. Returns {library: its source}."""
    libraries = tree / f"{PACKAGE}.libs"
    libraries.mkdir()
    sources = {libraries / CORE: root / f"tools/wheel_files/{CORE}"} | {tree / file: root / source for file, source in BINARIES.items()}

    def find_libraries():
        for file in sources:
            carry_libraries.set_rpath([file], f"$ORIGIN/{os.path.relpath(libraries, file.parent)}")

    for file, source in sources.items():
        file.parent.mkdir(exist_ok=True)
        subprocess.run(["strip", "-o", file, source], check=True)
        file.chmod(0o755)
    find_libraries()  # ldd looks for the core
    carried = carry_libraries.carry(sources, libraries, "$ORIGIN", carry_libraries.MANYLINUX | {CORE}, ucx_modules=("cma",))
    find_libraries()
    core, *binaries = sources
    renamed = rename(binaries, carried | {core: sources[core]})
    for file in [*binaries, *renamed]:
        make_symbols_ordinary(file)
    if found := carry_libraries.taken_from_machine([*binaries, *renamed], libraries, carry_libraries.MANYLINUX):
        raise LookupError(f"taken from this machine: {found}")
    if found := too_new([*binaries, *renamed]):
        raise LookupError(f"newer than {TAG} allows: {found}")
    return renamed


def make_tree(tree, root=ROOT):
    """Fills a new folder with what the wheel unpacks to. LookupError: a library is missing, or too new for the tag."""
    shutil.copytree(root / "tools/python" / PACKAGE, tree / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    carried = [source for source in copy_binaries(tree, root).values() if source.name != CORE]
    information = tree / f"{PACKAGE}-{VERSION}.dist-info"
    script = tree / f"{PACKAGE}-{VERSION}.data/scripts/oneflow"
    for file, text in {
            information / "METADATA": METADATA,
            information / "WHEEL": f"Wheel-Version: 1.0\nGenerator: oneflow\nRoot-Is-Purelib: false\nTag: {TAG}\n",
            information / "NOTICES": notices.notices(carried, (*notices.HEADERS, "pybind11-dev")),
            script: SCRIPT}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return tree


def write_wheel(tree, folder, seconds, level=9):
    """Packs `tree` as folder/WHEEL, with the list of its files. seconds: the time of all files; level: of compression."""
    record = f"{PACKAGE}-{VERSION}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(folder / WHEEL, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as wheel:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, time.gmtime(max(seconds, 315532800))[:6])  # a zip knows no time before 1980
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for file in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, data = str(file.relative_to(tree)), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, 0o755 if file.stat().st_mode & 0o100 else 0o644)
        add(record, "".join(lines) + f"{record},,\n", 0o644)
    return folder / WHEEL


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the wheel")
    parser.add_argument("--seconds", type=int, default=int(time.time()), help="time of the files in the wheel; default: now")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            wheel = write_wheel(make_tree(pathlib.Path(folder) / "tree"), args.out, args.seconds)
    except LookupError as error:
        print(f"build_wheel: {error}", file=sys.stderr)
        return 1
    print(f"{wheel}: {wheel.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
