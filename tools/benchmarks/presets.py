"""Plans of the presets for H100s, as rows of a table in Markdown: bytes a device, simulated step, MFU.

Each preset is compiled for --cluster=h100 in bf16 with the mesh and flags that stand in PLANS; the plan is proved, and
its step simulated. Nothing runs on a GPU: the figures are predictions.
"""
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

TARGETS = []
CLUSTER = ["--cluster=h100", "--device=cuda", "--precision=bf16", "--shard=states"]
TENSOR = "--sequence_parallel"
WINDOWLESS = ["--window=0"]  # as long as the sequence, the window hides nothing; kernels of GPUs have none


@dataclasses.dataclass(frozen=True)
class Plan:
    """A preset, and how it is trained: `size` sequences in a micro-batch of each data rank."""
    preset: str
    sequence: int
    mesh: str
    size: int
    micro_batches: int
    flags: tuple = ()
    model_flags: tuple = ()

    def data(self):
        degrees = dict(axis.split("=") for axis in self.mesh.split(","))
        return int(degrees.get("data", 1))

    def batch(self):
        return self.data() * self.size * self.micro_batches

    def family(self):
        return "gpt" if self.preset.startswith("gpt") else "llama"


PLANS = [
    Plan("gpt2-124m", 1024, "data=8", 16, 4),
    Plan("gpt2-350m", 1024, "data=8", 16, 4),
    Plan("gpt2-774m", 1024, "data=8", 8, 8),
    Plan("gpt2-1.5b", 1024, "data=8", 4, 16),
    Plan("gpt3-175b", 2048, "pipe=8,data=8,tensor=8", 1, 64, (TENSOR,)),
    Plan("llama2-7b", 4096, "data=8,tensor=2", 2, 16, (TENSOR,)),
    Plan("llama2-13b", 4096, "data=8,tensor=4", 2, 16, (TENSOR,)),
    Plan("llama2-70b", 4096, "pipe=4,data=8,tensor=8", 1, 32, (TENSOR,)),
    Plan("llama3-8b", 8192, "data=8,tensor=2", 1, 16, (TENSOR,)),
    Plan("llama3-70b", 8192, "pipe=4,data=8,tensor=8", 1, 32, (TENSOR,)),
    Plan("llama3.1-8b", 8192, "data=8,tensor=2", 1, 16, (TENSOR,)),
    Plan("llama3.1-70b", 8192, "pipe=4,data=8,tensor=8", 1, 32, (TENSOR,)),
    Plan("llama3.1-405b", 8192, "pipe=16,data=8,tensor=8", 1, 64, (TENSOR,)),
    Plan("llama3.2-1b", 8192, "data=8", 1, 16),
    Plan("llama3.2-3b", 8192, "data=8", 1, 16),
    Plan("mistral-7b", 4096, "data=8,tensor=2", 2, 16, (TENSOR,), tuple(WINDOWLESS)),
    Plan("qwen2.5-0.5b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-1.5b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-3b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-7b", 4096, "data=8,tensor=2", 2, 16, (TENSOR,)),
    Plan("qwen2.5-14b", 4096, "data=8,tensor=4", 2, 16, (TENSOR,)),
    Plan("qwen2.5-32b", 4096, "pipe=2,data=8,tensor=8", 2, 16, (TENSOR,)),
    Plan("qwen3-0.6b", 4096, "data=8", 2, 16),
    Plan("qwen3-1.7b", 4096, "data=8", 2, 16),
    Plan("qwen3-4b", 4096, "data=8,tensor=2", 2, 16, (TENSOR,)),
    Plan("qwen3-8b", 4096, "data=8,tensor=2", 2, 16, (TENSOR,)),
    Plan("qwen3-14b", 4096, "data=8,tensor=4", 2, 16, (TENSOR,)),
    Plan("qwen3-32b", 4096, "pipe=2,data=8,tensor=8", 2, 16, (TENSOR,)),
]


def add_flags(parser):
    parser.add_argument("--only", help="only presets whose names contain this")


def call(oneflow, *args):
    done = subprocess.run([oneflow, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench presets: oneflow {' '.join(args)}: {done.stderr}")
    return done.stdout


def compile_plan(oneflow, folder, plan):
    """The plan's row: a dictionary."""
    graph, out = (os.path.join(folder, name) for name in ("model.textproto", "model.plan"))
    call(oneflow, "model", plan.family(), "--preset=" + plan.preset, f"--sequence={plan.sequence}", *plan.model_flags,
         "--out=" + graph)
    text = call(oneflow, "compile", "--graph=" + graph, "--mesh=" + plan.mesh, f"--batch={plan.batch()}",
         f"--micro_batches={plan.micro_batches}", *CLUSTER, *plan.flags, "--out=" + out, "--format=json")
    return {"plan": dataclasses.asdict(plan), **json.loads(text)}


def run(args, binaries):
    oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for plan in PLANS:
            if args.only and args.only not in plan.preset:
                continue
            row = compile_plan(oneflow, folder, plan)
            print(json.dumps({k: v for k, v in row.items() if k not in ("programs", "variables", "notes")}))
            rows.append(row)
