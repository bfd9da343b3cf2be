#!/usr/bin/env python3
"""Checks what ptxas says of kernels: no stack frame and no spilled registers but those that are accounted for.

  tools/check_ptxas.py ALLOWED FILE...

A FILE is the output of `ptxas -v` (the output group `ptxas` of a cuda_library). ALLOWED lists the kernels that may have
some, a line each: the kernel's name, the most bytes of stack frame, the most bytes spilled (stores and loads together),
the reason. Prints what is wrong; exits 1 if anything is.
"""
import re
import subprocess
import sys

PROPERTIES = re.compile(r"^ptxas info\s*: Function properties for (\S+)")
COMPILING = re.compile(r"^ptxas info\s*: Compiling entry function '(\S+)' for '(\w+)'")
FIGURES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def functions(lines):
    """(mangled name, architecture, stack bytes, spilled bytes) of each function."""
    name = architecture = ""
    for line in lines:
        if found := COMPILING.match(line):
            architecture = found[2]
        elif found := PROPERTIES.match(line):
            name = found[1]
        elif found := FIGURES.search(line):
            yield name, architecture, int(found[1]), int(found[2]) + int(found[3])


def demangled(names):
    """{mangled: the function's name without its template's and its own arguments}."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, map(plain_name, text.splitlines())))


def plain_name(function):
    """"void oneflow::cuda::(anonymous namespace)::Add<float>(float*)" -> "Add"."""
    function = function.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    return re.split(r"[<(]", function)[0].strip().split("::")[-1]


def allowed_kernels(text):
    """{kernel: (most bytes of stack frame, most bytes spilled)} of the list; a line without a reason is an error."""
    allowed = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        kernel, stack, spilled, _ = line.split(None, 3)
        allowed[kernel] = (int(stack), int(spilled))
    return allowed


def problems(allowed, found):
    """Lines of text, one a kernel and architecture; `found` as of functions()."""
    found = sorted(set(found))
    names = demangled(sorted({name for name, *_ in found}))
    used = set()
    for mangled, architecture, stack, spilled in found:
        kernel = names[mangled]
        most_stack, most_spilled = allowed.get(kernel, (0, 0))
        if stack or spilled:
            used.add(kernel)
        if stack > most_stack or spilled > most_spilled:
            yield (f"{kernel} ({architecture}, {mangled}): a stack frame of {stack} bytes and {spilled} bytes spilled, "
                   f"{most_stack} and {most_spilled} are allowed")
    for kernel in sorted(set(allowed) - used):
        yield f"{kernel}: has neither stack frame nor spills any more; strike it off the list"


def main():
    with open(sys.argv[1], encoding="utf-8") as listing:
        allowed = allowed_kernels(listing.read())
    found = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as lines:
            found += functions(lines)
    wrong = list(problems(allowed, found))
    print("\n".join(wrong) if wrong else f"ptxas: no problems in {len(set(found))} kernels")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
