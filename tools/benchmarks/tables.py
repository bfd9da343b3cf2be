"""Tables of simulated plans in pages of docs/: simulates every row again and prints the tables.

A table is one whose first column has flags of `oneflow model` (`gpt --preset=gpt2-124m`; empty: those of the row above), the second,
whose head is `oneflow simulate FLAG...`, more of its flags, and whose other columns are named here. Bytes and seconds are those of
the stage that has most. --write puts the new figures into the page.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from benchmarks.sides import ROOT

TARGETS = []
GIB = 2 ** 30
HEAD = re.compile(r"^\| `oneflow model` \| `oneflow simulate (.*?)` \| (.*) \|$")


def most(field, unit=1):
    return lambda summary: max(stage[field] for stage in summary["stages"]) / unit


# By the name of a column: the figure in the JSON of `oneflow simulate`, and its format.
COLUMNS = {
    "GPUs": (lambda summary: summary["devices"], "{}"),
    "GiB a GPU": (most("arena_bytes", GIB), "{:.1f}"),
    "GiB of its host": (most("host_arena_bytes", GIB), "{:.1f}"),
    "step, s": (lambda summary: summary["step_seconds"], "{:.2f}"),
    "exposed exchange, s": (most("exposed_exchange_seconds"), "{:.2f}"),
    "exposed copies, s": (most("exposed_copy_seconds"), "{:.2f}"),
    "idle, s": (most("idle_seconds"), "{:.2f}"),
    "tokens/s a GPU": (lambda summary: summary["tokens_per_second_per_device"], "{:,.0f}"),
    "MFU": (lambda summary: 100 * summary["mfu"], "{:.0f} %"),
}


def add_flags(parser):
    parser.add_argument("pages", nargs="+", metavar="PAGE", help="a file, as docs/models.md")
    parser.add_argument("--only", default="", help="only rows that contain this")
    parser.add_argument("--write", action="store_true", help="writes the new figures into the pages")


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench tables: {' '.join(command)}: {done.stderr}")
    return done.stdout


class Tables:
    """Reads the lines of a page in their order."""

    def __init__(self, oneflow, folder, only):
        self.oneflow, self.only = oneflow, only
        self.graph = os.path.join(folder, "model.textproto")
        self.head, self.model = None, ""

    def update(self, line):
        """The line, with new figures if it is a row; None if it is no line of a table."""
        if HEAD.match(line) or not line.startswith("|"):
            self.head = HEAD.match(line)
            return line if self.head else None
        if not self.head:
            return None
        model, flags, *_ = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        self.model = model or self.model
        if set(line) <= set("|-") or self.only not in line:
            return line
        call(self.oneflow, "model", *self.model.split(), "--out=" + self.graph)
        summary = json.loads(call(self.oneflow, "simulate", "--graph=" + self.graph, *self.head[1].split(), *flags.split(),
                                  "--format=json"))
        figures = [text.format(figure(summary)) for figure, text in map(COLUMNS.__getitem__, self.head[2].split(" | "))]
        return " | ".join(["|" + (f" `{model}`" if model else ""), f"`{flags}`" if flags else "", *figures]) + " |"


def run(args, binaries):
    for page in (os.path.join(ROOT, page) for page in args.pages):
        with open(page) as file, tempfile.TemporaryDirectory() as folder:
            tables = Tables(os.path.join(binaries, "tools/oneflow/oneflow"), folder, args.only)
            lines = []
            for line in file.read().splitlines():
                new = tables.update(line)
                if new is not None:
                    print(new, flush=True)
                lines.append(line if new is None else new)
        if args.write:
            with open(page, "w") as file:
                file.write("\n".join(lines) + "\n")
