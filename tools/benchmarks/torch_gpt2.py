"""The peer of tools/bench: one training step of GPT-2 in plain PyTorch, as a process that answers requests.

Reads a number n on a line, runs n steps, prints the seconds of each on one line. Same model, batch,
optimizer and clipping as `oneflow train` of the preset.
"""
import argparse
import sys
import time

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1 = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden, bias=bias)
        self.proj = torch.nn.Linear(hidden, hidden, bias=bias)
        self.ln_2 = torch.nn.LayerNorm(hidden)
        self.fc = torch.nn.Linear(hidden, 4 * hidden, bias=bias)
        self.out = torch.nn.Linear(4 * hidden, hidden, bias=bias)

    def attention(self, q, k, v, mask):
        if hasattr(F, "scaled_dot_product_attention"):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1)) * (q.size(-1) ** -0.5)
        return F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v

    def forward(self, x, mask):
        b, t, h = x.shape
        q, k, v = (y.view(b, t, self.heads, h // self.heads).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(h, dim=2))
        x = x + self.proj(self.attention(q, k, v, mask).transpose(1, 2).reshape(b, t, h))
        gelu = F.gelu(self.fc(self.ln_2(x)), approximate="tanh")
        return x + self.out(gelu)


class Gpt(torch.nn.Module):
    def __init__(self, layers, heads, hidden, sequence, vocab, bias):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, hidden)
        self.wpe = torch.nn.Embedding(sequence, hidden)
        self.blocks = torch.nn.ModuleList(Block(hidden, heads, bias) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(hidden)
        self.register_buffer("mask", torch.ones(sequence, sequence, dtype=torch.bool).triu(1))

    def forward(self, tokens, labels):
        t = tokens.size(1)
        x = self.wte(tokens) + self.wpe.weight[:t]
        for block in self.blocks:
            x = block(x, self.mask[:t, :t])
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    for name in ["layers", "heads", "hidden", "sequence", "vocab", "batch", "threads"]:
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--bias", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt(args.layers, args.heads, args.hidden, args.sequence, args.vocab, bool(args.bias))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    data = torch.randint(0, args.vocab, (args.batch, args.sequence + 1))
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            model(data[:, :-1], data[:, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seconds.append(time.perf_counter() - start)
        print(*seconds, flush=True)


if __name__ == "__main__":
    main()
