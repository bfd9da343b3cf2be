"""The peer of tools/bench: GPT-2 in plain PyTorch, as a process that answers requests (torch_peer.py)."""
import torch
import torch.nn.functional as F

from torch_peer import attend, main


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

    def forward(self, x):
        b, t, h = x.shape
        q, k, v = (y.view(b, t, self.heads, h // self.heads).transpose(1, 2) for y in self.qkv(x).split(h, dim=2))
        return self.proj(attend(q, k, v).transpose(1, 2).reshape(b, t, h))


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

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(torch.nn.Module):
    def __init__(self, layers, heads, hidden, sequence, vocab, bias):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, hidden)
        self.wpe = torch.nn.Embedding(sequence, hidden)
        self.h = torch.nn.ModuleList(Block(hidden, heads, bias) for _ in range(layers))
        self.ln_f = LayerNorm(hidden, bias)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe.weight[:tokens.size(1)]
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1))


if __name__ == "__main__":
    main(Gpt, ["layers", "heads", "hidden", "sequence", "vocab"], bias=1)
