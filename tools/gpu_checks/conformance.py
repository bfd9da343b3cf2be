"""Kernels: each against its twin, and under compute-sanitizer."""
import re

from gpu_checks import machine

# The tests of kernels on a GPU, in the bundle's bin.
PROGRAM = "kernel_test"
# Tools of compute-sanitizer, and what each looks for. Its exit code is made 99 where it finds something.
SANITIZERS = {"memcheck": "accesses outside of memory", "racecheck": "races in shared memory",
              "synccheck": "barriers that not all threads reach", "initcheck": "reads of what was not written"}


def test_names(here):
    done = here.run(machine.program(PROGRAM), "--list-test-names-only")
    # Catch2 returns the number of tests.
    return [line.strip() for line in done.out.splitlines() if line.strip()]


def select(name):
    """A test's name as Catch2's argument: commas and brackets mean something there."""
    return re.sub(r"([,\[\]*\\])", r"\\\1", name)


def conformance(here, part):
    missing = here.missing_library("cuBLASLt")
    names = test_names(here)
    if not names:
        part.fail(PROGRAM, "lists no tests")
    for name in names:
        done = here.run(machine.program(PROGRAM), select(name))
        if done.code != 0 and missing:
            part.skip(name, missing)
        else:
            part.judge(done.code == 0, name, done.out if done.code else done.why(), seconds=done.seconds)


def sanitizer(here, part):
    tool = here.tool("compute-sanitizer")
    if tool is None:
        part.skip("all", "compute-sanitizer is not on PATH, nor in /usr/local/cuda/bin")
        return
    for kind, what in SANITIZERS.items():
        done = here.run(tool, "--tool=" + kind, "--error-exitcode=99", machine.program(PROGRAM))
        part.judge(done.code == 0, f"{kind}: {what}", (done.out + done.err)[-4000:], seconds=done.seconds)
