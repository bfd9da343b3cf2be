"""Compiles cases, runs what `--emit` wrote with launchers that only take down their words, and hands these to a parser."""
import json
import os
import re
import shlex
import stat
import subprocess
import sys

LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "srun")
RECORDER = """#!{python}
import json, os, sys
with open(os.environ["CHECK_EMIT_RECORD"], "w", encoding="utf-8") as file:
    json.dump({{"words": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "environment": dict(os.environ)}}, file)
"""
# Of the environment of run.sh, what the parsers are told.
KEPT = re.compile(r"CUDA_|NCCL_|NVTE_|PYTORCH_|OMP_|TORCH")


class Failure(Exception):
    """A check that failed; its text says what was wanted."""


def run(command, folder, **environment):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).strip().splitlines() if line.strip()]
        raise Failure(f"{shlex.join(map(str, command[:3]))} ...: exit code {done.returncode}: {' / '.join(lines[-4:])}")
    return done.stdout


def make_launchers(folder):
    os.makedirs(folder, exist_ok=True)
    for name in LAUNCHERS:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(RECORDER.format(python=sys.executable))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return folder


def read_launch(folder, launchers):
    """What run.sh starts: {"words", "environment"}."""
    record = os.path.join(folder, "launch.json")
    run(["bash", "run.sh"], folder, PATH=f"{launchers}:{os.environ['PATH']}", CHECK_EMIT_RECORD=record)
    with open(record, encoding="utf-8") as file:
        launch = json.load(file)
    launch["environment"] = {key: value for key, value in launch["environment"].items() if KEPT.match(key)}
    return launch


def count_gpus(words, folder):
    """From the launcher's words, or from the file that they name."""
    text = " ".join(words)
    number = lambda *names: next((int(m[1]) for name in names if (m := re.search(rf"--{name}[ =](\d+)", text))), None)
    nodes, each = number("nnodes", "num_nodes", "num-nodes"), number("nproc_per_node", "nproc-per-node", "num_gpus")
    if nodes and each:
        return nodes * each
    config = re.search(r"--config_file[ =](\S+)", text)
    if config is None:
        raise Failure(f"run.sh does not say how many GPUs there are: {text}")
    with open(os.path.join(folder, config[1]), encoding="utf-8") as file:
        return int(re.search(r"^num_processes: *(\d+)", file.read(), re.MULTILINE)[1])


def write_call(system, folder, launch, sources):
    """The file by which a parser is told what to read."""
    words = launch["words"]
    if system not in ("torchtitan", "accelerate"):
        words = words[next(i for i, word in enumerate(words) if word.endswith(".py")):]
    call = {"folder": folder, "words": words, "gpus": count_gpus(launch["words"], folder), "environment": launch["environment"],
            "sources": sources}
    path = os.path.join(folder, "call.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(call, file)
    return path


def read_facts(path):
    """The facts that the parser gave for a call."""
    if os.path.exists(path + ".facts"):
        with open(path + ".facts", encoding="utf-8") as file:
            return json.load(file)
    with open(path + ".log", encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    raise Failure("refused: " + " / ".join(lines[-3:]))


def compare(facts, expected):
    wrong = [f"{name} {facts.get(name)}, not {value}" for name, value in expected.items() if facts.get(name) != value]
    if wrong:
        raise Failure("; ".join(wrong))


def describe(facts):
    degrees = " x ".join(f"{name} {facts[name]}" for name in ("tensor", "pipe", "context", "data") if facts[name] > 1) or "one GPU"
    rest = {name: value for name, value in facts.items()
            if name not in ("tensor", "pipe", "context", "data", "batch", "micro_batch", "stage_layers") and value not in (None, "", [None] * 3)}
    return (f"{degrees}; batch {facts['batch']}, micro-batch {facts['micro_batch']}; blocks {' '.join(map(str, facts['stage_layers']))}; "
            f"{', '.join(f'{name} {value}' for name, value in rest.items())}")
