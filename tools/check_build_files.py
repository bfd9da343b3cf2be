#!/usr/bin/env python3
"""Checks every tracked BUILD.bazel and .bzl file. Prints what is wrong; exits 1 if anything is."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("proto", "oneflow_core", "compiler", "actor_runtime", "tools")
NATIVE_RULE = re.compile(r"^\s*(cc_library|cc_binary|cc_test|proto_library)\(")


def problems(path, text):
    in_room = path.split("/")[0] in ROOMS
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    for number, line in enumerate(text.splitlines(), 1):
        at = f"{path}:{number}"
        if "\t" in line:
            yield f"{at}: tab; indent by four spaces"
        if line != line.rstrip():
            yield f"{at}: white space at the end of the line"
        if in_room and (native := NATIVE_RULE.match(line)):
            yield f"{at}: use oneflow_{native[1]} (//bazel)"
        if in_room and "//visibility:public" in line:
            yield f"{at}: name the readers, or say nothing (bazel/rooms.bzl)"


def main():
    files = subprocess.check_output(["git", "ls-files", "*BUILD.bazel", "*.bzl", "WORKSPACE"],
                                    cwd=ROOT, text=True).split()
    found = [problem for path in files if (ROOT / path).exists()
             for problem in problems(path, (ROOT / path).read_text(encoding="utf-8"))]
    found += [f"{path}: name it BUILD.bazel" for path in subprocess.check_output(
        ["git", "ls-files", "BUILD", "**/BUILD"], cwd=ROOT, text=True).split()]
    print("\n".join(found) if found else "BUILD files: no problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
