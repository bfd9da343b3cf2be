"""Models: a graph, a file, a name; families with their presets."""
from __future__ import annotations

import math
import os
import shutil
from typing import TYPE_CHECKING, Any, Optional, Union

from google.protobuf import text_format

from oneflow_actors.calls import Scratch, call, words
from oneflow_actors.errors import InputError
from oneflow_actors.facts import table
from oneflow_actors.graph import Graph
from oneflow_actors.proto import graph_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import ModelFlags


class Model:
    """A model that can be planned: its ops, shapes and variables, without weights.

    model = of.Model.from_hf("Qwen3-8B/config.json")
    model = of.models.llama(preset="llama3.1-8b", sequence=8192)
    model.parameters, len(model.graph.op)
    """

    def __init__(self, argument: str, file: str, scratch: Optional[Scratch] = None) -> None:
        self._argument, self._file, self._scratch = argument, file, scratch
        self._graph: Optional[graph_pb2.Graph] = None

    @classmethod
    def from_hf(cls, source: Union[str, "os.PathLike[str]"], /, **flags: "Unpack[ModelFlags]") -> "Model":
        """The model of a config.json of Hugging Face, of a folder with one, or of a public name.

        of.Model.from_hf("Qwen/Qwen2.5-7B", sequence=4096, lora="rank:16,targets:attn+mlp")
        """
        model = cls._make([f"--from={os.fspath(source)}", *words("model", flags)])
        if not flags:
            model._argument = os.path.abspath(source) if os.path.exists(source) else os.fspath(source)
        return model

    @classmethod
    def family(cls, name: str, /, **flags: "Unpack[ModelFlags]") -> "Model":
        """A model of a family, as `oneflow model NAME` makes it; of.models has a function for each family."""
        model = cls._make([name, *words("model", flags)])
        if list(flags) == ["preset"]:
            model._argument = str(flags["preset"])
        return model

    @classmethod
    def _make(cls, arguments: list[str]) -> "Model":
        scratch = Scratch()
        file = scratch.file("model.textproto")
        call("model", [*arguments, f"--out={file}"])
        return cls(file, file, scratch)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"], /) -> "Model":
        """A graph file, of `save` or of `oneflow model`. One that is no graph is an InputError."""
        file = os.path.abspath(path)
        model = cls(file, file)
        model._graph = model.graph
        return model

    @classmethod
    def from_graph(cls, graph: Union[Graph, graph_pb2.Graph], /) -> "Model":
        """A graph that was made here: of of.Graph, or a message."""
        scratch = Scratch()
        file = scratch.file("model.textproto")
        message = graph.message if isinstance(graph, Graph) else graph
        with open(file, "w", encoding="utf-8") as out:
            out.write(text_format.MessageToString(message))
        return cls(file, file, scratch)

    @property
    def graph(self) -> graph_pb2.Graph:
        """The graph, a message of proto/graph.proto: ops of one micro-batch at logical shapes."""
        if self._graph is None:
            try:
                with open(self._file, encoding="utf-8") as file:
                    self._graph = text_format.Parse(file.read(), graph_pb2.Graph())
            except (OSError, ValueError, text_format.ParseError) as error:
                why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else f"is no graph: {error}"
                hint = "give a file of `oneflow model`; of.models.named takes names, of.Model.from_hf a config.json"
                raise InputError(f"{self._file}: {why}; {hint}", hint) from None
        return self._graph

    @property
    def parameters(self) -> int:
        """The elements of all variables."""
        return sum(math.prod(dim.size for dim in op.shape.dim) for op in self.graph.op if op.kind == "variable")

    def save(self, path: Union[str, "os.PathLike[str]"], /) -> None:
        """Writes the graph as text, for `--graph` and Model.load."""
        shutil.copyfile(self._file, path)

    def __flag__(self) -> str:
        return self._argument

    def __repr__(self) -> str:
        return f"Model({self.graph.name}: {self.parameters:,} parameters, {len(self.graph.op)} ops)"

    def _repr_html_(self) -> str:
        graph = self.graph
        shapes = {op.name: " × ".join(dim.name or str(dim.size) for dim in op.shape.dim) for op in graph.op if op.kind == "input"}
        return table([("model", graph.name), ("family", graph.family or "none"), ("parameters", f"{self.parameters:,}"),
                      ("ops", f"{len(graph.op):,}"), *shapes.items()])


ModelLike = Union[str, "os.PathLike[str]", Model, Graph, graph_pb2.Graph]


def as_model(model: Any) -> Model:
    """What a function takes as a model: also a name ("llama3.1-8b"), a path, a graph."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (Graph, graph_pb2.Graph)):
        return Model.from_graph(model)
    return Model(os.fspath(model), os.fspath(model))
