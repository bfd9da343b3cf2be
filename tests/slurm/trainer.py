#!/usr/bin/env python3
"""Stands for `oneflow train` where the loop of a job is tested: it takes the same flags and obeys the same contract.

A step's loss follows from the one before, so that losses tell whether an attempt went on from where the last one was.
JOB_DIR/behaviour.json may say, by the attempt's number: {"wait": STEP}: wait there until somebody writes to the pipe
JOB_DIR/pipe; {"fail": STEP, "code": CODE}: write the outcome and exit; {"die": STEP}: SIGKILL to itself;
{"deaf": true}: no signal but SIGKILL ends it.
"""
import hashlib
import json
import os
import signal
import sys

flags = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[2:])
job_dir, folder = flags["job_dir"], flags["checkpoint_dir"]
attempt = int(os.environ["ONEFLOW_ATTEMPT"])
process = int(flags.get("process_index", os.environ.get("SLURM_PROCID", "0")))
host = os.environ.get("SLURMD_NODENAME", "here")


for name in ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"]:
    assert name not in os.environ, f"{name} is of a launcher around the job"


def read(path, otherwise):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return otherwise


def write(path, value):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.rename(path + ".new", path)


def end(code, step, sentence):
    write(job_dir + "/outcome.json", {"attempt": attempt, "code": code, "step": step, "host": host, "rank": process,
                                      "sentence": sentence})
    print(f"attempt {attempt}: {sentence}", flush=True)
    sys.exit(code)


def save(step, state):
    path = f"{folder}/step-{step:08}"
    os.makedirs(path, exist_ok=True)
    write(path + "/manifest.json", {"step": step, "state": state})


def wait_for_outcome():
    """The actions of processes other than the first."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while read(job_dir + "/outcome.json", {}).get("attempt") != attempt:
        if signal.sigtimedwait({signal.SIGTERM}, 0.02):
            sys.exit(1)
    sys.exit(read(job_dir + "/outcome.json", {})["code"])


class Told(Exception):
    pass


def told(*_):
    raise Told


def main():
    with open(flags["plan"], "rb") as plan:
        assert plan.read()
    print(f"process {process} on {host}", flush=True)
    if process > 0:
        wait_for_outcome()
    signal.signal(signal.SIGTERM, told)
    os.makedirs(folder, exist_ok=True)
    begun = max((name for name in os.listdir(folder) if os.path.exists(f"{folder}/{name}/manifest.json")), default=None)
    saved = read(f"{folder}/{begun}/manifest.json", None) if begun else {"step": 0, "state": "begin"}
    step, state = saved["step"], saved["state"]
    rows = []
    if os.path.exists(flags["metrics"]):
        with open(flags["metrics"], encoding="utf-8") as lines:
            rows = [row for row in map(json.loads, lines) if row["step"] < step]
    behaviour = read(job_dir + "/behaviour.json", {}).get(str(attempt), {})
    if behaviour.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    every = int(flags.get("checkpoint_every", "0"))
    with open(flags["metrics"], "w", encoding="utf-8") as metrics:
        metrics.writelines(json.dumps(row) + "\n" for row in rows)
        metrics.flush()
        try:
            while step < int(flags["steps"]):
                write(job_dir + "/status.json", {"attempt": attempt, "step": step})
                if behaviour.get("wait") == step:
                    print(f"waits at step {step}", flush=True)
                    with open(job_dir + "/pipe", encoding="utf-8") as pipe:
                        pipe.read()
                if behaviour.get("fail") == step:
                    end(behaviour["code"], step, "as it was told to")
                if behaviour.get("die") == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
                metrics.write(json.dumps({"step": step, "loss": state}) + "\n")
                metrics.flush()
                step += 1
                if every and step % every == 0:
                    save(step, state)
        except Told:
            save(step, state)
            end(1, step, "interrupted")
    save(step, state)
    end(0, step, "done")


main()
