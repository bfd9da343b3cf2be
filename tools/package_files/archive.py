#!/usr/bin/env python3
"""The files of the package, a folder or an archive of it. `tools/package` calls it with the program that it has built.

  tools/package_files/archive.py --oneflow=bazel-bin/tools/oneflow/oneflow --out=oneflow.tar.gz

The same files make the same archive, byte by byte.
"""
import argparse
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT))

from tools.package_files import carry_libraries, notices  # pylint: disable=wrong-import-position

VERSION = (ROOT / "tools/version.txt").read_text(encoding="utf-8").strip()
NAME = f"oneflow-{VERSION}-linux-x86_64"
COMPLETIONS = {"bash": "share/bash-completion/completions/oneflow", "zsh": "share/zsh/site-functions/_oneflow"}
README = f"""oneflow {VERSION} for CPUs. It runs in any folder, where glibc is at least 2.36 (Debian 12).

  bin/oneflow --help       all verbs; `ln -s $PWD/bin/oneflow ~/.local/bin/` makes it a command
  source {COMPLETIONS["bash"]}     completes words in bash; in zsh: fpath=($PWD/share/zsh/site-functions $fpath)

docs/ and examples/ are those of this version. NOTICES names the libraries in lib/, and their licences.
"""


def make_folder(folder, oneflow, root=ROOT):
    """Fills a new folder with the package: the program, its libraries, completions, docs, examples and notices."""
    program = folder / "bin/oneflow"
    program.parent.mkdir(parents=True)
    subprocess.run(["strip", "-o", os.fspath(program), os.fspath(oneflow)], check=True)
    program.chmod(0o755)
    carried = carry_libraries.carry([program], into=folder / "lib", rpath="$ORIGIN/../lib")
    for shell, path in COMPLETIONS.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(subprocess.run([program, "completion", shell], stdout=subprocess.PIPE, check=True).stdout)
    for name in ("docs", "examples"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("BUILD.bazel", "results", "__pycache__"))
    (folder / "NOTICES").write_text(notices.notices(carried.values()), encoding="utf-8")
    (folder / "README").write_text(README, encoding="utf-8")


def write_archive(folder, file, seconds):
    """Packs `folder` as a folder of that name; `seconds`: the time of all files."""
    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = seconds
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with open(file, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(folder, arcname=folder.name, filter=plain)


def check(file):
    """Raises an error if the archive, unpacked anywhere, does not run with what it holds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "--extract", "--gzip", "--file", os.fspath(file), "--directory", folder], check=True)
        package = pathlib.Path(folder) / NAME
        version = subprocess.run([package / "bin/oneflow", "--version"], env={}, capture_output=True, text=True, check=True).stdout
        if not version.startswith(f"oneflow {VERSION}\n"):
            raise LookupError(f"the program is not that of {VERSION}: {version.splitlines()[0]}")
        if found := carry_libraries.taken_from_machine([package / "bin/oneflow"], package / "lib"):
            raise LookupError(f"taken from this machine: {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oneflow", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist" / f"{NAME}.tar.gz", help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=int(time.time()), help="time of the files in the archive; default: now")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            make_folder(pathlib.Path(folder) / NAME, args.oneflow)
            args.out.parent.mkdir(parents=True, exist_ok=True)
            write_archive(pathlib.Path(folder) / NAME, args.out, args.seconds)
        check(args.out)
    except LookupError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {args.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
