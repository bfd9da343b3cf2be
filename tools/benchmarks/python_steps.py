"""Measures what a step through Python costs more than one of `oneflow train`: of.Trainer against the command, alternating.

Each side trains the same plans, of steps of some hundred microseconds and of some milliseconds, in a new process, with a file of
metrics. A step of Python is the time from one turn of its loop to the next. Losses must be the same bits.
"""
import json
import os
import shutil
import statistics
import subprocess
import tempfile

VERB = "python"
TARGETS = ["//tools/python:oneflow_actors"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = {"small": (["--layers=2", "--heads=2", "--hidden=32", "--sequence=32"], 2000),
         "larger": (["--layers=4", "--heads=4", "--hidden=128", "--sequence=128"], 200)}
LOOP = """
import json, sys, time
import oneflow_actors as of
moments, losses = [], []
with of.Trainer(sys.argv[1], data="text.txt", steps=int(sys.argv[2]), seed=1, threads=int(sys.argv[3]), metrics="python.jsonl") as trainer:
    for step in trainer:
        moments.append(time.perf_counter())
        losses.append(step.loss)
print(json.dumps({"seconds": [b - a for a, b in zip(moments, moments[1:])], "losses": losses}))
"""


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=5)


def run(args, binaries):
    with tempfile.TemporaryDirectory() as folder:
        for source in [ROOT + "/tools/python/oneflow_actors", binaries + "/tools/python/oneflow_actors"]:
            shutil.copytree(source, folder + "/oneflow_actors", dirs_exist_ok=True)
        with open(folder + "/text.txt", "w", encoding="utf-8") as file:
            file.write("The cat sat on the mat, and the dog sat on the log. " * 2000)
        oneflow = [binaries + "/tools/oneflow/oneflow"]
        rows = {}
        for size, (flags, steps) in SIZES.items():
            subprocess.run([*oneflow, "model", "gpt", *flags, "--vocab=256", "--out=gpt.textproto"], cwd=folder, check=True)
            subprocess.run([*oneflow, "compile", "--graph=gpt.textproto", "--batch=2", "--out=gpt.plan"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            rows[size] = compare(args, folder, oneflow, steps)
        if args.format == "json":
            print(json.dumps(rows))
        for size, row in rows.items() if args.format == "text" else ():
            print(f"{size}: {row['command'] * 1e6:.0f} us a step by the command, {row['python'] * 1e6:.0f} by Python, "
                  f"{row['more'] * 1e6:+.0f} us: {row['ratio']:.3f} x")


def compare(args, folder, oneflow, steps):
    """Medians over the rounds of the median step."""
    ours, theirs = [], []
    for _ in range(args.rounds):
        subprocess.run([*oneflow, "train", "--plan=gpt.plan", "--data=text.txt", f"--steps={steps}", "--seed=1", f"--threads={args.threads}",
                        "--metrics=command.jsonl"], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(folder + "/command.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        done = subprocess.run(["/usr/bin/python3", "-c", LOOP, "gpt.plan", str(steps), str(args.threads)], cwd=folder, check=True, text=True,
                              stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=folder))
        python = json.loads(done.stdout)
        assert python["losses"] == [line["loss"] for line in lines], "the losses differ"
        theirs.append(statistics.median(line["step_seconds"] for line in lines[1:]))
        ours.append(statistics.median(python["seconds"]))
    command, through = statistics.median(theirs), statistics.median(ours)
    return {"command": command, "python": through, "more": through - command, "ratio": through / command}
