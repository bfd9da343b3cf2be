"""Clusters: the rates of devices and of the links between them."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Union

from google.protobuf import text_format

from oneflow_actors.calls import Scratch, call, call_json, words
from oneflow_actors.errors import InputError
from oneflow_actors.facts import Facts
from oneflow_actors.proto import cluster_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import ClusterFlags


class Cluster:
    """A cluster, for `cluster=` of compile, search, fit and simulate; `message` is that of proto/cluster.proto, and may be changed.

    mine = of.cluster("h100")
    mine.message.device.memory_bytes = 94 * 10**9
    of.compile(model, cluster=mine)
    """

    def __init__(self, text: str) -> None:
        self.message = text_format.Parse(text, cluster_pb2.Cluster())
        self._scratch = Scratch()

    def save(self, path: Union[str, "os.PathLike[str]"], /) -> None:
        """Writes a file for --cluster."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(self.message))

    def __flag__(self) -> str:
        path = self._scratch.file("cluster.textproto")
        self.save(path)
        return path

    def __repr__(self) -> str:
        return f"Cluster({self.message.name})"


def cluster(*name: str, **figures: "Unpack[ClusterFlags]") -> Cluster:
    """A cluster by its name, or of the figures of a data sheet.

    of.cluster("h100")
    of.cluster(bf16_tflops=362, memory="44.4GiB", memory_bandwidth="864GB", devices=8, link_bandwidth="32GB", network_bandwidth="12.5GB")
    """
    if not name and not figures:
        raise InputError("no cluster is named; of.clusters() lists those that are known", "of.clusters() lists those that are known")
    return Cluster(call("cluster", [*name, *words("cluster", figures)]))


def clusters() -> List[Facts]:
    """Those that are known by name, with the rates and bytes of their devices."""
    return [Facts(known) for known in call_json("cluster", [])["clusters"]]
