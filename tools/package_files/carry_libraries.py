#!/usr/bin/env python3
"""Carries the shared libraries that programs need beside them, so that they run where these are not installed.

  carried = carry([root / "bin/oneflow"], into=root / "lib", rpath="$ORIGIN/../lib")
  (root / "NOTICES").write_text(notices.notices(carried.values()))
  assert not taken_from_machine([root / "bin/oneflow"], root / "lib")

  tools/package_files/carry_libraries.py --into=out/lib out/bin/oneflow           # prints what is carried
  tools/package_files/carry_libraries.py --check --into=out/lib out/bin/oneflow   # says what is not

A library keeps its name (its SONAME). What a binary needs is what the loader of this machine finds for it (ldd), the needs of
libraries included. Left to the machine is `base`: glibc, which belongs to the kernel's side of a machine and must be at least
as new as here, and the libraries of drivers, which match the machine's devices. libstdc++ is carried unless `base` has it.

UCX opens its transports at run time, from the folder ucx/ beside libucs.so.0, so these are carried as into/ucx/*. Those of
InfiniBand (ib, rdmacm) need libraries of drivers, libibverbs and librdmacm; where the machine has none, UCX passes over them.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

GLIBC = frozenset({"libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2",
                   "libutil.so.1", "libanl.so.1", "libnsl.so.1", "ld-linux-x86-64.so.2"})
DRIVERS = frozenset({"libcuda.so.1", "libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1", "libnl-3.so.200",
                     "libnl-route-3.so.200"})
# What a wheel leaves to the machine, by the policy of manylinux.
MANYLINUX = GLIBC | {"libstdc++.so.6", "libgcc_s.so.1"}
UCX_MODULES = ("cma", "ib", "rdmacm")


def resolve(binary):
    """What the loader finds for a binary: {"libucp.so.0": Path("/lib/x86_64-linux-gnu/libucp.so.0")}."""
    command = subprocess.run(["ldd", os.fspath(binary)], env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                             capture_output=True, text=True, check=False)
    if command.returncode != 0:
        raise LookupError(f"{binary}: {(command.stdout + command.stderr).strip()}")
    found = {}
    for line in command.stdout.splitlines():
        name, arrow, where = line.strip().partition(" => ")
        if where.startswith("not found"):
            raise LookupError(f"{binary}: {name} is not found; is its package installed (tools/install_deps)?")
        if arrow:
            found[name] = pathlib.Path(where.rsplit(" (", 1)[0])
    return found


def set_rpath(files, rpath):
    """Makes the loader look at `rpath` first, before LD_LIBRARY_PATH, for what the files need."""
    subprocess.run(["patchelf", "--force-rpath", "--set-rpath", rpath, *map(os.fspath, files)], check=True)


def carry(binaries, into, rpath, base=GLIBC | DRIVERS, ucx_modules=UCX_MODULES):
    """Copies what `binaries` need, without `base`, into the folder `into`, and makes each of them look there.

    binaries: programs and libraries, of which each is changed in place; strip them before, not after.
    rpath: from the folder of each binary to `into`, as "$ORIGIN/../lib".
    ucx_modules: transports of UCX to carry, where a binary needs UCX; () for none.

    Returns {carried file: the file that it is a copy of}. Called for further binaries with the same `into`, it adds what they
    need. LookupError: a library is not installed. Needs ldd and patchelf.
    """
    binaries = [pathlib.Path(binary) for binary in binaries]
    libraries, modules = {}, {}
    for binary in binaries:
        libraries.update(resolve(binary))
    if "libucs.so.0" in libraries:
        folder = libraries["libucs.so.0"].resolve().parent / "ucx"
        modules = {f"libuct_{module}.so.0": folder / f"libuct_{module}.so.0" for module in ucx_modules}
        for file in modules.values():
            libraries.update(resolve(file))
    into = pathlib.Path(into)
    carried = {into / name: file for name, file in libraries.items() if name not in base and name not in modules}
    carried_modules = {into / "ucx" / name: file for name, file in modules.items()}
    for copy, file in (carried | carried_modules).items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        copy.chmod(0o644)
    set_rpath(binaries, rpath)
    if carried:
        set_rpath(carried, "$ORIGIN")
    if carried_modules:
        set_rpath(carried_modules, "$ORIGIN/..:$ORIGIN")
    return carried | carried_modules


def taken_from_machine(binaries, into, base=GLIBC | DRIVERS):
    """What the loader would take from outside `into` for `binaries`, without `base`: {name: file}. Empty if all is carried."""
    into = pathlib.Path(into).resolve()
    return {name: file for binary in binaries for name, file in resolve(binary).items()
            if name not in base and not file.resolve().is_relative_to(into)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--into", required=True, type=pathlib.Path, help="folder of the libraries")
    parser.add_argument("--rpath", default="$ORIGIN/../lib", help="from the folder of a binary to --into; default: %(default)s")
    parser.add_argument("--check", action="store_true", help="changes nothing; exits 1 if a library is not taken from --into")
    args = parser.parse_args()
    try:
        if args.check:
            strangers = taken_from_machine(args.binaries, args.into)
            if strangers:
                raise LookupError("taken from this machine: " + ", ".join(map(str, strangers.values())))
        else:
            print(*sorted(carry(args.binaries, args.into, args.rpath)), sep="\n")
    except LookupError as error:
        print(f"carry_libraries: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
