"""The machine that tools/gpu_check runs on, and the programs of the bundle."""
import json
import os
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def program(name):
    return os.path.join(ROOT, "bin", name)


def is_bundle():
    return os.access(program("oneflow"), os.X_OK)


class Done:
    """A program that has ended: its exit code (None: it took too long), what it printed and how long it took."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def why(self):
        """The last that it said, for people."""
        if self.code is None:
            return f"took more than {self.seconds:.0f} s"
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return "\n".join(lines[-12:]) or f"exit code {self.code}"


class Machine:
    def __init__(self, cuda_libs, out, seconds, torch_python="python3"):
        self.cuda_libs, self.seconds, self.torch_python = cuda_libs, seconds, torch_python
        self.work = os.path.abspath(os.path.join(out, "work"))
        os.makedirs(self.work, exist_ok=True)
        self.devices = self._devices()
        with open(os.path.join(out, "devices.json"), "w", encoding="utf-8") as file:
            json.dump(self.devices, file, indent=1)
        self.no_gpu = self.devices["no_gpu"]
        self.gpus = len(self.devices["gpus"])
        self._cuda_refused = None

    def _environment(self, env=None):
        environment = dict(os.environ, GLOG_logtostderr="1", **(env or {}))
        if self.cuda_libs:  # for every program, whatever flags it has
            folders = [os.path.abspath(self.cuda_libs), environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
        return environment

    def start(self, verb, *flags):
        """`oneflow verb`, started in the folder of work."""
        return subprocess.Popen([program("oneflow"), verb, *flags], cwd=self.work, env=self._environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def run(self, *command, env=None, cwd=None, stdin=None):
        """Runs a command in a folder, by default that of work; `stdin` is what it reads."""
        begin = time.monotonic()
        environment = self._environment(env)
        try:
            done = subprocess.run(command, cwd=cwd or self.work, env=environment, input=stdin, capture_output=True, text=True,
                                  errors="replace", timeout=self.seconds, check=False)
        except OSError as error:
            return Done(127, "", f"{command[0]} cannot be run: {error.strerror}", time.monotonic() - begin)
        except subprocess.TimeoutExpired as late:
            text = [part.decode(errors="replace") if part else "" for part in (late.stdout, late.stderr)]
            return Done(None, *text, time.monotonic() - begin)
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    def oneflow(self, verb, *flags):
        return self.run(program("oneflow"), verb, *flags)

    def missing_library(self, name):
        """Why a library cannot be used; "" if it can."""
        for library in self.devices["libraries"]:
            if library["name"] == name:
                return library["missing"]
        return f"{name} is not in the report of `oneflow devices`"

    def cuda_refused(self):
        """The error of `oneflow compile --device=cuda` if it cannot compile for a GPU yet; "" otherwise."""
        if self._cuda_refused is None:
            graph = self.model("probe", "--layers=1", "--heads=1", "--hidden=16", "--sequence=8", "--vocab=256")
            done = self.oneflow("compile", "--graph=" + graph, "--device=cuda", "--batch=2", "--out=probe.plan")
            self._cuda_refused = "" if done.code == 0 else "oneflow compile --device=cuda: " + done.why()
        return self._cuda_refused

    def model(self, name, *flags):
        """The graph of a GPT, made once."""
        path = os.path.join(self.work, name + ".textproto")
        if not os.path.exists(path):
            done = self.oneflow("model", "gpt", *flags, "--out=" + path)
            if done.code != 0:
                raise RuntimeError("oneflow model gpt: " + done.why())
        return path

    def text(self):
        """Some text to learn from: words that follow each other by a rule, the same everywhere."""
        path = os.path.join(self.work, "text.txt")
        if not os.path.exists(path):
            words = "the actor of a register fires when it is full and its slot is free again so no one waits".split()
            state, out = 1, []
            for _ in range(60000):
                state = (state * 1103515245 + 12345) % 2**31
                out.append(words[(state >> 16) % len(words)])
            with open(path, "w", encoding="utf-8") as file:
                file.write(" ".join(out))
        return path

    def tool(self, name):
        """The path of a tool of the toolkit; None where there is none."""
        return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")

    def _devices(self):
        flags = ["--format=json"] + (["--cuda_libs=" + os.path.abspath(self.cuda_libs)] if self.cuda_libs else [])
        done = self.oneflow("devices", *flags)
        try:
            return json.loads(done.out)
        except ValueError:
            return {"gpus": [], "libraries": [], "no_gpu": "oneflow devices: " + done.why()}
