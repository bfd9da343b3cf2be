"""Profiles a training step: seconds and share of each kind of kernel, and the time outside kernels.

From a trace of every firing of one device: a step lasts from the start of its first kernel to the start of the
next step's, and what no kernel of the compute stream covers is the cost of actors, waiting included.
"""
import collections
import json
import os
import statistics
import tempfile

from benchmarks.sides import MODELS, Oneflow

TARGETS = []

WARM_UP = 2  # steps


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2-124m")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--steps", type=int, help="default: 100 of the small model, 5 of another")


def run(args, binaries):
    steps = args.steps or (100 if args.model == "small" else 5)
    with tempfile.TemporaryDirectory() as folder:
        oneflow = Oneflow(binaries, folder, MODELS[args.model], threads=args.threads, precision=args.precision)
        trace = os.path.join(folder, "trace.json")
        oneflow.train(oneflow.noise(), steps + WARM_UP, "--trace=" + trace)
        facts = json.loads(oneflow.run("explain", "--plan=" + oneflow.plan, "--format=json"))
        with open(trace) as text:
            profile = make_profile(json.load(text)["traceEvents"], list_kernels(facts))
    if args.format == "json":
        print(json.dumps(profile))
        return
    print(f"{args.model}, {args.precision}, {args.threads} threads: {1000 * profile['step_seconds']:.3f} ms a step")
    for kernel in profile["kernels"]:
        print(f"  {kernel['kernel']:28} {kernel['firings']:4d} firings {1000 * kernel['seconds']:10.3f} ms "
              f"{100 * kernel['share']:6.2f} %")
    print(f"  {'outside kernels':28} {'':4}         {1000 * profile['outside_seconds']:10.3f} ms "
          f"{100 * profile['outside_share']:6.2f} %")


def list_kernels(facts):
    """Name of an actor of `train` -> its kernel."""
    train = next(p for p in facts["programs"] if p["name"] == "train")
    return {actor["name"]: actor["kernel"] for actor in train["actors"]}


def make_profile(events, kernels):
    """Medians over the steps after the first ones, of the stream that fires most."""
    slices = [e for e in events if e.get("ph") == "X" and e["args"]["program"] == "train"]
    stream = collections.Counter(e["tid"] for e in slices).most_common(1)[0][0]
    steps = collections.defaultdict(list)
    for e in slices:
        if e["tid"] == stream and e["args"]["step"] >= WARM_UP:
            steps[e["args"]["step"]].append(e)
    starts = [min(e["ts"] for e in steps[s]) for s in sorted(steps)]
    step = statistics.median(b - a for a, b in zip(starts, starts[1:]))
    busy = collections.defaultdict(lambda: [0.0] * len(steps))
    for i, s in enumerate(sorted(steps)):
        for e in steps[s]:
            busy[kernels[e["name"]]][i] += e["dur"]
    medians = {kernel: statistics.median(durations) for kernel, durations in busy.items()}
    firings = collections.Counter(kernels[e["name"]] for e in steps[WARM_UP])
    outside = statistics.median(b - a - sum(d[i] for d in busy.values())
                                for i, (a, b) in enumerate(zip(starts, starts[1:])))
    return {"step_seconds": step / 1e6,
            "kernels": [{"kernel": k, "firings": firings[k], "seconds": m / 1e6, "share": m / step}
                        for k, m in sorted(medians.items(), key=lambda item: -item[1])],
            "outside_seconds": outside / 1e6, "outside_share": outside / step}
