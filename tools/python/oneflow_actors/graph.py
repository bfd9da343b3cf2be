"""A builder of graphs: models as straight-line Python, one call an op of docs/ops.md.

    g = of.Graph("mlp")
    x = g.input("x", ["batch", ("hidden", 64)])
    w = g.variable("fc.weight", [("hidden", 64), ("inner", 256)], of.normal(0.02))
    with g.stage(1):
        y = g.gelu("act", g.linear("fc", x, w)).sbp(tensor="S(1)")
    g.output(y)
    of.compile(g, mesh={"pipe": 2, "tensor": 2}, batch=8)

It computes nothing and infers nothing: shapes are those of one micro-batch, whose size "batch" stands for. A mistake is reported when
the graph is compiled, with the name of its op.
"""
from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Iterator, Optional, Sequence, Tuple, Union

from google.protobuf import text_format

from oneflow_actors.calls import Scratch
from oneflow_actors.errors import InputError
from oneflow_actors.proto import graph_pb2, tensor_pb2

Dim = Union[int, str, Tuple[str, int]]
_FIELDS = {bool: "b", int: "i", float: "f", str: "s"}
Attr = Union[bool, int, float, str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Init:
    """The initial value of a variable; `decay` says whether AdamW decays it (default: if it has two dimensions or more)."""

    kind: str
    value: float = 0.0
    decay: Optional[bool] = None

    def no_decay(self) -> "Init":
        """The same, never decayed."""
        return dataclasses.replace(self, decay=False)


def normal(deviation: float) -> Init:
    """Drawn from a normal distribution of this standard deviation."""
    return Init("normal", deviation)


def uniform(bound: float) -> Init:
    """Drawn evenly from -bound to bound."""
    return Init("uniform", bound)


def constant(value: float) -> Init:
    """This value."""
    return Init("constant", value)


def zeros() -> Init:
    """0."""
    return Init("zeros")


def ones() -> Init:
    """1."""
    return Init("ones")


class Value:
    """A tensor of a graph that is being built."""

    def __init__(self, graph: "Graph", op: graph_pb2.Op, index: int = 0) -> None:
        self._graph, self._op, self.index = graph, op, index

    @property
    def name(self) -> str:
        """That of its op; further outputs have their index behind it, "op:2"."""
        return self._op.name + (f":{self.index}" if self.index else "")

    def output(self, index: int) -> "Value":
        """Another output of the same op."""
        return Value(self._graph, self._op, index)

    def sbp(self, **axes: str) -> "Value":
        """Requires a layout: value.sbp(tensor="S(1)", data="B"). "S(i)" splits dimension i over the axis of the mesh, "B" is a copy on
        each device, "P" a sum that is still to be made."""
        while len(self._op.sbp) <= self.index:
            self._op.sbp.add()
        for axis, layout in axes.items():
            self._op.sbp[self.index].on[axis] = str(layout)
        return self


class Graph:
    """A logical graph under construction (the module's head has an example). `message` is the graph, of proto/graph.proto."""

    def __init__(self, name: str, family: str = "") -> None:
        self.message = graph_pb2.Graph(name=name, family=family)
        self._stage, self._block = 0, -1
        self._scratch: Optional[Scratch] = None

    def __flag__(self) -> str:
        self._scratch = self._scratch or Scratch()
        path = self._scratch.file("model.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(self.message))
        return path

    @contextlib.contextmanager
    def stage(self, stage: int) -> Iterator[None]:
        """Ops that are added within are on this stage of the pipeline, counted from 0."""
        before, self._stage = self._stage, stage
        try:
            yield
        finally:
            self._stage = before

    @contextlib.contextmanager
    def block(self, block: int) -> Iterator[None]:
        """Ops that are added within belong to this block of the model, counted from 0: recompute and stages count blocks."""
        before, self._block = self._block, block
        try:
            yield
        finally:
            self._block = before

    def mesh(self, **axes: int) -> None:
        """The mesh where none is given: g.mesh(pipe=2, data=2)."""
        del self.message.mesh.axis[:]
        for name, size in axes.items():
            self.message.mesh.axis.add(name=name, size=size)

    def loss(self, value: Value) -> None:
        """The scalar that training minimises."""
        self.message.loss = value.name

    def output(self, value: Value) -> None:
        """A tensor that of.run may fetch."""
        self.message.output.append(value.name)

    def input(self, name: str, dims: Sequence[Dim], source: str = "feed", dtype: str = "f32") -> Value:
        """A tensor from outside: of of.run ("feed"), or "tokens" and "labels" of the data, which are i32."""
        return self._source(self._add("input", name, [], {"source": source}), dims, dtype)

    def variable(self, name: str, dims: Sequence[Dim], init: Init, dtype: str = "f32") -> Value:
        """A tensor that training updates."""
        attrs: dict[str, Any] = {"init": init.kind}
        if init.kind not in ("zeros", "ones"):
            attrs["init_value"] = float(init.value)
        if init.decay is not None:
            attrs["decay"] = init.decay
        return self._source(self._add("variable", name, [], attrs), dims, dtype)

    def op(self, kind: str, name: str, *inputs: Optional[Value], **attrs: Attr) -> Value:
        """An op of any kind of docs/ops.md; inputs that are None are left out, attributes have their types: 1 is not 1.0."""
        return Value(self, self._add(kind, name, [value for value in inputs if value is not None], attrs))

    def fill(self, name: str, dims: Sequence[int], value: float) -> Value:
        """-> dims, of one value."""
        return self.op("fill", name, dims=list(dims), value=float(value))

    def matmul(self, name: str, a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
        """[m, k], [k, n] -> [m, n]."""
        return self.op("matmul", name, a, b, **_said(transpose_a=transpose_a, transpose_b=transpose_b))

    def batch_matmul(self, name: str, a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
        """[..., m, k], [..., k, n] -> [..., m, n]."""
        return self.op("batch_matmul", name, a, b, **_said(transpose_a=transpose_a, transpose_b=transpose_b))

    def linear(self, name: str, x: Value, w: Value, bias: Optional[Value] = None, contract: int = 1, transpose_w: bool = False,
               wide: bool = False) -> Value:
        """[..., in], [in, out...] -> [..., out...]; `contract`: how many dimensions are summed over; transpose_w: w is [out..., in];
        wide: in f32 whatever the precision."""
        attrs = _said(transpose_w=transpose_w, wide=wide)
        if contract != 1:
            attrs["contract"] = contract
        return self.op("linear", name, x, w, bias, **attrs)

    def embedding(self, name: str, table: Value, ids: Value) -> Value:
        """[vocab, hidden], ids [...] -> [..., hidden]."""
        return self.op("embedding", name, table, ids)

    def positional_embedding(self, name: str, x: Value, table: Value) -> Value:
        """[batch, seq, hidden], [positions, hidden] -> x with its position's row added."""
        return self.op("positional_embedding", name, x, table)

    def layer_norm(self, name: str, x: Value, gamma: Value, beta: Optional[Value] = None, epsilon: float = 1e-5) -> Value:
        """[..., hidden], [hidden], [hidden] -> [..., hidden]."""
        return self.op("layer_norm", name, x, gamma, beta, **_epsilon(epsilon))

    def rms_norm(self, name: str, x: Value, gamma: Value, epsilon: float = 1e-5) -> Value:
        """[..., hidden], [hidden] -> [..., hidden]."""
        return self.op("rms_norm", name, x, gamma, **_epsilon(epsilon))

    def gelu(self, name: str, x: Value) -> Value:
        """Element by element."""
        return self.op("gelu", name, x)

    def gated(self, name: str, gate: Value, up: Value, activation: str = "silu") -> Value:
        """activation(gate) * up, element by element."""
        return self.op("gated", name, gate, up, activation=activation)

    def add(self, name: str, a: Value, b: Value) -> Value:
        """Element by element."""
        return self.op("add", name, a, b)

    def dropout(self, name: str, x: Value, rate: float) -> Value:
        """In training alone; the backward draws the mask once more."""
        return self.op("dropout", name, x, rate=float(rate))

    def rotary(self, name: str, x: Value, theta: float = 10000.0, positions: Optional[Value] = None, **scaling: Attr) -> Value:
        """[batch, seq, heads..., head_dim] -> the same, turned by its position. Scaling of Llama 3.1: scale_factor,
        low_frequency_factor, high_frequency_factor (floats), original_positions (an int)."""
        return self.op("rotary", name, x, positions, theta=float(theta), **scaling)

    def split_qkv(self, name: str, qkv: Value, parts_first: bool = False) -> Value:
        """[batch, seq, groups, r + 2, head_dim] -> queries [batch, seq, groups, r, head_dim]; .output(1) keys, .output(2) values, both
        [batch, seq, groups, head_dim]."""
        return self.op("split_qkv", name, qkv, parts_first=parts_first)

    def attention(self, name: str, q: Value, k: Value, v: Value, window: int = 0) -> Value:
        """Causal attention of grouped queries; `window`: the last positions that a query sees, 0: all before it."""
        return self.op("attention", name, q, k, v, **({"window": window} if window else {}))

    def causal_attention(self, name: str, qkv: Value) -> Value:
        """[batch, seq, 3, heads, head_dim] -> [batch, seq, heads, head_dim]."""
        return self.op("causal_attention", name, qkv)

    def softmax_cross_entropy(self, name: str, logits: Value, labels: Value) -> Value:
        """[..., vocab], labels [...] -> the mean loss, a scalar, in nats."""
        return self.op("softmax_cross_entropy", name, logits, labels)

    def _add(self, kind: str, name: str, inputs: Sequence[Value], attrs: dict[str, Any]) -> graph_pb2.Op:
        op: graph_pb2.Op = self.message.op.add(name=name, kind=kind, input=[value.name for value in inputs], stage=self._stage)
        if self._block >= 0:
            op.block = self._block
        for key, value in attrs.items():
            if isinstance(value, (list, tuple)):
                op.attr[key].ints.value.extend(value)
            elif type(value) in _FIELDS:
                setattr(op.attr[key], _FIELDS[type(value)], value)
            else:
                hint = "give a bool, an int, a float, a text or a list of ints"
                raise InputError(f"op {name}: attribute {key}: {value!r} has no type of an attribute; {hint}", hint)
        return op

    def _source(self, op: graph_pb2.Op, dims: Sequence[Dim], dtype: str) -> Value:
        for dim in dims:
            name, size = dim if isinstance(dim, tuple) else (dim, 0) if isinstance(dim, str) else ("", dim)
            op.shape.dim.add(name=name, size=size)
        if dtype != "f32":
            if dtype.upper() not in tensor_pb2.DataType.keys():
                hint = "give f32, i32 or another of proto/tensor.proto"
                raise InputError(f"op {op.name}: dtype {dtype!r} is not known; {hint}", hint)
            op.dtype = tensor_pb2.DataType.Value(dtype.upper())
        return Value(self, op)


def _said(**switches: bool) -> dict[str, Any]:
    return {name: True for name, value in switches.items() if value}


def _epsilon(epsilon: float) -> dict[str, Any]:
    return {} if epsilon == 1e-5 else {"epsilon": epsilon}
