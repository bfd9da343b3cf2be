"""The well-known small recipe, trained by both sides from the same weights on the same batches.

4 layers, 4 heads, hidden 128, context 64, batch 12, no biases, no dropout (or a Llama of that size: --model=llama-small);
AdamW .9/.99, decay .1, clip 1, warm-up of 100 steps to 1e-3, cosine to 1e-4; f32; on 1 MB of English text that a Debian
machine has (or --text=FILE), a tenth of it for validation. Prints steps/s of both sides and both validation losses, over
the same batches.
"""
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.sides import MODELS, Oneflow, Torch, add_peer_flags, floor_seconds, peer_python

TARGETS = ["//tools/benchmarks:matrix_floor", "//tools/benchmarks:batches"]

SEED, EVAL_FRACTION = 1, 0.1
BETA2, DECAY, WARM_UP, PEAK, LOWEST = 0.99, 0.1, 100, 1e-3, 1e-4
TEXT_BYTES = 1_000_000
TEXTS = ["/usr/share/common-licenses/*", "/usr/share/perl/[0-9]*.[0-9]*.[0-9]*/**/*.pod"]


def add_flags(parser):
    parser.add_argument("--model", choices=["small", "llama-small"], default="small")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--eval_batches", type=int, default=200)
    parser.add_argument("--text", help="a file to train on")
    add_peer_flags(parser)


def run(args, binaries):
    python, model = peer_python(args), MODELS[args.model]
    with tempfile.TemporaryDirectory() as folder:
        text = args.text or gather_text(folder)
        oneflow = Oneflow(binaries, folder, model, threads=args.threads)
        flags = ["--checkpoint=" + initial_checkpoint(oneflow, text), f"--beta2={BETA2}", f"--weight_decay={DECAY}",
                 "--rates=" + write_rates(folder, args.steps),
                 "--tokens=" + write_batches(binaries, folder, model, "train", text, args.steps),
                 "--eval_tokens=" + write_batches(binaries, folder, model, "eval", text, args.eval_batches)]
        peers = {"PyTorch": Torch(python, model, args.threads, *flags)}
        if args.peer == "torch2":
            peers["PyTorch compiled"] = Torch(python, model, args.threads, "--compile", *flags)
        result = alternate(args, binaries, oneflow, text, peers)
    show(args, result)


def alternate(args, binaries, oneflow, text, peers):
    """Trains all sides, --rounds parts of the steps each in turn."""
    seconds = {name: [] for name in ["oneflow", *peers]}
    floors = []
    for i in range(args.rounds):
        first, last = args.steps * i // args.rounds, args.steps * (i + 1) // args.rounds
        floors.append(floor_seconds(binaries, MODELS[args.model], args.threads))
        rows = oneflow.train(text, last, *recipe_flags(args), "--checkpoint_dir=" + os.path.join(oneflow.folder, "ckpt"),
                             *(["--resume"] if i else []))
        seconds["oneflow"] += [row["step_seconds"] for row in rows if row["step"] >= first]
        for name, peer in peers.items():
            seconds[name] += peer.steps(last - first)
        so_far = ", ".join(f"{name} {1000 * statistics.median(s):.2f} ms" for name, s in seconds.items())
        print(f"{last} of {args.steps} steps: {so_far}", file=sys.stderr)
    losses = {"oneflow": rows[-1]["eval_loss"]}
    for name, peer in peers.items():
        losses[name] = peer.ask("eval", args.eval_batches)[0]
        peer.close()
    return {"floor_seconds": min(floors),
            "sides": {name: {"seconds": statistics.median(s), "eval_loss": losses[name]} for name, s in seconds.items()}}


def show(args, result):
    ours = result["sides"]["oneflow"]
    for side in result["sides"].values():
        side["ratio"] = side["seconds"] / ours["seconds"]
        side["loss_difference"] = side["eval_loss"] - ours["eval_loss"]
    if args.format == "json":
        print(json.dumps(result))
        return
    floor = result["floor_seconds"]
    print(f"{args.steps} steps of the recipe, {args.model}, {args.threads} threads: oneDNN matrix floor {1000 * floor:.2f} ms, "
          f"share {100 * floor / ours['seconds']:.0f} %")
    for name, side in result["sides"].items():
        print(f"  {name:18} {1 / side['seconds']:6.1f} steps/s ({1000 * side['seconds']:.2f} ms), ratio {side['ratio']:.2f}, "
              f"validation loss {side['eval_loss']:.4f} ({side['loss_difference']:+.4f})")


def recipe_flags(args):
    return [f"--learning_rate={PEAK}", f"--min_learning_rate={LOWEST}", "--lr_schedule=cosine", f"--warmup_steps={WARM_UP}",
            f"--decay_steps={args.steps}", "--beta1=0.9", f"--beta2={BETA2}", f"--weight_decay={DECAY}", "--clip=1",
            f"--seed={SEED}", f"--eval_fraction={EVAL_FRACTION}", f"--eval_batches={args.eval_batches}"]


def gather_text(folder):
    path = os.path.join(folder, "text")
    text = b""
    for name in [name for pattern in TEXTS for name in sorted(glob.glob(pattern, recursive=True))]:
        with open(name, "rb") as part:
            text += part.read()
    if len(text) < TEXT_BYTES:
        sys.exit(f"tools/bench: {' and '.join(TEXTS)} hold {len(text)} bytes, not {TEXT_BYTES}; give --text=FILE")
    with open(path, "wb") as out:
        out.write(text[:TEXT_BYTES])
    return path


def initial_checkpoint(oneflow, text):
    """The folder of the checkpoint of a step that moves nothing: the initial weights."""
    folder = os.path.join(oneflow.folder, "start")
    oneflow.train(text, 1, "--learning_rate=1e-30", "--weight_decay=0", f"--seed={SEED}", "--checkpoint_dir=" + folder)
    return os.path.join(folder, "step-00000001")


def write_rates(folder, steps):
    """The learning rate of every step, a line each."""
    path = os.path.join(folder, "rates")
    with open(path, "w") as out:
        for step in range(steps):
            done = (step - WARM_UP) / max(1, steps - WARM_UP)
            cosine = LOWEST + (PEAK - LOWEST) * 0.5 * (1 + math.cos(math.pi * done))
            print(PEAK * (step + 1) / WARM_UP if step < WARM_UP else cosine, file=out)
    return path


def write_batches(binaries, folder, model, which, text, steps):
    path = os.path.join(folder, which + ".i32")
    with open(path, "wb") as out:
        subprocess.run([os.path.join(binaries, "tools/benchmarks/batches"), which, text, str(EVAL_FRACTION),
                        str(model["vocab"]), str(model["sequence"]), str(model["batch"]), str(SEED), str(steps)],
                       check=True, stdout=out)
    return path
