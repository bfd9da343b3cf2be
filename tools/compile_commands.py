#!/usr/bin/env python3
"""Writes compile_commands.json for clang-tidy and editors. Build first: it takes generated headers
from bazel-out.

  tools/compile_commands.py [--startup=OPTION...] [bazel option or target...]    (default: //...)
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GCC_ONLY = {"-fno-canonical-system-headers", "-Wunused-but-set-parameter", "-fpch-deps"}


def for_clang(arguments):
    """A command of g++ as clang understands it: without the precompiled header."""
    kept = list(arguments)
    if "-include" in kept:
        at = kept.index("-include")
        del kept[at:at + 2]
    return [argument for argument in kept if argument not in GCC_ONLY]


def compile_actions(arguments):
    startup = [a.removeprefix("--startup=") for a in arguments if a.startswith("--startup=")]
    options = [a for a in arguments if a.startswith("-") and not a.startswith("--startup=")]
    targets = [a for a in arguments if not a.startswith("-")] or ["//..."]
    command = ["bazel", *startup, "aquery", "--define=together=false", "--output=jsonproto", "--include_artifacts=false",
               "--ui_event_filters=-info", "--noshow_progress", *options,
               f'mnemonic("CppCompile", {" + ".join(targets)})']
    return json.loads(subprocess.check_output(command, cwd=ROOT)).get("actions", [])


def main():
    entries = {}
    for action in compile_actions(sys.argv[1:]):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        if not source.startswith(("external/", "bazel-out/")):
            entries.setdefault(source, {
                "directory": str(ROOT),
                "file": str(ROOT / source),
                "arguments": for_clang(arguments),
            })
    text = json.dumps(list(entries.values()), indent=1)
    (ROOT / "compile_commands.json").write_text(text + "\n", encoding="utf-8")
    print(f"compile_commands.json: {len(entries)} files")


if __name__ == "__main__":
    main()
