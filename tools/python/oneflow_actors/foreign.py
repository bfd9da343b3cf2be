"""Configurations of other systems: Megatron-LM, torchtitan, DeepSpeed, Accelerate, NeMo, ..."""
from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, List, Mapping, Sequence, Union

from oneflow_actors.calls import Notice, Progress, ask, words
from oneflow_actors.errors import InputError
from oneflow_actors.facts import Facts
from oneflow_actors.recipe import Recipe
from oneflow_actors.search import recipe_of_flags

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import FitFlags


class Foreign(Facts):
    """What another system runs. `facts` says model, devices, batch and choices; `recipe` is the same as a recipe of ours, `notes` what that
    cannot say; with a cluster `own` has the predicted step and bytes, and `better` changes of its settings."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({"notes": values.get("recipe_notes", []), "own": None, "better": [], **values})

    @property
    def recipe(self) -> Recipe:
        """The nearest recipe."""
        return recipe_of_flags(shlex.split(self["flags"]))


def read_foreign(source: Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]], /, *, on_progress: Progress = None,
                 on_notice: Notice = None, **flags: "Unpack[FitFlags]") -> Foreign:
    """Reads what another system runs: a file ("deepspeed.json", "run.sh", "train.toml"), several, or a command line.

    of.read_foreign("deepspeed.json", model="llama3.1-8b", devices=8, cluster="h100").recipe
    of.read_foreign("torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 32 ...").facts
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        is_command = " " in path.strip() and not os.path.exists(path)
        files: List[str] = [] if is_command else [path]
        rest = ["--", *shlex.split(path)] if is_command else []
    else:
        files, rest = [os.fspath(file) for file in source], []
    for file in files:
        if not os.path.exists(file):
            raise InputError(f"{file}: cannot be read: No such file or directory; check the path", "check the path")
    answer = ask("fit", [*files, *words("fit", flags), "--format=json", *rest], on_notice, on_progress)
    # Without a cluster there is no time to tell, but all that was read; a plan that does not fit is an answer.
    if answer.exit_code != 0 and (not answer.printed or "flags" not in answer.json() or (answer.message and "cluster" in flags)):
        answer.checked()
    return Foreign(answer.json())
