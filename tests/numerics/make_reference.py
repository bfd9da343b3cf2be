#!/usr/bin/env python3
"""Writes the reference of tests/numerics: a small GPT-2 in plain PyTorch, with this project's layouts.

    tools/install_deps bench
    /usr/bin/python3 tests/numerics/make_reference.py     # rewrites bias/ and no_bias/ beside this file

The tests read the committed files; nothing runs this at build time. Everything is computed in f64 from
f32 weights, and stored as f32 (losses and norms as f64), so that what differs is this project's rounding.
Weights are larger than an initialisation would make them: mistakes show.
"""
import math
import pathlib
import shutil

import numpy as np
import torch

LAYERS, HEADS, HIDDEN, SEQUENCE, VOCAB, BATCH, STEPS = 2, 2, 32, 16, 64, 4, 10
HEAD_DIM = HIDDEN // HEADS
LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def make_weights(bias):
    """Name -> f64 tensor that an f32 can hold, in the order of the model."""
    generator = torch.Generator().manual_seed(1)

    def normal(*dims, around=0.0, deviation=0.1):
        value = around + deviation * torch.randn(*dims, generator=generator)
        return value.float().double()

    weights = {}

    def linear(name, dims, out):
        weights[f"{name}.weight"] = normal(*dims, *out)
        if bias:
            weights[f"{name}.bias"] = normal(*out)

    def layer_norm(name):
        weights[f"{name}.weight"] = normal(HIDDEN, around=1.0)
        if bias:
            weights[f"{name}.bias"] = normal(HIDDEN)

    weights["wte"] = normal(VOCAB, HIDDEN, deviation=0.3)
    weights["wpe"] = normal(SEQUENCE, HIDDEN)
    for i in range(LAYERS):
        layer_norm(f"h.{i}.ln_1")
        linear(f"h.{i}.attn.qkv", [HIDDEN], [3, HEADS, HEAD_DIM])
        linear(f"h.{i}.attn.proj", [HEADS, HEAD_DIM], [HIDDEN])
        layer_norm(f"h.{i}.ln_2")
        linear(f"h.{i}.mlp.fc", [HIDDEN], [4 * HIDDEN])
        linear(f"h.{i}.mlp.proj", [4 * HIDDEN], [HIDDEN])
    layer_norm("ln_f")
    return weights


def make_batches():
    """tokens, labels [STEPS, BATCH, SEQUENCE]: x -> 5 x + 7 + {0, 1} mod VOCAB, so there is something to learn."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(VOCAB, (STEPS, BATCH), generator=generator)
    columns = [x]
    for _ in range(SEQUENCE):
        x = (5 * x + 7 + torch.randint(2, (STEPS, BATCH), generator=generator)) % VOCAB
        columns.append(x)
    ids = torch.stack(columns, dim=-1)
    return ids[..., :-1], ids[..., 1:]


def layer_norm(w, name, x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    y = (x - mean) / torch.sqrt(variance + 1e-5) * w[f"{name}.weight"]
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def linear(w, name, x, contract=1):
    """x[..., c...] times w[c..., o...] -> [..., o...]"""
    y = torch.tensordot(x, w[f"{name}.weight"], dims=contract)
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(qkv):
    """[b, t, 3, heads, d] -> [b, t, heads, d]"""
    q, k, v = qkv.unbind(2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(HEAD_DIM)
    later = torch.triu(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool), diagonal=1)
    probabilities = scores.masked_fill(later, -math.inf).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", probabilities, v)


def compute_logits(w, tokens):
    x = w["wte"][tokens] + w["wpe"]
    for i in range(LAYERS):
        at = f"h.{i}"
        qkv = linear(w, f"{at}.attn.qkv", layer_norm(w, f"{at}.ln_1", x))
        x = x + linear(w, f"{at}.attn.proj", attention(qkv), contract=2)
        inner = gelu(linear(w, f"{at}.mlp.fc", layer_norm(w, f"{at}.ln_2", x)))
        x = x + linear(w, f"{at}.mlp.proj", inner)
    return layer_norm(w, "ln_f", x) @ w["wte"].T


def compute_loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))


def decays(name):
    return not name.endswith(".bias") and ".ln_" not in name and not name.startswith("ln_f")


def make_optimizer(w):
    groups = [
        {"params": [p for name, p in w.items() if decays(name)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for name, p in w.items() if not decays(name)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)


def save(path, tensor, dtype=np.float32):
    path.parent.mkdir(parents=True, exist_ok=True)
    # asarray keeps a scalar a scalar, where ascontiguousarray would not.
    np.save(path, np.asarray(tensor.detach().numpy(), dtype=dtype, order="C"))


def save_all(folder, tensors):
    for name, tensor in tensors.items():
        save(folder / f"{name}.npy", tensor)


def make(folder, bias):
    shutil.rmtree(folder, ignore_errors=True)
    w = make_weights(bias)
    tokens, labels = make_batches()
    save_all(folder / "weights", w)
    save(folder / "tokens.npy", tokens, np.int32)
    save(folder / "labels.npy", labels, np.int32)
    for parameter in w.values():
        parameter.requires_grad_(True)

    optimizer = make_optimizer(w)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = compute_logits(w, tokens[step])
        loss = compute_loss(logits, labels[step])
        loss.backward()
        if step == 0:
            save(folder / "logits.npy", logits)
            save_all(folder / "gradients", {name: p.grad for name, p in w.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(list(w.values()), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
    save_all(folder / "trained", w)
    save(folder / "losses.npy", torch.tensor(losses, dtype=torch.float64), np.float64)
    save(folder / "norms.npy", torch.tensor(norms, dtype=torch.float64), np.float64)
    print(folder.name, "losses", [round(x, 4) for x in losses], "norms", [round(x, 3) for x in norms])


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    make(here / "bias", bias=True)
    make(here / "no_bias", bias=False)
