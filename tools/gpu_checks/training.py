"""Short trainings on GPUs: losses, plans, bytes, several GPUs."""
import json
import math
import os
import re
import signal
import subprocess
import threading
import time

from gpu_checks import machine

SMALL = ["--layers=2", "--heads=4", "--hidden=128", "--sequence=64", "--vocab=256"]
MESHES = ["", "data=2", "tensor=2", "pipe=2", "data=2,tensor=2", "pipe=2,data=2", "pipe=2,tensor=2",
          "pipe=2,data=2,tensor=2"]
SCHEDULES = {"1f1b": [], "gpipe": [], "interleaved": [], "zero_bubble": [], "2bw": ["--clip=0"]}
# The test of numerics against PyTorch's stored references, in the bundle's bin.
REFERENCES = "numerics_test"
# Largest relative difference of a loss on a GPU from that on the CPU: sums have another order, and bf16 has 8 bits.
TOLERANCE = {"f32": 1e-3, "bf16": 2e-2}


def losses(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["loss"] for line in lines]


def train(here, name, *flags, steps=20):
    """Trains; returns (losses, the program that ended). Losses are None where it failed."""
    metrics = os.path.join(here.work, name + ".jsonl")
    done = here.oneflow("train", "--data=" + here.text(), f"--steps={steps}", "--seed=1", "--metrics=" + metrics, *flags)
    return (losses(metrics) if done.code == 0 else None), done


def distance(a, b):
    """The largest relative difference of two rows of losses."""
    if len(a) != len(b) or not all(map(math.isfinite, a + b)):
        return math.inf
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def numerics(here, part):
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    done = here.run(machine.program(REFERENCES), cwd=machine.ROOT)
    part.judge(done.code == 0, "GPT-2 beside PyTorch's stored references", (done.out or done.why())[-4000:] if done.code else "",
               seconds=done.seconds)
    graph = here.model("small", *SMALL)
    for precision, tolerance in TOLERANCE.items():
        flags = ["--graph=" + graph, "--batch=8", "--micro_batches=2", "--precision=" + precision]
        expected, done = train(here, "cpu_" + precision, *flags)
        if expected is None:
            part.fail(f"{precision} on the CPU", done.why())
            continue
        first, done = train(here, "gpu_" + precision, *flags, "--device=cuda")
        if first is None:
            part.fail(f"{precision} on a GPU", done.why())
            continue
        far = distance(first, expected)
        part.judge(far < tolerance, f"{precision}: losses of 20 steps, GPU beside CPU", f"more than {tolerance} apart",
                   distance=far, seconds=done.seconds)
        again, done = train(here, "gpu_again_" + precision, *flags, "--device=cuda")
        part.judge(again == first, f"{precision}: a second run has the same bits",
                   "losses differ" if again else done.why())


def meshes(gpus):
    """Meshes of at most so many GPUs, one axis each and two together."""
    found = ["data=1"]
    for axis in ["data", "tensor", "pipe"]:
        found += [f"{axis}={n}" for n in (2, 4, 8) if n <= gpus]
    return found + (["pipe=2,data=2", "data=2,tensor=2"] if gpus >= 4 else [])


def plans(here, part):
    """Every mesh of two data, tensor and pipe parts and every schedule, on logical devices, however many GPUs there are."""
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    graph = here.model("plans", *SMALL[1:], "--layers=4")
    for mesh in MESHES:
        for schedule, flags in SCHEDULES.items():
            if schedule != "1f1b" and "pipe" not in mesh:
                continue
            name = f"{mesh or 'one device'}, {schedule}"
            plan = os.path.join(here.work, name.replace("=", "").replace(", ", "_").replace(",", "_").replace(" ", "") + ".plan")
            steps = [("compile", ["compile", "--graph=" + graph, "--device=cuda", "--mesh=" + mesh, "--batch=16",
                                  "--micro_batches=4", "--schedule=" + schedule, *flags, "--out=" + plan]),
                     ("verify", ["verify", "--plan=" + plan]),
                     ("train", ["train", "--plan=" + plan, "--data=" + here.text(), "--steps=5", "--seed=1",
                                "--logical_devices"])]
            for what, command in steps:
                done = here.oneflow(*command)
                part.judge(done.code == 0, f"{name}: {what}", done.why(), seconds=done.seconds)
                if done.code != 0:
                    break


class PeakMemory(threading.Thread):
    """The most bytes of GPU 0 that nvidia-smi shows as used while it runs."""

    def __init__(self, smi):
        super().__init__(daemon=True)
        self.smi, self.ended, self.peak = smi, threading.Event(), self._used(smi)
        self.before = self.peak

    @staticmethod
    def _used(smi):
        done = subprocess.run([smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
                              capture_output=True, text=True, check=False)
        return int(done.stdout.split()[0]) * 2**20 if done.returncode == 0 else 0

    def run(self):
        while not self.ended.wait(0.2):
            self.peak = max(self.peak, self._used(self.smi))

    def added(self):
        self.ended.set()
        self.join()
        return self.peak - self.before


def planned_bytes(here, plan):
    """Bytes of the arena of a device, as `oneflow explain` says."""
    done = here.oneflow("explain", "--plan=" + plan, "--format=json")
    found = [int(n) for n in re.findall(r'"arena_bytes": ?(\d+)', done.out)]
    return max(found, default=0)


def memory(here, part):
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    smi = here.tool("nvidia-smi")
    if smi is None:
        part.skip("all", "nvidia-smi is not on PATH")
        return
    # Memory of a context, modules and libraries in addition to the arena.
    allowed = 2 * 2**30
    for preset, flags in {"small": SMALL, "gpt2-124m": ["--preset=gpt2-124m"]}.items():
        plan = os.path.join(here.work, preset + "_memory.plan")
        done = here.oneflow("compile", "--graph=" + here.model(preset, *flags), "--device=cuda", "--batch=4", "--out=" + plan)
        planned = planned_bytes(here, plan) if done.code == 0 else 0
        if not planned:
            part.fail(preset, done.why() if done.code else "explain names no arena_bytes")
            continue
        peak = PeakMemory(smi)
        peak.start()
        done = here.oneflow("train", "--plan=" + plan, "--data=" + here.text(), "--steps=10", "--seed=1")
        added = peak.added()
        good = done.code == 0 and planned <= added <= planned + allowed
        part.judge(good, preset, done.why() if done.code else "used more than the plan and 2 GiB, or less than the plan",
                   planned_mib=planned / 2**20, used_mib=added / 2**20)


def nccl(here, part):
    why = here.missing_library("NCCL") or here.cuda_refused()
    if not why and here.gpus < 2:
        why = "there is one GPU"
    if why:
        part.skip("all", why)
        return
    graph = here.model("small", *SMALL)
    flags = ["--graph=" + graph, "--batch=16", "--micro_batches=2", "--device=cuda"]
    expected, done = train(here, "one_gpu", *flags)
    if expected is None:
        part.fail("one GPU", done.why())
        return
    for mesh in meshes(here.gpus)[1:]:
        ranks = math.prod(int(axis.split("=")[1]) for axis in mesh.split(","))
        # One process that drives all GPUs, a process a GPU, and two processes of several GPUs each.
        for processes in [1] + ([2] if ranks > 2 else []) + [ranks]:
            name = mesh if processes == 1 else f"{mesh}, {processes} processes"
            found, done = train(here, name.replace(", ", "_").replace(",", "_").replace(" ", "_"), *flags, "--mesh=" + mesh,
                                f"--processes={processes}")
            far = math.inf if found is None else distance(found, expected)
            part.judge(far < TOLERANCE["f32"], f"{name}: losses beside one GPU", done.why() if found is None else "apart",
                       distance=far, seconds=done.seconds)
    lose_a_process(here, part, flags)


def lose_a_process(here, part, flags):
    """Kills one of two processes in the middle of a training; the other one has to end, though it waits in NCCL."""
    name = "data=2, 2 processes: one that is killed ends the other in 5 s"
    metrics = os.path.join(here.work, "lost.jsonl")
    first = here.start("train", "--data=" + here.text(), "--steps=1000000", "--metrics=" + metrics, *flags,
                       "--mesh=data=2", "--processes=2")
    try:
        begin = time.monotonic()
        while not (os.path.exists(metrics) and os.path.getsize(metrics)) and first.poll() is None:
            if time.monotonic() - begin > here.seconds:
                part.fail(name, "no step was done")
                return
            time.sleep(0.01)
        children = []
        if first.poll() is None:
            with open(f"/proc/{first.pid}/task/{first.pid}/children", encoding="utf-8") as file:
                children = [int(child) for child in file.read().split()]
        for child in children:
            os.kill(child, signal.SIGKILL)
        killed = time.monotonic()
        first.communicate(timeout=60)
        part.judge(bool(children) and first.returncode == 1 and time.monotonic() - killed < 5, name,
                   f"exit code {first.returncode}", seconds=time.monotonic() - killed)
    except subprocess.TimeoutExpired:
        part.fail(name, "it had not ended a minute later")
    finally:
        first.kill()
        first.wait()
