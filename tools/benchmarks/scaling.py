"""Strong scaling inside one machine: two devices of one thread each against one device of two threads.

The overhead is seconds(two devices) / seconds(one device) - 1. A pipe of P stages with M micro-batches
cannot take less than (M + P - 1) / M of its busy time: its overhead counts beyond that bubble, and so does
the one device's, which runs the same micro-batches.
"""
import json
import statistics
import sys
import tempfile

from benchmarks.sides import MODELS, Oneflow, add_clock_flag

TARGETS = []


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2-124m")
    parser.add_argument("--micro_batches", type=int, default=4, help="of the pipe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    add_clock_flag(parser)


def run(args, binaries):
    model, m = MODELS[args.model], args.micro_batches
    bubble = 1.0 if args.clock == "cpu" else (m + 1) / m  # the CPU's clock stands still in it
    meshes = {"data=2": ("", 1, 1.0), "tensor=2": ("", 1, 1.0), "pipe=2": ("", m, bubble)}
    with tempfile.TemporaryDirectory() as folder:
        sides = {}
        for micro in sorted({micro for _, micro, _ in meshes.values()}):
            sides[f"one/{micro}"] = Oneflow(binaries, folder, model, "", 2, name=f"one{micro}", micro_batches=micro)
        for mesh, (_, micro, _) in meshes.items():
            sides[mesh] = Oneflow(binaries, folder, model, mesh, 1, name=mesh, micro_batches=micro)
        seconds = {name: [] for name in sides}
        for i in range(args.rounds):
            for name, side in sides.items():
                seconds[name] += side.steps(args.steps, args.clock)
            print(f"round {i + 1}/{args.rounds}", file=sys.stderr)
    result = {}
    for mesh, (_, micro, idle) in meshes.items():
        base = statistics.median(seconds[f"one/{micro}"])
        took = statistics.median(seconds[mesh])
        result[mesh] = {"seconds": took, "one_device_seconds": base, "bubble": idle - 1,
                        "overhead": took / (base * idle) - 1}
    if args.format == "json":
        print(json.dumps(result))
        return
    for mesh, r in result.items():
        print(f"{mesh:9} {r['seconds']:.4f} s/step, one device {r['one_device_seconds']:.4f} s, "
              f"bubble {100 * r['bubble']:.0f} %, overhead {100 * r['overhead']:+.1f} %")
