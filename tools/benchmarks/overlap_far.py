"""tools/bench overlap --processes=2: exposed exchange of two processes over a slow link, with and without --prefetch.

A GPT of 8 layers of 512 with --shard=weights is trained with one device of one thread in each of two network namespaces
(far_plans.py: TCP of 500 Mbit/s each way; root). Its exchanges take about as long as its compute. Runs with --prefetch=0
and with the default alternate. Exposed exchange is what the run itself reports at its end: the time of a step in which no
kernel runs but data is exchanged, on average over the devices of process 0. Medians over the runs.
"""
import json
import re
import statistics
import sys
import tempfile

from benchmarks import far_plans
from benchmarks.sides import Oneflow

MODEL = dict(layers=8, heads=8, hidden=512, sequence=128, vocab=512, batch=16, bias=0)
SIDES = {"--prefetch=0": ("--prefetch=0",), "default": ()}
FIGURES = {"step": "time, the mean", "compute": "compute", "exposed": "exposed exchange"}
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}
MUST = 0.7


def read_took(printed):
    """Seconds of the column `took`, and if the run says that kernels waited for a core."""
    took = {}
    for figure, text in FIGURES.items():
        number, unit = re.search(rf"^ *{text}  .* ([\d.]+) (s|ms|us)(?: +\S+ %)?$", printed, flags=re.M).groups()
        took[figure] = float(number) * UNITS[unit]
    return took | {"busy": "the machine was busy" in printed}


def run(args, binaries):
    runs = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory() as folder, far_plans.slow_link() as names:
        link = far_plans.SlowLink(names)
        sides = {name: Oneflow(binaries, folder, MODEL, "data=2", 1, name=f"side{i}",
                               flags=("--shard=weights", "--overlap=true", *flags))
                 for i, (name, flags) in enumerate(SIDES.items())}
        for i in range(args.rounds):
            for name, side in sides.items():
                runs[name].append(read_took(link.train(side, args.steps + 2)))
            print(f"round {i + 1}/{args.rounds}", file=sys.stderr)
    medians = {name: {figure: statistics.median(run[figure] for run in of) for figure in FIGURES} for name, of in runs.items()}
    before, after = (medians[name]["exposed"] for name in SIDES)
    if args.format == "json":
        print(json.dumps({"link": link.name, "runs": runs, "medians": medians, "ratio": after / before}))
        return
    print(f"8 layers of 512, data=2 in two processes, --shard=weights, {link.name}; medians of {args.rounds} runs, seconds")
    for name, m in medians.items():
        each = ", ".join(f"{run['exposed']:.3f}" + ("*" if run["busy"] else "") for run in runs[name])
        print(f"  {name:12}  step {m['step']:.3f}  compute {m['compute']:.3f}  exposed exchange {m['exposed']:.3f} ({each})")
    print(f"  exposed exchange, ratio {after / before:.2f} (must be at most {MUST}); *: kernels waited for a core")
