"""What the peers of tools/bench in plain PyTorch share: attention, and training as a process that answers requests.

  steps N    trains N steps, prints the seconds of each on one line
  eval N     prints the mean loss over the first N batches of --eval_tokens

Same batch, optimizer and clipping as `oneflow train`. From --checkpoint (a folder that oneflow wrote), --tokens and
--rates it starts and goes on exactly as a oneflow run does; without them weights are random and every batch is the
same.
"""
import argparse
import contextlib
import functools
import json
import os
import sys
import time

import numpy
import torch
import torch.nn.functional as F


@functools.lru_cache(maxsize=None)
def make_mask(positions, device):
    return torch.ones(positions, positions, dtype=torch.bool, device=device).triu(1)


def attend(q, k, v):
    """Causal attention of [batch, heads, positions, head_dim]; several heads of q may share one of k and v."""
    shared = q.size(1) // k.size(1)
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **({"enable_gqa": True} if shared > 1 else {}))
    k, v = (y.repeat_interleave(shared, dim=1) for y in (k, v))
    scores = (q @ k.transpose(-2, -1)) * (q.size(-1) ** -0.5)
    return F.softmax(scores.masked_fill(make_mask(q.size(-2), q.device), float("-inf")), dim=-1) @ v


def read_checkpoint(folder):
    """Name -> array of the variables of a checkpoint that one device wrote."""
    with open(os.path.join(folder, "manifest.json")) as manifest:
        variables = json.load(manifest)["variables"]
    arrays = {}
    for v in variables:
        (piece,) = v["slices"]
        arrays[v["name"]] = numpy.fromfile(os.path.join(folder, piece["file"]), dtype="<f4", offset=piece["offset"],
                                           count=piece["bytes"] // 4).reshape(v["dims"])
    return arrays


def load(model, weights):
    """From oneflow's arrays: [in..., out...] where a Linear has [out, in]; names differ for embeddings only."""
    tables = {name + ".weight": name for name, part in model.named_modules() if isinstance(part, torch.nn.Embedding)}
    with torch.no_grad():
        for name, p in model.named_parameters():
            value = torch.from_numpy(weights[tables.get(name, name)])
            if p.dim() == 2 and name not in tables:
                value = value.reshape(p.shape[1], p.shape[0]).t()
            p.copy_(value.reshape(p.shape))


def make_optimizer(model, beta2, decay):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    fused = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {}
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, beta2), eps=1e-8, **fused)


class Trainer:
    def __init__(self, model, args):
        self.device = args.device
        self.model = model.to(self.device)
        if args.checkpoint:
            load(self.model, read_checkpoint(args.checkpoint))
        self.loss = torch.compile(self.model) if args.compile else self.model
        self.optimizer = make_optimizer(self.model, args.beta2, args.weight_decay)
        self.shape = (-1, args.batch, args.sequence + 1)
        self.batches = self.read(args.tokens) if args.tokens else self.draw(args.vocab)
        self.eval_batches = self.read(args.eval_tokens) if args.eval_tokens else None
        self.rates = numpy.loadtxt(args.rates) if args.rates else None
        self.bf16 = args.precision == "bf16"
        self.done = 0

    def read(self, path):
        return torch.from_numpy(numpy.fromfile(path, dtype="<i4").astype("int64").reshape(self.shape)).to(self.device)

    def draw(self, vocab):
        return torch.randint(0, vocab, (1, *self.shape[1:])).to(self.device)

    def narrow(self):
        return torch.autocast(self.device, dtype=torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def step(self):
        batch = self.batches[self.done % len(self.batches)]
        if self.rates is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = float(self.rates[self.done])
        self.optimizer.zero_grad(set_to_none=True)
        with self.narrow():
            loss = self.loss(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()
        self.done += 1

    def eval(self, n):
        with torch.no_grad(), self.narrow():
            return sum(self.model(b[:, :-1], b[:, 1:]).item() for b in self.eval_batches[:n]) / n


def main(make_model, sizes, **defaults):
    """Trains a model, made of the flags `sizes`, which must be given, and `defaults`, which may be."""
    parser = argparse.ArgumentParser()
    for name in [*sizes, "batch", "threads"]:
        parser.add_argument("--" + name, type=int, required=True)
    for name, value in defaults.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: CPU seconds over threads")
    parser.add_argument("--beta2", type=float, default=0.95)
    parser.add_argument("--weight_decay", type=float, default=0.1)
    for name in ["checkpoint", "tokens", "eval_tokens", "rates"]:
        parser.add_argument("--" + name)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    trainer = Trainer(make_model(**{name: getattr(args, name) for name in [*sizes, *defaults]}), args)
    now = time.perf_counter if args.clock == "wall" else lambda: time.process_time() / args.threads
    for line in sys.stdin:
        what, n = line.split()
        if what == "eval":
            print(trainer.eval(int(n)), flush=True)
            continue
        seconds = []
        for _ in range(int(n)):
            start = now()
            trainer.step()
            seconds.append(now() - start)
        print(*seconds, flush=True)
