"""Tokens a second of `oneflow generate` beside transformers, and the bound that memory sets.

One sequence, the likeliest token each time. A token reads all weights, so no program writes more of them a second than memory reads
these bytes: the bound, with the bandwidth that `oneflow calibrate` measures, here before and after each side. The weights are random
ones of a configuration. Each figure is the fastest of the rounds, since other work on the machine only adds time.
"""
import json
import os
import subprocess
import sys
import tempfile

from benchmarks.sides import ROOT, SHAPES, TORCH_CACHE, processor

TARGETS = ["//tools/benchmarks:read_rate"]
MODELS = ["gpt2-124m", "smollm2-135m", "qwen2.5-0.5b"]


def add_flags(parser):
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--prompt", type=int, default=256, help="tokens")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--sequence", type=int, default=1024, help="positions of the caches")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--torch_python", default=TORCH_CACHE + "/bin/python",
                        help="python of a virtual environment with torch and transformers")


class Transformers:
    def __init__(self, python, folder, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
        script = os.path.join(ROOT, "tools/benchmarks/torch_generate.py")
        self.process = subprocess.Popen([python, script, "run", "--model=" + folder, f"--threads={threads}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("tools/bench generate: transformers ended; its message is above")
        return line

    def generate(self, prompt, tokens):
        self.process.stdin.write(f"generate {prompt} {tokens}\n")
        self.process.stdin.flush()
        return [float(x) for x in self.read().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Oneflow:
    def __init__(self, binaries, source, folder, args):
        self.program = os.path.join(binaries, "tools/oneflow/oneflow")
        self.rate_program = os.path.join(binaries, "tools/benchmarks/read_rate")
        self.checkpoint = os.path.join(folder, "checkpoint")
        self.args = args
        subprocess.run([self.program, "import", "--from=" + source, f"--sequence={args.sequence}", "--out=" + self.checkpoint],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def generate(self):
        """Seconds of the prompt, and of the tokens: the first of them costs a choice, since its logits are the prompt's."""
        text = subprocess.run([self.program, "generate", "--checkpoint=" + self.checkpoint, "--tokenizer=bytes",
                               "--prompt=" + "a" * self.args.prompt, f"--tokens={self.args.tokens}", "--temperature=0",
                               f"--threads={self.args.threads}", "--format=json"],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        report = json.loads(text)
        return report["prompt_seconds"], report["seconds"]

    def read_rate(self, threads):
        """Bytes a second."""
        return float(subprocess.run([self.rate_program, str(threads), "0.4"], check=True, stdout=subprocess.PIPE, text=True).stdout)


def measure(args, binaries):
    """Per side the fastest prompt and tokens a second, and the fastest reads of memory by one thread and by all."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        script = os.path.join(ROOT, "tools/benchmarks/torch_generate.py")
        config = json.dumps({**SHAPES[args.model], "max_position_embeddings": args.sequence})
        made = subprocess.run([args.torch_python, script, "make", "--config=" + config, "--out=" + source], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        reads = json.loads(made)
        ours = Oneflow(binaries, source, folder, args)
        peer = Transformers(args.torch_python, source, args.threads)
        peer.generate(args.prompt, 2)  # the first run takes longer
        times, rates = {"oneflow": [], "transformers": []}, {1: [], args.threads: []}
        for _ in range(args.rounds):
            for side, generate in [("oneflow", ours.generate), ("transformers", lambda: peer.generate(args.prompt, args.tokens))]:
                for threads, seen in rates.items():
                    seen.append(ours.read_rate(threads))
                times[side].append(generate())
        peer.close()
    positions = args.prompt + args.tokens / 2
    result = {"model": args.model, "threads": args.threads, "prompt": args.prompt, "tokens": args.tokens,
              "processor": processor(), "bytes_per_token": int(4 * (reads["weights"] + reads["cached"] * positions)),
              "read_bandwidth_1": max(rates[1]), "read_bandwidth": max(rates[args.threads])}
    result["bound"] = result["read_bandwidth"] / result["bytes_per_token"]
    for side, pairs in times.items():
        rate = (args.tokens - 1) / min(seconds for _, seconds in pairs)
        result[side] = {"prompt_seconds": min(seconds for seconds, _ in pairs), "tokens_per_second": rate,
                        "share_of_bound": rate / result["bound"]}
    return result


def run(args, binaries):
    result = measure(args, binaries)
    if args.format == "json":
        print(json.dumps(result))
        return
    print(f"{args.model}, f32, {args.threads} threads of {result['processor']}, prompt of {args.prompt}, "
          f"{args.tokens} tokens, fastest of {args.rounds} rounds")
    print(f"memory reads {result['read_bandwidth_1'] / 1e9:.1f} GB/s by 1 thread, {result['read_bandwidth'] / 1e9:.1f} by {args.threads}; "
          f"a token reads {result['bytes_per_token'] / 1e6:.0f} MB: at most {result['bound']:.1f} tokens/s")
    for side in ["oneflow", "transformers"]:
        one = result[side]
        print(f"{side:12}  {one['tokens_per_second']:6.1f} tokens/s, {100 * one['share_of_bound']:3.0f} % of the bound; "
              f"prompt in {one['prompt_seconds']:.3f} s")
    ours, peer = result["oneflow"], result["transformers"]
    print(f"ratio         {ours['tokens_per_second'] / peer['tokens_per_second']:6.2f}          prompt "
          f"{peer['prompt_seconds'] / ours['prompt_seconds']:.2f}")
