#!/usr/bin/env python3
"""Checks that objects of nvcc hold code for the GPUs that exist, and PTX for later ones.

  tools/check_fat_binary.py FILE...      objects of .cu files

Each must hold code of sm_80 and sm_90 and PTX of compute_90, which a driver compiles for architectures that have no code
here. Prints what is missing; exits 1 if anything is.
"""
import struct
import sys

NEEDED = {("code", 80), ("code", 90), ("PTX", 90)}
MAGIC = struct.pack("<I", 0xBA55ED50)
# Of a fat binary: magic, version, bytes of the header, bytes of the entries.
HEADER = struct.Struct("<IHHQ")
# Of an entry: kind, version, bytes of the header, bytes of the content, compressed bytes, options, version, architecture.
ENTRY = struct.Struct("<HHIQIIII")
KINDS = {1: "PTX", 2: "code"}


def entries(data):
    """{(kind, architecture)} of the fat binaries in an object."""
    found = set()
    at = data.find(MAGIC)
    while at >= 0:
        _, _, header, size = HEADER.unpack_from(data, at)
        entry, end = at + header, at + header + size
        while entry + ENTRY.size <= min(end, len(data)):
            kind, _, header, content, _, _, _, architecture = ENTRY.unpack_from(data, entry)
            found.add((KINDS.get(kind, f"kind {kind}"), architecture))
            entry += header + content
        at = data.find(MAGIC, max(end, at + 1))
    return found


def problems(path, data):
    missing = sorted(NEEDED - entries(data))
    if missing:
        yield f"{path}: holds no " + ", no ".join(f"{kind} of {architecture}" for kind, architecture in missing)


def main():
    wrong = []
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            wrong += problems(path, file.read())
    print("\n".join(wrong) if wrong else f"fat binaries: {len(sys.argv) - 1} objects hold code of sm_80 and sm_90, and PTX")
    return 1 if wrong or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
