"""What --offload costs on a CPU device with a slow link to the host's memory: steps with it and without, alternating.

A GPT of 8 blocks of 512 trains on one device; `--host_link` makes copies as slow as over a link. All sides have one
link: such that activations, states and weights together keep it busy for --fill of the step without --offload, in the
direction with more bytes. A side's `link` is how busy it is in that side's own step. `exposed copy` is what the run
reports at its end: the time of a step in which the device copies and computes nothing. Medians over the rounds.
Copies are made by a thread of their own, which sleeps while the link is slow.
"""
import json
import re
import statistics
import sys
import tempfile

from benchmarks.sides import Oneflow

TARGETS = []
MODEL = dict(layers=8, heads=8, hidden=512, sequence=128, vocab=512, bias=0)
SIDES = {"none": "none", "activations": "activations:all", "states": "states", "weights": "weights",
         "all three": "activations:all,states,weights", "all three, host updates": "activations:all,states,weights --update_on=host"}
FIGURES = {"step": "time, the mean", "compute": "compute", "exposed": "exposed copy", "idle": "idle"}
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}
SPEED = 5e9  # bytes a second that `simulate` assumes of the link of a CPU device without a cluster file
MUST = 0.1


def add_flags(parser):
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--micro_batches", type=int, default=4)
    parser.add_argument("--fill", type=float, default=0.5, help="of a step without --offload, in which all three use the link")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of a run, after one of warm-up")
    parser.add_argument("--only", nargs="+", help="sides, beside that without")


def read_took(printed):
    """Seconds of the column `took`; 0 for what the run does not have."""
    took = {}
    for figure, text in FIGURES.items():
        found = re.search(rf"^ *{text}  .* ([\d.]+) (s|ms|us)(?: +\S+ %)?$", printed, flags=re.M)
        took[figure] = float(found[1]) * UNITS[found[2]] if found else 0.0
    return took | {"busy": "the machine was busy" in printed}


class Side:
    def __init__(self, binaries, folder, name, args):
        self.name = name
        flags = () if name == "none" else ("--offload=" + SIDES[name]).split()
        self.run = Oneflow(binaries, folder, MODEL | {"batch": args.batch}, threads=args.threads, micro_batches=args.micro_batches,
                           name=re.sub(r"\W+", "_", name), flags=flags)
        stage = json.loads(self.run.run("simulate", "--plan=" + self.run.plan, "--format=json"))["stages"][0]
        self.mib = stage["arena_bytes"] / 2 ** 20
        self.bytes = [stage[way + "_seconds"] * SPEED for way in ("to_host", "from_host")]

    def train(self, steps, rate):
        link = [f"--host_link={rate:.0f}:{rate:.0f}"] if any(self.bytes) else []
        printed = self.run.run("train", "--plan=" + self.run.plan, "--data=" + self.run.noise(), f"--steps={steps}",
                               f"--threads={self.run.threads}", *link)
        took = read_took(printed)
        return took | {"share": took["exposed"] / took["step"], "link": max(self.bytes) / rate / took["step"]}


def run(args, binaries):
    with tempfile.TemporaryDirectory() as folder:
        sides = [Side(binaries, folder, name, args) for name in SIDES if name == "none" or not args.only or name in args.only]
        none, runs = sides[0], {side.name: [] for side in sides}
        most = max(max(side.bytes) for side in sides)
        for i in range(args.rounds):
            runs["none"].append(none.train(args.steps + 1, 1))
            rate = most / (args.fill * runs["none"][-1]["step"])
            for side in sides[1:]:
                runs[side.name].append(side.train(args.steps + 1, rate) | {"rate": rate})
                print(f"round {i + 1}/{args.rounds}, {side.name}: {runs[side.name][-1]}", file=sys.stderr, flush=True)
    medians = {side.name: {figure: statistics.median(of[figure] for of in runs[side.name])
                           for figure in (*FIGURES, "share", "link")} | {"mib": side.mib, "bytes": side.bytes} for side in sides}
    if args.format == "json":
        print(json.dumps({"runs": runs, "medians": medians}))
        return
    print(f"8 blocks of 512, batch {args.batch} x 128 in {args.micro_batches} micro-batches, one device of {args.threads} threads; "
          f"medians of {args.rounds} rounds")
    for name, m in medians.items():
        each = ", ".join(f"{of['share']:.3f}" + ("*" if of["busy"] else "") for of in runs[name])
        to, back = (each / 2 ** 20 for each in m["bytes"])
        print(f"  {name:24} {m['mib']:6.0f} MiB  {to:5.0f} MiB out, {back:5.0f} in  step {m['step']:7.3f} s, ratio "
              f"{m['step'] / medians['none']['step']:5.3f}  link {100 * m['link'] if name != 'none' else 0:3.0f} %  "
              f"exposed copy {m['share']:.3f} of a step ({each})")
    print(f"  must: at most {MUST} of a step where the link is at most half full; *: kernels waited for a core")
