"""Runs the commands of a page of documentation, as a reader would type them, and compares what it shows of their output.

A block between ``` whose first line begins with "$ " is a session: commands and what they print. One whose first line
begins with "oneflow " has commands only. Both may end a line with a backslash and a comment with #. All commands of a
page run in order in one folder, which is empty but for the project's examples. Text that depends on the machine or
the time is not compared: for the verbs of VOLATILE, numbers and their units, progress, and warnings (of too few
cores); for `oneflow fit`, progress and whatever it finds in its time. "..." stands for what a page leaves out, lines or
the rest of one.

A command that needs what a test has not, a GPU or another program, ends with "# not run: WHY". Its verb and flags are
checked nevertheless, and so are those of commands between single ` in the text.

  bazel run //tests/e2e:documents -- --update README.md docs/walkthrough.md    # writes what the commands print now
"""
import functools
import glob
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

from tests.e2e.cli import ONEFLOW, run

VOLATILE = ["train", "eval", "generate", "calibrate", "devices"]
# What `fit` looked for: its lines, or from one on all of them.
FOUND = re.compile(r"\d+ s: |best plan|largest that fits|estimated by short plans")
FOUND_FROM = re.compile(r"better|plan 1:")

NOT_RUN = "# not run"


class Command:
    def __init__(self, line):
        self.line, self.shown = line, []  # number of its line on the page, from 0; numbers of what it shows
        self.text = ""
        self.session = False

    def runs(self):
        return NOT_RUN not in self.text


def find_commands(page):
    """The commands of the lines of a page."""
    commands, block, command = [], None, None
    for number, line in enumerate(page):
        if line.startswith("```"):
            block = number + 1 if block is None and line.rstrip() == "```" else None
            command = None
        elif block is not None:
            first = page[block]
            session = first.startswith("$ ")
            if not session and not first.startswith("oneflow "):
                continue
            continues = command is not None and command.text.endswith("\\") and not command.shown
            if continues:
                command.text = command.text[:-1] + line.strip()
                command.line = number
            elif line.startswith("$ ") or (not session and line.strip()):
                command = Command(number)
                command.session, command.text = session, line.removeprefix("$ ").rstrip()
                commands.append(command)
            elif session:
                command.shown.append(number)
    return commands


def comparable(command, lines):
    lines = [line.rstrip() for line in lines]
    if "oneflow fit" in command:
        lines = itertools.takewhile(lambda line: not FOUND_FROM.match(line), lines)
        lines = [line for line in lines if line and not FOUND.match(line)]
    if any(f"oneflow {verb}" in command for verb in VOLATILE):
        lines = [line for line in lines if not line.startswith(("oneflow: warning: ", "step ", "  the machine was busy: "))]
        for changing, same in [(r"[-+]?\d[\d.,:e+-]*", "#"), (r"# (us|ms|s|KiB|MiB|GiB)\b", "#"), (r"\s+", " ")]:
            lines = [re.sub(changing, same, line) for line in lines]
    return lines


def agree(shown, lines):
    """Whether the lines are those that are shown, where "..." stands for any."""
    pattern = "".join("(.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines)) is not None


@functools.cache
def list_flags(verb):
    """The flags of a verb; none of a word that is no verb."""
    done = subprocess.run([ONEFLOW, verb, "--help=all"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return {"help", "format"} | set(re.findall(r"^  --(\w+)", done.stdout, re.MULTILINE)) if done.returncode == 0 else set()


def find_strangers(path):
    """The words of a page's commands that are no verb, or no flag of theirs, each with its command."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    spoken = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    texts = [command.text for command in find_commands(text.split("\n"))] + re.findall(r"`([^`]+)`", spoken)
    strangers = []
    for command in texts:
        for verb, rest in re.findall(r"\boneflow ([a-z]+)\b([^|;&#]*)", " ".join(command.split())):
            rest = rest.split(" -- ")[0]  # behind it are words of another program
            flags = [flag.replace("-", "_") for flag in re.findall(r"(?<=\s)--([\w-]+)", rest)]
            known = list_flags(verb)
            strangers += [(word, command) for word in (flags if known else [verb]) if word not in known]
    return strangers


def play(path, examples, prepare=lambda folder: None, inspect=lambda folder: None):
    """Returns (page, {number of a command's line: (command, printed lines)}); fails where a command does. prepare and inspect
    are called with the folder, before the first command and after the last."""
    with open(path, encoding="utf-8") as file:
        page = file.read().split("\n")
    printed = {}
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/bin")
        os.makedirs(folder + "/page")
        os.symlink(os.path.realpath(ONEFLOW), folder + "/bin/oneflow")
        os.symlink(examples, folder + "/page/examples")
        prepare(folder + "/page")
        environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", COLUMNS="100")
        for command in filter(Command.runs, find_commands(page)):
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command.text], cwd=folder + "/page", env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"{path}: {command.text}: exit code {done.returncode}\n{done.stdout}")
            printed[command.line] = (command, done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else [])
        for job in glob.glob(folder + "/page/*/job.json"):
            wait_until_over(os.path.dirname(job))
        inspect(folder + "/page")
    return page, printed


def wait_until_over(job_dir):
    """Waits for the end of a job that the page submitted and cancelled."""
    while json.loads(run("status", "--job_dir=" + job_dir, "--format=json", cwd="/")[0])["state"] in ("running", "queued"):
        threading.Event().wait(0.05)


def check(path, examples):
    """Fails where a command of the page fails, or prints something else than the page shows. Returns the number of commands."""
    page, printed = play(path, examples)
    for command, lines in printed.values():
        if not command.session:
            continue
        shown = [page[number] for number in command.shown]
        while shown and not shown[-1].strip():
            shown.pop()
        if not agree(comparable(command.text, shown), comparable(command.text, lines)):
            raise AssertionError(f"{path}: {command.text} prints\n" + "\n".join(lines) + "\nand the page shows\n" + "\n".join(shown))
    return len(printed)


def update(path, examples):
    page, printed = play(path, examples)
    out, skip = [], set()
    for command, _ in printed.values():
        skip.update(command.shown)
    for number, line in enumerate(page):
        if number in skip:
            continue
        out.append(line)
        if number in printed and printed[number][0].session:
            out += [text.rstrip() for text in printed[number][1]]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


if __name__ == "__main__":
    assert sys.argv[1:2] == ["--update"], __doc__
    for name in sys.argv[2:]:
        update(os.path.join(os.environ["BUILD_WORKSPACE_DIRECTORY"], name), os.path.abspath("examples"))
