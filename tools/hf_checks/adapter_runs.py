"""Fine-tuning by oneflow, compared with what transformers and peft computed. It needs Python's own modules alone."""
import array
import json
import math
import os

from . import files

FAMILIES = ["gpt2", "llama", "mistral", "qwen2", "qwen3"]
STEPS, BATCH, SEED, LEARNING_RATE = 20, 4, 1, 1e-3
OPTIMIZER = [f"--batch={BATCH}", f"--steps={STEPS}", f"--seed={SEED}", f"--learning_rate={LEARNING_RATE}", "--beta1=0.9",
             "--beta2=0.95", "--epsilon=1e-6", "--weight_decay=0", "--clip=0"]
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-5, 1e-4


def train(oneflow, tokens, out, *flags):
    """The losses of the steps; checkpoints are in `out`."""
    with open(oneflow.path("tokens.bin"), "wb") as file:
        file.write(array.array("H", tokens).tobytes())
    oneflow.run("train", "--data=tokens.bin", *OPTIMIZER, "--checkpoint_dir=" + out, f"--metrics={out}.jsonl", *flags)
    with open(oneflow.path(out + ".jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


def check_losses(ours, theirs):
    """The largest relative difference."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours)} losses, and {len(theirs)} of torch")
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    if not worst <= LOSS_TOLERANCE:
        raise AssertionError(f"losses: differ by {worst:.1e}: {ours}, and of torch {theirs}")
    return worst


def check_tensors(ours, theirs):
    """Compares {name: values}; returns the norm of the difference relative to that of theirs."""
    if set(ours) != set(theirs):
        raise AssertionError(f"tensors: {sorted(set(ours) ^ set(theirs))[:6]} are in one of the two alone")
    difference = norm = 0.0
    for name, values in theirs.items():
        if len(values) != len(ours[name]):
            raise AssertionError(f"{name}: {len(ours[name])} elements, and {len(values)} of torch")
        difference += sum((a - b) ** 2 for a, b in zip(ours[name], values))
        norm += sum(b * b for b in values)
    relative = math.sqrt(difference / norm)
    if not relative <= NORM_TOLERANCE:
        raise AssertionError(f"tensors: the relative norm of their difference is {relative:.1e}")
    return relative


def tensors(path):
    """{name: values} of a file, or of all files of a folder."""
    read = files.read_model(path) if os.path.isdir(path) else files.read_safetensors(path)
    return {name: list(files.floats(dtype, data)) for name, (dtype, _, data) in read.items()}


def check_adapter(oneflow, base, adapter, expected):
    """Imports an adapter, trains it, exports it and merges it, in the folder of `oneflow`; returns what differs."""
    oneflow.run("import", "--from=" + adapter, "--base=" + base, "--out=adapted")
    losses = train(oneflow, expected["tokens"], "tuned", "--init_from=adapted")
    worst = check_losses(losses, expected["losses"])
    oneflow.run("export", "--checkpoint=tuned", "--out=exported")
    oneflow.run("export", "--checkpoint=tuned", "--merge", "--dtype=f32", "--out=merged")
    return worst


def evaluate(oneflow, checkpoint):
    return json.loads(oneflow.run("eval", "--checkpoint=" + checkpoint, "--data=tokens.bin", "--format=json",
                                  "--tokenizer=bytes"))["loss"]
