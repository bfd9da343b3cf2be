"""Sends the steps of a file of metrics (oneflow train --metrics) to a tracker, while they are written or later.

    oneflow follow --metrics=FILE --to=wandb|mlflow|trackio|stdout [--once] [--project=NAME] [--name=NAME]

The file is the queue: its next line is read when the tracker has taken the last one. The training is another process, which
does not notice what a tracker does. A new run's file begins with another line, and makes a new run of the tracker; that of a
run that goes on begins with the same, and its steps that were sent already are left out.
"""
import argparse
import importlib
import json
import os
import signal
import sys
import threading

PERIOD, MOST_WAIT = 0.5, 60.0  # seconds between two looks at the file; between two tries at most
# The names of --tensorboard, where they are others than those of the file.
NAMES = {"learning_rate": "lr", "eval_loss": "eval/loss", "step_seconds": "step_seconds/took", "dropped": "experts/dropped",
         "promised_step_seconds": "step_seconds/promised", "host_seconds": "step_seconds/host"}


def open_run(to, project, name):
    """A new run of the tracker: its functions send(numbers, step=N) and end()."""
    if to == "stdout":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads it may leave
        return lambda numbers, step: print(json.dumps({"step": step, **numbers}), flush=True), lambda: None
    package = importlib.import_module(to)
    if to != "mlflow":
        run = package.init(project=project or ("oneflow" if to == "trackio" else None), name=name)
        return run.log, run.finish
    if project:
        package.set_experiment(project)
    package.start_run(run_name=name)
    return package.log_metrics, package.end_run


def read_lines(path):
    """Yields (whether it is a file's first, line); None where there is none yet. The file may grow, be cut short, or be
    replaced: then what is left of the old one comes first."""
    file, at = None, 0
    while True:
        if file is None:
            try:
                file, at = open(path, "rb"), 0
            except FileNotFoundError:
                yield None
                continue
        file.seek(at)
        line = file.readline()
        if line.endswith(b"\n"):
            yield at == 0, line
            at += len(line)
            continue
        mine, there = os.fstat(file.fileno()), os.stat(path) if os.path.exists(path) else None
        if mine.st_size >= at and (there is None or os.path.samestat(mine, there)):
            yield None
        else:
            file.close()
            file = None


def read_step(line):
    """(step, numbers by name) of a line."""
    record = json.loads(line)
    shares = record.pop("expert_shares", None)
    numbers = {NAMES.get(key, key): value for key, value in record.items() if key != "step" and value is not None}
    if shares:
        numbers["experts/hottest"] = max(shares) * len(shares)
    return int(record["step"]), numbers


def say(sentence):
    print(f"oneflow: {sentence}", file=sys.stderr, flush=True)


def follow(path, to, once=False, project=None, name=None):
    """Until a signal, or `once` to the end of the file; returns the exit code."""
    stop, run, first, sent = threading.Event(), [], None, -1

    def ask_stop(number, _):
        stop.set()
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once

    def send(step, numbers):
        if not run:
            run.append(open_run(to, project, name))
        run[0][0](numbers, step=step)

    def end():
        if run:
            run.pop()[1]()

    def persist(act, *args):
        """Tries until the tracker takes it; False where it does not, and the end has come."""
        wait = 0
        while True:
            try:
                act(*args)
            except Exception as error:  # the tracker's, whatever it is
                if once or stop.is_set():
                    say(f"error: --to={to}: fails, and has not taken all steps: {error!r}")
                    return False
                if not wait:
                    say(f"warning: --to={to}: fails, and is tried again: {error!r}")
                wait = min(2 * wait or PERIOD, MOST_WAIT)
                stop.wait(wait)
            else:
                if wait:
                    say(f"--to={to}: works again")
                return True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_stop)
    lines = read_lines(path)
    while True:
        ends = once or stop.is_set()  # before it looks: what was written until then is sent
        try:
            item = next(lines)
        except OSError as error:
            say(f"error: --metrics={path}: cannot be read: {error.strerror}")
            return 2
        if item is None and ends:
            return 0 if persist(end) else 1
        if item is None:
            stop.wait(PERIOD)
            continue
        is_first, line = item
        if is_first and line != first:
            first, sent = line, -1
            if not persist(end):
                return 1
        try:
            step, numbers = read_step(line)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            say(f"error: --metrics={path}: has a line that is no step; give the file of `oneflow train --metrics`")
            return 2
        if step > sent and not persist(send, step, numbers):
            return 1
        sent = max(sent, step)


def main():
    flags = argparse.ArgumentParser(prog="oneflow follow", allow_abbrev=False)
    flags.add_argument("--metrics", required=True)
    flags.add_argument("--to", required=True, choices=["wandb", "mlflow", "trackio", "stdout"])
    flags.add_argument("--once", action="store_true")
    flags.add_argument("--project")
    flags.add_argument("--name")
    args = flags.parse_args()
    there = os.path.exists(args.metrics)
    if not os.path.isfile(args.metrics) if there else args.once:  # a pipe would keep it waiting
        say(f"error: --metrics={args.metrics}: {'is no file' if there else 'there is no such file'}; give the file of `oneflow train --metrics`")
        return 2
    try:
        if args.to != "stdout":
            importlib.import_module(args.to)
    except ModuleNotFoundError as error:
        say(f"error: --to={args.to}: needs the Python package {error.name}; install it: python3 -m pip install {args.to}, "
            "in a virtual environment whose python3 is the first on PATH")
        return 2
    return follow(args.metrics, args.to, args.once, args.project, args.name)


if __name__ == "__main__":
    sys.exit(main())
