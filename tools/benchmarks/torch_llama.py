"""The peer of tools/bench: Llama in plain PyTorch, as a process that answers requests (torch_peer.py)."""
import torch
import torch.nn.functional as F

from torch_peer import attend, main

THETA, EPSILON = 10000.0, 1e-5


class RmsNorm(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, EPSILON)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.weight


def make_rotations(positions, head_dim):
    """cos and sin of [positions, 1, head_dim / 2] angles."""
    frequencies = THETA ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.arange(positions, dtype=torch.float64)[:, None, None] * frequencies
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    """Rotary positions of [batch, positions, heads, head_dim]: element i turns with element i + head_dim / 2."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(torch.nn.Module):
    def __init__(self, hidden, heads, groups, head_dim):
        super().__init__()
        self.groups, self.shared, self.head_dim = groups, heads // groups, head_dim
        self.qkv = torch.nn.Linear(hidden, (heads + 2 * groups) * head_dim, bias=False)
        self.proj = torch.nn.Linear(heads * head_dim, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        parts = self.qkv(x).view(b, t, self.groups, self.shared + 2, self.head_dim)
        q, k, v = parts.split((self.shared, 1, 1), dim=3)
        q, k = (rotate(y.reshape(b, t, -1, self.head_dim), cos, sin) for y in (q, k))
        y = attend(*(y.transpose(1, 2) for y in (q, k, v.squeeze(3))))
        return self.proj(y.transpose(1, 2).reshape(b, t, -1))


class Mlp(torch.nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate = torch.nn.Linear(hidden, inner, bias=False)
        self.up = torch.nn.Linear(hidden, inner, bias=False)
        self.proj = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.proj(F.silu(self.gate(x)) * self.up(x))


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, groups, head_dim, inner):
        super().__init__()
        self.norm_1, self.attn = RmsNorm(hidden), Attention(hidden, heads, groups, head_dim)
        self.norm_2, self.mlp = RmsNorm(hidden), Mlp(hidden, inner)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.norm_1(x), cos, sin)
        return x + self.mlp(self.norm_2(x))


class Llama(torch.nn.Module):
    def __init__(self, layers, heads, groups, head_dim, hidden, inner, sequence, vocab):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, hidden)
        self.h = torch.nn.ModuleList(Block(hidden, heads, groups, head_dim, inner) for _ in range(layers))
        self.norm_f = RmsNorm(hidden)
        for name, table in zip(("cos", "sin"), make_rotations(sequence, head_dim)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens, labels):
        x = self.wte(tokens)
        for block in self.h:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1))


if __name__ == "__main__":
    main(Llama, ["layers", "heads", "groups", "head_dim", "hidden", "inner", "sequence", "vocab"])
