"""Seconds of a training step: oneflow, PyTorch, and the floor.

The ratio is PyTorch / oneflow: above 1 is faster. The floor is what the step's matrix products alone take with
oneDNN in the same precision; the share is floor / oneflow.
"""
import json
import statistics
import sys
import tempfile

from benchmarks.sides import MODELS, Oneflow, Torch, add_clock_flag, add_peer_flags, floor_seconds, has_avx512, peer_python

TARGETS = ["//tools/benchmarks:matrix_floor"]


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2-124m")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--mesh", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    add_clock_flag(parser)
    add_peer_flags(parser)


def run(args, binaries):
    if args.precision == "bf16" and not has_avx512():
        sys.exit("tools/bench train: --precision=bf16: oneDNN, the floor, has no bf16 products on a processor without AVX-512")
    model = MODELS[args.model]
    python, flags = peer_python(args), [f"--precision={args.precision}", f"--clock={args.clock}"]
    peers = {"PyTorch": Torch(python, model, args.threads, *flags)}
    if args.peer == "torch2":
        peers["PyTorch compiled"] = Torch(python, model, args.threads, *flags, "--compile")
    seconds = {name: [] for name in ["oneflow", *peers]}
    floors = []
    with tempfile.TemporaryDirectory() as folder:
        oneflow = Oneflow(binaries, folder, model, args.mesh, args.threads, args.precision)
        for peer in peers.values():
            peer.steps(2)
        for i in range(args.rounds):
            floors.append(floor_seconds(binaries, model, args.threads, args.precision))
            seconds["oneflow"] += oneflow.steps(args.steps, args.clock)
            for name, peer in peers.items():
                seconds[name] += peer.steps(args.steps)
            so_far = ", ".join(f"{name} {statistics.median(s):.4f} s" for name, s in seconds.items())
            print(f"round {i + 1}/{args.rounds}: {so_far}, floor {min(floors):.4f} s", file=sys.stderr)
    for peer in peers.values():
        peer.close()
    show(args, seconds, min(floors))


def show(args, seconds, floor):
    ours = seconds["oneflow"]
    result = {"model": args.model, "precision": args.precision, "mesh": args.mesh, "threads": args.threads,
              "floor_seconds": floor, "share": floor / statistics.median(ours), "sides": {}}
    for name, s in seconds.items():
        result["sides"][name] = {"seconds": statistics.median(s), "fastest": min(s),
                                 "ratio": statistics.median(s) / statistics.median(ours),
                                 "fastest_ratio": min(s) / min(ours)}
    if args.format == "json":
        print(json.dumps(result))
        return
    print(f"{args.model}, {args.precision}, {args.threads} threads: oneDNN matrix floor {floor:.4f} s, "
          f"share {100 * result['share']:.0f} %")
    for name, side in result["sides"].items():
        print(f"  {name:18} {side['seconds']:.4f} s/step, ratio {side['ratio']:.2f} "
              f"(fastest {side['fastest']:.4f}, ratio {side['fastest_ratio']:.2f})")
