"""oneflow follow: a file that grows, is replaced and goes on; trackers that behave and trackers that do not."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW

# Each call is a line of $CALLS. Calls that take numbers fail $FAILS times, or always.
FAKE = """
import json, os
made = 0

def write(*call):
    with open(os.environ["CALLS"], "a", encoding="utf-8") as calls:
        calls.write(json.dumps([__name__, *call]) + "\\n")

def take(numbers, step):
    global made
    made += 1
    fails = os.environ.get("FAILS", "0")
    if fails == "always" or made <= int(fails):
        raise KeyError("no such key")
    write("take", step, numbers)
"""
LIKE_WANDB = FAKE + """
class Run:
    def log(self, numbers, step=None):
        take(numbers, step)

    def finish(self):
        write("end")

def init(project=None, name=None):
    write("begin", project, name)
    return Run()
"""
LIKE_MLFLOW = FAKE + """
def set_experiment(name):
    write("experiment", name)

def start_run(run_name=None):
    write("begin", run_name)

def log_metrics(numbers, step=None):
    take(numbers, step)

def end_run():
    write("end")
"""


def line(step, seconds=0.5, **more):
    return json.dumps({"step": step, "loss": 2.5 - step, "learning_rate": 0.1, "step_seconds": seconds, **more}) + "\n"


def numbers(step, seconds=0.5, **more):
    return {"loss": 2.5 - step, "lr": 0.1, "step_seconds/took": seconds, **more}


class FollowTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.calls = self.dir + "/calls"
        os.mkdir(self.dir + "/fakes")
        for name, text in [("wandb", LIKE_WANDB), ("trackio", LIKE_WANDB), ("mlflow", LIKE_MLFLOW)]:
            self.write(f"fakes/{name}.py", text)

    def write(self, name, text, mode="w"):
        with open(f"{self.dir}/{name}", mode, encoding="utf-8") as file:
            file.write(text)

    def start(self, *flags, **environment):
        process = subprocess.Popen([ONEFLOW, "follow", "--metrics=m.jsonl", *flags], cwd=self.dir, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, PYTHONPATH=self.dir + "/fakes", CALLS=self.calls, **environment))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def follow(self, *flags, code=0, **environment):
        """(what it prints, what it says) of --once."""
        process = self.start("--once", *flags, **environment)
        out, error = process.communicate()
        self.assertEqual(process.returncode, code, error)
        return out, error

    def made(self):
        with open(self.calls, encoding="utf-8") as calls:
            return [json.loads(call) for call in calls]

    def assert_next(self, process, step, expected):
        self.assertEqual(json.loads(process.stdout.readline()), {"step": step, **expected})

    def test_a_file_that_grows_is_replaced_and_goes_on(self):
        process = self.start("--to=stdout")  # before there is one
        second = line(1, eval_loss=1.25)
        self.write("m.jsonl", line(0, expert_shares=[0.75, 0.25], dropped=0.5) + second[:20])
        self.assert_next(process, 0, numbers(0, **{"experts/hottest": 1.5, "experts/dropped": 0.5}))
        self.write("m.jsonl", second[20:], "a")
        self.assert_next(process, 1, numbers(1, **{"eval/loss": 1.25}))
        # A run that goes on rewrites the file without the steps that it will make again.
        self.write("next", line(0, expert_shares=[0.75, 0.25], dropped=0.5) + line(1) + line(2))
        os.replace(self.dir + "/next", self.dir + "/m.jsonl")
        self.assert_next(process, 2, numbers(2))
        # A new run moves it away; what is left there comes first.
        self.write("m.jsonl", line(3), "a")
        os.rename(self.dir + "/m.jsonl", self.dir + "/m.jsonl.old-1")
        self.write("m.jsonl", line(0, 0.25))
        self.assert_next(process, 3, numbers(3))
        self.assert_next(process, 0, numbers(0, 0.25))
        # It is cut short, by yet another run.
        self.write("m.jsonl", "")
        self.write("m.jsonl", line(0, 1), "a")
        self.assert_next(process, 0, numbers(0, 1))
        # What is there when a signal comes is sent.
        self.write("m.jsonl", line(1), "a")
        process.send_signal(signal.SIGTERM)
        self.assert_next(process, 1, numbers(1))
        self.assertEqual(process.wait(), 0)

    def test_each_tracker_gets_all_steps(self):
        self.write("m.jsonl", line(0, mfu=None) + line(1))
        steps = lambda to: [[to, "take", 0, numbers(0)], [to, "take", 1, numbers(1)], [to, "end"]]
        for to, flags, begin in [("wandb", [], [["begin", None, None]]), ("trackio", [], [["begin", "oneflow", None]]),
                                 ("wandb", ["--project=p", "--name=n"], [["begin", "p", "n"]]), ("mlflow", [], [["begin", None]]),
                                 ("mlflow", ["--project=p", "--name=n"], [["experiment", "p"], ["begin", "n"]])]:
            self.write("calls", "")
            self.assertEqual(self.follow("--to=" + to, *flags), ("", ""))
            self.assertEqual(self.made(), [[to, *call] for call in begin] + steps(to))

    def test_a_tracker_that_fails_for_a_time_misses_nothing(self):
        self.write("m.jsonl", line(0) + line(1))
        process = self.start("--to=wandb", FAILS="1")
        self.assertEqual(process.stderr.readline(), "oneflow: warning: --to=wandb: fails, and is tried again: KeyError('no such key')\n")
        self.assertEqual(process.stderr.readline(), "oneflow: --to=wandb: works again\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(), ("", ""))
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.made()[1:], [["wandb", "take", 0, numbers(0)], ["wandb", "take", 1, numbers(1)], ["wandb", "end"]])

    def test_a_tracker_that_always_fails_is_reported_once(self):
        self.write("m.jsonl", line(0) + line(1))
        error = "oneflow: error: --to=mlflow: fails, and has not taken all steps: KeyError('no such key')\n"
        self.assertEqual(self.follow("--to=mlflow", code=1, FAILS="always"), ("", error))
        process = self.start("--to=mlflow", FAILS="always")
        self.assertIn("is tried again", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate(), ("", error))
        self.assertEqual(process.returncode, 1)

    def test_mistakes(self):
        self.write("m.jsonl", "[1]\n")
        self.write("fakes/trackio.py", "import a_package_that_is_not_there")
        metrics = "--metrics=m.jsonl"
        os.mkfifo(self.dir + "/pipe")
        self.write("endless.jsonl", '{"step": 1e400}\n')
        self.write("deep.jsonl", "[" * 100000 + "\n")
        for flags, words in [([metrics], "--to: is missing; write --to=stdout"), (["--to=stdout"], "--metrics: is missing; write --metrics="),
                             ([metrics, "--to=tensorboard"], "--to=tensorboard: is not known; use wandb, mlflow, trackio or stdout"),
                             (["--to=stdout", "--metrics=absent"], "--metrics=absent: there is no such file; give the file of "),
                             ([metrics, "--to=stdout"], "--metrics=m.jsonl: has a line that is no step; give the file of "),
                             (["--to=stdout", "--metrics=endless.jsonl"], "--metrics=endless.jsonl: has a line that is no step; "),
                             (["--to=stdout", "--metrics=deep.jsonl"], "--metrics=deep.jsonl: has a line that is no step; "),
                             (["--to=stdout", "--metrics=pipe"], "--metrics=pipe: is no file; give the file of "),
                             (["--to=stdout", "--metrics=fakes"], "--metrics=fakes: is no file; give the file of "),
                             ([metrics, "--to=trackio"], "--to=trackio: needs the Python package a_package_that_is_not_there; install it: python3 -m pip "
                                                "install trackio, in a virtual environment"),
                             ([metrics, "--to=stdout", "--format=json"], "--format")]:
            done = subprocess.run([ONEFLOW, "follow", "--once", *flags], cwd=self.dir, capture_output=True, text=True, check=False,
                                  env=dict(os.environ, PYTHONPATH=self.dir + "/fakes"))
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("oneflow: error: " + words, done.stderr)


if __name__ == "__main__":
    unittest.main()
