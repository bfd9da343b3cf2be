"""Seconds, memory and losses of fine-tuning: oneflow, and transformers with peft.

Both train the same weights on the same batches with the same optimizer, in turn, each in a process of its own. The ratio of times is
peer / oneflow: above 1 is faster. That of memory is oneflow / peer, of the most resident bytes: below 1 is less. --lora trains
adapters of rank 16 on all products of the blocks. The loss difference is the largest of any step.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from benchmarks.sides import ROOT, SHAPES, processor

TARGETS = ["//tools/benchmarks:batches"]
SCRIPT = os.path.join(ROOT, "tools/benchmarks/torch_finetune.py")
RANK, RATE, SEED = 16, 1e-4, 1

# The small one is for a look at the bench itself.
MODELS = {name: SHAPES[name] for name in ["smollm2-135m", "qwen2.5-0.5b", "llama3.2-1b", "tiny"]}


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2-135m")
    parser.add_argument("--lora", action="store_true", help=f"adapters of rank {RANK} alone are trained")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--torch_python", required=True, help="python of a virtual environment with torch, transformers and peft")


def run(args, binaries):
    sides = {"oneflow": [], "transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        files = prepare(args, binaries, folder)
        for i in range(args.rounds):
            sides["oneflow"].append(train_oneflow(args, binaries, files))
            sides["transformers"].append(train_peer(args, files))
            so_far = ", ".join(f"{name} {min(s for r in rounds for s in r['seconds']):.3f} s" for name, rounds in sides.items())
            print(f"round {i + 1}/{args.rounds}: {so_far}", file=sys.stderr)
    show(args, sides)


def prepare(args, binaries, folder):
    """The model's folder, its adapter, the tokens of every step as data and as batches."""
    files = {name: os.path.join(folder, name) for name in ["model", "adapter", "ids.bin", "batches", "metrics.jsonl"]}
    config = dict(MODELS[args.model], max_position_embeddings=args.sequence)
    peer(args, "make", "--config=" + json.dumps(config), "--out=" + files["model"], f"--rank={RANK}",
         *(["--adapter=" + files["adapter"]] if args.lora else []))
    if args.lora:
        files["start"] = os.path.join(folder, "start")
        subprocess.run([os.path.join(binaries, "tools/oneflow/oneflow"), "import", "--from=" + files["adapter"],
                        "--base=" + files["model"], "--out=" + files["start"]], check=True, stdout=subprocess.DEVNULL)
    with open(files["ids.bin"], "wb") as out:  # below 2^16 and below every vocabulary, noise
        noise = os.urandom(1 << 18)
        out.write(b"".join(bytes([byte, 0]) for byte in noise))
    with open(files["batches"], "wb") as out:
        subprocess.run([os.path.join(binaries, "tools/benchmarks/batches"), "train", files["ids.bin"], "0",
                        str(config["vocab_size"]), str(args.sequence), str(args.batch), str(SEED), str(args.steps)],
                       check=True, stdout=out)
    return files


def peer(args, *words):
    subprocess.run([args.torch_python, SCRIPT, *words], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def train_oneflow(args, binaries, files):
    flags = ["--graph=" + files["model"], "--init_from=" + files["start" if args.lora else "model"],
             *([f"--lora=rank:{RANK},alpha:{2 * RANK},targets:attn+mlp"] if args.lora else []),
             *(["--precision=bf16", "--residual=f32"] if args.precision == "bf16" and not args.lora else
               ["--precision=" + args.precision])]
    command = [os.path.join(binaries, "tools/oneflow/oneflow"), "train", *flags, "--data=" + files["ids.bin"], "--token_bytes=2",
               f"--sequence={args.sequence}", f"--batch={args.batch}", f"--steps={args.steps}", f"--threads={args.threads}",
               f"--learning_rate={RATE}", "--beta1=0.9", "--beta2=0.95", "--epsilon=1e-8", "--weight_decay=0.1", "--clip=1",
               f"--seed={SEED}", "--metrics=" + files["metrics.jsonl"]]
    done = subprocess.run(["/usr/bin/time", "-f", "resident %M", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        sys.exit("tools/bench finetune: " + done.stderr)
    with open(files["metrics.jsonl"]) as lines:
        rows = [json.loads(line) for line in lines]
    return {"seconds": [row["step_seconds"] for row in rows][1:], "losses": [row["loss"] for row in rows],
            "resident_bytes": 1024 * int(re.search(r"resident (\d+)", done.stderr)[1])}


def train_peer(args, files):
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), OMP_WAIT_POLICY="passive")
    process = subprocess.Popen([args.torch_python, SCRIPT, "train", "--model=" + files["model"], "--tokens=" + files["batches"],
                                f"--batch={args.batch}", f"--sequence={args.sequence}", f"--threads={args.threads}",
                                "--precision=" + args.precision, f"--learning_rate={RATE}",
                                *(["--adapter=" + files["adapter"]] if args.lora else [])],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    answers, _ = process.communicate(f"steps {args.steps}\nmemory\n")
    if process.returncode != 0:
        sys.exit("tools/bench finetune: the peer failed")
    steps, memory = answers.splitlines()
    numbers = [float(x) for x in steps.split()]
    return {"seconds": numbers[1:args.steps], "losses": numbers[args.steps:], "resident_bytes": int(memory)}


def show(args, sides):
    result = {"model": args.model, "lora": args.lora, "precision": args.precision, "tokens": args.batch * args.sequence,
              "threads": args.threads, "host": processor(), "sides": {}}
    for name, rounds in sides.items():
        seconds = [s for r in rounds for s in r["seconds"]]
        result["sides"][name] = {"seconds": statistics.median(seconds), "fastest": min(seconds),
                                 "resident_bytes": max(r["resident_bytes"] for r in rounds), "losses": rounds[0]["losses"]}
    ours, theirs = result["sides"]["oneflow"], result["sides"]["transformers"]
    result["ratio"] = theirs["seconds"] / ours["seconds"]
    result["fastest_ratio"] = theirs["fastest"] / ours["fastest"]
    result["memory_ratio"] = ours["resident_bytes"] / theirs["resident_bytes"]
    result["loss_difference"] = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"]))
    if args.format == "json":
        print(json.dumps(result))
        return
    what = "LoRA" if args.lora else "full"
    print(f"{args.model}, {what}, {args.precision}, {result['tokens']} tokens a step, {args.threads} threads, {result['host']}")
    for name, side in result["sides"].items():
        print(f"  {name:13} {side['seconds']:.3f} s/step (fastest {side['fastest']:.3f}), {side['resident_bytes'] / 2**20:,.0f} MiB")
    print(f"  time {result['ratio']:.2f} x (fastest {result['fastest_ratio']:.2f}), memory {result['memory_ratio']:.2f}, "
          f"losses differ by at most {result['loss_difference']:.1e}")
