"""Data and checkpoints: token files, weights of Hugging Face, losses on files."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

from oneflow_actors.calls import Notice, Progress, call_json, words
from oneflow_actors.facts import Facts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import DataFlags, EvalFlags, ExportFlags, ImportFlags

Path = Union[str, "os.PathLike[str]"]


def data(*, on_progress: Progress = None, on_notice: Notice = None, **flags: "Unpack[DataFlags]") -> Facts:
    """Writes token files of text or chats, as `oneflow data` does; returns their documents, tokens and bytes.

    of.data(text="text.txt", tokenizer="bytes", val_fraction=0.1, out="data").files
    """
    return Facts(call_json("data", words("data", flags), on_notice, on_progress))


def import_model(folder: Path, out: Path, /, *, on_progress: Progress = None, on_notice: Notice = None,
                 **flags: "Unpack[ImportFlags]") -> Facts:
    """Reads the weights of a folder of Hugging Face into a checkpoint of step 0.

    of.import_model("Qwen2.5-7B", "imported").parameters
    """
    said = words("import", {"from": folder, "out": out, **flags})
    return Facts(call_json("import", said, on_notice, on_progress))


def export(checkpoint: Any, out: Path, /, *, on_progress: Progress = None, on_notice: Notice = None,
           **flags: "Unpack[ExportFlags]") -> Facts:
    """Writes a checkpoint as a new folder of Hugging Face: config.json and model.safetensors; adapters alone, unless `merge=True`.

    of.export("checkpoints", "exported", dtype="bf16").tensors
    """
    said = words("export", {"checkpoint": checkpoint, "out": out, **flags})
    return Facts(call_json("export", said, on_notice, on_progress))


def evaluate(checkpoint: Any, data: Any, /, *, on_progress: Progress = None, on_notice: Notice = None,
             **flags: "Unpack[EvalFlags]") -> Facts:
    """The loss (nats, a mean over the labels that count) and the perplexity of a checkpoint on files, each and together.

    of.evaluate("checkpoints", ["a.txt", "data/val.bin"], batch=16).loss
    """
    said = words("eval", {"checkpoint": checkpoint, "data": data, **flags})
    return Facts(call_json("eval", said, on_notice, on_progress))
