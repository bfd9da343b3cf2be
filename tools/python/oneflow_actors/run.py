"""Any graph on arrays of NumPy."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Union

from oneflow_actors.calls import Notice, Scratch, call, words
from oneflow_actors.errors import InputError
from oneflow_actors.model import ModelLike, as_model
from oneflow_actors.plan import Plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import RunFlags


def run(subject: Union[Plan, ModelLike], feeds: Mapping[str, Any], fetch: Optional[Sequence[str]] = None, /, *,
        on_notice: Notice = None, **flags: "Unpack[RunFlags]") -> Dict[str, Any]:
    """Executes a graph, or a plan of one, on arrays: input's name -> array of its shape (f32, or i32 for indices). Returns the tensors of
    `fetch`, by default a graph's outputs, as arrays of their logical shape, whatever the devices.

    of.run(g, {"x": numpy.ones((4, 64), "float32")}, ["y"], mesh="data=2")["y"]
    """
    import numpy

    scratch = Scratch()
    owner = subject if isinstance(subject, Plan) else as_model(subject)
    if isinstance(fetch, str):
        fetch = [fetch]
    if fetch is None:
        if isinstance(owner, Plan):
            raise InputError("fetch: says nothing, and a plan does not list its graph's outputs; give their names", "give their names")
        fetch = list(owner.graph.output)
    said = [f"--plan={owner.path}" if isinstance(owner, Plan) else f"--graph={owner.__flag__()}", *words("run", flags)]
    for index, (name, array) in enumerate(feeds.items()):
        path = scratch.file(f"feed{index}.npy")
        numpy.save(path, numpy.asarray(array, order="C"))
        said.append(f"--feed={name}={path}")
    files = {name: scratch.file(f"fetch{index}.npy") for index, name in enumerate(fetch)}
    call("run", [*said, *(f"--fetch={name}={path}" for name, path in files.items())], on_notice)
    return {name: numpy.load(os.fspath(path)) for name, path in files.items()}
