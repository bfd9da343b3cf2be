"""The peer of tools/bench: GPT-2 in plain PyTorch, as a process that answers requests.

  steps N    trains N steps, prints the seconds of each on one line
  eval N     prints the mean loss over the first N batches of --eval_tokens

Same model, batch, optimizer and clipping as `oneflow train` of the preset. From --checkpoint (a folder that oneflow
wrote), --tokens and --rates it starts and goes on exactly as a oneflow run does; without them weights are random
and every batch is the same.
"""
import argparse
import contextlib
import json
import os
import sys
import time

import numpy
import torch
import torch.nn.functional as F


class LayerNorm(torch.nn.Module):
    def __init__(self, hidden, bias):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))
        self.bias = torch.nn.Parameter(torch.zeros(hidden)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(torch.nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(hidden, 3 * hidden, bias=bias)
        self.proj = torch.nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x, mask):
        b, t, h = x.shape
        q, k, v = (y.view(b, t, self.heads, h // self.heads).transpose(1, 2) for y in self.qkv(x).split(h, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (q.size(-1) ** -0.5)
            y = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, h))


class Mlp(torch.nn.Module):
    def __init__(self, hidden, bias):
        super().__init__()
        self.fc = torch.nn.Linear(hidden, 4 * hidden, bias=bias)
        self.proj = torch.nn.Linear(4 * hidden, hidden, bias=bias)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x), approximate="tanh"))


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(hidden, bias), Attention(hidden, heads, bias)
        self.ln_2, self.mlp = LayerNorm(hidden, bias), Mlp(hidden, bias)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.mlp(self.ln_2(x))


class Gpt(torch.nn.Module):
    def __init__(self, layers, heads, hidden, sequence, vocab, bias):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, hidden)
        self.wpe = torch.nn.Embedding(sequence, hidden)
        self.h = torch.nn.ModuleList(Block(hidden, heads, bias) for _ in range(layers))
        self.ln_f = LayerNorm(hidden, bias)
        self.register_buffer("mask", torch.ones(sequence, sequence, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, tokens, labels):
        t = tokens.size(1)
        x = self.wte(tokens) + self.wpe.weight[:t]
        for block in self.h:
            x = block(x, self.mask[:t, :t])
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1))

    def load(self, weights):
        """From oneflow's arrays: [in..., out...] where a Linear has [out, in]; names differ for embeddings only."""
        with torch.no_grad():
            for name, p in self.named_parameters():
                array = weights[name[: -len(".weight")] if name in ("wte.weight", "wpe.weight") else name]
                value = torch.from_numpy(array)
                if p.dim() == 2 and name not in ("wte.weight", "wpe.weight"):
                    value = value.reshape(p.shape[1], p.shape[0]).t()
                p.copy_(value.reshape(p.shape))


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


def make_optimizer(model, beta2, decay):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    fused = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {}
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, beta2), eps=1e-8, **fused)


class Trainer:
    def __init__(self, args):
        self.device = args.device
        self.model = Gpt(args.layers, args.heads, args.hidden, args.sequence, args.vocab, bool(args.bias)).to(self.device)
        if args.checkpoint:
            self.model.load(read_checkpoint(args.checkpoint))
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


def main():
    parser = argparse.ArgumentParser()
    for name in ["layers", "heads", "hidden", "sequence", "vocab", "batch", "threads"]:
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--bias", type=int, default=1)
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
    trainer = Trainer(args)
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


if __name__ == "__main__":
    main()
