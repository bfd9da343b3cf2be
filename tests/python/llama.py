"""A Llama that is written with of.Graph, after oneflow_core/model/llama.cc."""
from __future__ import annotations

import dataclasses
import math

import oneflow_actors as of


@dataclasses.dataclass
class Llama:
    """The numbers of a model, by their names in proto/recipe.proto."""

    layers: int
    hidden: int
    inner: int
    heads: int
    groups: int
    head_dim: int
    sequence: int
    vocab: int
    qk_norm: bool = False

    def build(self) -> of.Graph:
        g = of.Graph("llama", family="llama")
        hidden = ("hidden", self.hidden)
        inner = ("inner", self.inner)
        head_dim = ("head_dim", self.head_dim)
        residual = of.normal(0.02 / math.sqrt(2 * self.layers))

        def norm(at: str, x: of.Value, dim: tuple[str, int]) -> of.Value:
            return g.rms_norm(at, x, g.variable(at + ".weight", [dim], of.ones()))

        def linear(at: str, x: of.Value, into: list[tuple[str, int]], out: list[of.graph.Dim], init: of.Init) -> of.Value:
            return g.linear(at, x, g.variable(at + ".weight", [*into, *out], init), contract=len(into))

        def positioned(at: str, x: of.Value) -> of.Value:
            if self.qk_norm:
                x = norm(at + "_norm", x, head_dim)
            return g.rotary(at + "_rotary", x, theta=10000)

        def attention(at: str, x: of.Value) -> of.Value:
            each = self.heads // self.groups
            qkv = linear(at + ".qkv", x, [hidden], [("groups", self.groups), each + 2, head_dim], of.normal(0.02))
            split = g.split_qkv(at + ".split", qkv)
            core = g.attention(at + ".core", positioned(at + ".q", split), positioned(at + ".k", split.output(1)), split.output(2))
            return linear(at + ".proj", core, [("groups", self.groups), ("heads", each), head_dim], [hidden], residual)

        def mlp(at: str, x: of.Value) -> of.Value:
            gate = linear(at + ".gate", x, [hidden], [inner], of.normal(0.02))
            up = linear(at + ".up", x, [hidden], [inner], of.normal(0.02))
            return linear(at + ".proj", g.gated(at + ".act", gate, up), [inner], [hidden], residual)

        tokens = g.input("tokens", ["batch", ("seq", self.sequence)], "tokens", "i32")
        labels = g.input("labels", ["batch", ("seq", self.sequence)], "labels", "i32")
        wte = g.variable("wte", [("vocab", self.vocab), hidden], of.normal(0.02))
        x = g.embedding("embed", wte, tokens)
        for i in range(self.layers):
            at = f"h.{i}"
            with g.block(i):
                x = g.add(at + ".attn.add", x, attention(at + ".attn", norm(at + ".norm_1", x, hidden)))
                x = g.add(at + ".mlp.add", x, mlp(at + ".mlp", norm(at + ".norm_2", x, hidden)))
        logits = g.linear("logits", norm("norm_f", x, hidden), wte, transpose_w=True)
        g.loss(g.softmax_cross_entropy("loss", logits, labels))
        g.output(logits)
        return g
