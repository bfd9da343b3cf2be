"""What `oneflow simulate` says of runs that papers report: Zero Bubble (ICLR'24) on A100-80G, 1F1B.

Bubble rates at the first number of micro-batches, and samples a GPU and second; beside them what a plain formula says:
(p - 1) / (m + p - 1), and the peak over the FLOPs of a sample. The cluster is examples/clusters/a100.textproto, for all rows
alike. The paper's first and last stage have one layer fewer; it does not say how many words there are (--vocab).
"""
import json
import os
import re
import statistics
import subprocess
import tempfile

from benchmarks.sides import ROOT

TARGETS = []
CLUSTER = os.path.join(ROOT, "examples/clusters/a100.textproto")
PEAK = 312e12
SEQUENCE = 1024
# name, layers, heads, hidden, stages, sequences a micro-batch, {micro-batches: samples/GPU/s}, bubble at the first
ROWS = [
    ("1.5B", 22, 24, 2304, 8, 6, {24: 11.8, 32: 12.5, 64: 13.6}, 0.2431),
    ("14.6B", 46, 40, 5120, 16, 1, {48: 1.40, 64: 1.49, 128: 1.64}, 0.2552),
]


def add_flags(parser):
    parser.add_argument("--vocab", type=int, default=32000)


def with_stages(graph, layers, stages):
    """The text of a graph with a stage for each op: as many blocks on each, but one fewer on the first and the last."""
    lines = []
    for line in graph.splitlines():
        lines.append(line)
        name = re.match(r'  name: "([^"]*)"', line)
        if not name:
            continue
        block = re.match(r"h\.(\d+)\.", name[1])
        first = name[1].startswith(("wte", "wpe", "embed", "tokens"))
        stage = (int(block[1]) + 1) // ((layers + 2) // stages) if block else 0 if first else stages - 1
        if stage > 0:
            lines.append(f"  stage: {stage}")
    return "\n".join(lines)


def flops_of_sample(layers, hidden, vocab):
    """Forward and backward, without recompute (SC'21)."""
    return 72 * SEQUENCE * layers * hidden**2 * (1 + SEQUENCE / (6 * hidden) + vocab / (12 * layers * hidden))


def simulated(oneflow, folder, row, micro_batches, vocab):
    _, layers, heads, hidden, stages, size, _, _ = row
    def run(*args):
        return subprocess.run([oneflow, *args], cwd=folder, check=True, capture_output=True, text=True).stdout
    run("model", "gpt", f"--layers={layers}", f"--heads={heads}", f"--hidden={hidden}", f"--sequence={SEQUENCE}",
        f"--vocab={vocab}", "--tied=false", "--out=gpt.textproto")
    with open(os.path.join(folder, "gpt.textproto")) as file:
        graph = with_stages(file.read(), layers, stages)
    with open(os.path.join(folder, "gpt.textproto"), "w") as file:
        file.write(graph)
    run("compile", "--graph=gpt.textproto", f"--mesh=pipe={stages}", f"--batch={size * micro_batches}",
        f"--micro_batches={micro_batches}", "--precision=bf16", "--threads=1", "--out=gpt.plan")
    return json.loads(run("simulate", "--plan=gpt.plan", "--cluster=" + CLUSTER, "--format=json"))


def run(args, binaries):
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            name, layers, _, hidden, stages, size, published, bubble = row
            for m, samples in published.items():
                step = simulated(os.path.join(binaries, "tools/oneflow/oneflow"), folder, row, m, args.vocab)
                result = {"model": name, "micro_batches": m, "samples": size * m / stages / step["step_seconds"],
                          "published_samples": samples, "plain_samples": PEAK / flops_of_sample(layers, hidden, args.vocab)}
                if m == min(published):
                    result |= {"bubble": step["bubble"], "published_bubble": bubble, "plain_bubble": (stages - 1) / (m + stages - 1)}
                results.append(result)
    if args.format == "json":
        print(json.dumps(results))
        return
    print("simulated, published, plain formula")
    for r in results:
        words = f"{r['model']:6} m={r['micro_batches']:<4} samples/GPU/s {r['samples']:6.2f} {r['published_samples']:6.2f} {r['plain_samples']:6.2f}"
        if "bubble" in r:
            words += f"   bubble {r['bubble']:.4f} {r['published_bubble']:.4f} {r['plain_bubble']:.4f}"
        print(words)
    mean = statistics.mean(abs(r["samples"] / r["published_samples"] - 1) for r in results)
    plain = statistics.mean(abs(r["plain_samples"] / r["published_samples"] - 1) for r in results)
    print(f"mean error of samples/GPU/s {100 * mean:.0f} %, of the plain formula {100 * plain:.0f} %")
