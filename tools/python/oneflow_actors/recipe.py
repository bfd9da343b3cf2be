"""Recipes: everything that decides a plan beside the model and the cluster."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Union

from google.protobuf import text_format

from oneflow_actors.calls import Scratch, call, words
from oneflow_actors.errors import InputError
from oneflow_actors.proto import recipe_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import CompileFlags, RecipeFlags
    from oneflow_actors.plan import Emitted, Plan


class Recipe:
    """Choices of a plan, as flags of `oneflow compile`; what is not said has its default, or is chosen.

    of.Recipe(mesh={"data": 2, "tensor": 4}, batch=16, micro_batches=4, schedule="1f1b", learning_rate=3e-4)

    `batch` counts sequences of a step over all devices. A value that means nothing is an InputError, at once. `message` is the recipe
    of proto/recipe.proto, `optimizer` what is said of the optimizer.
    """

    def __init__(self, **flags: "Unpack[RecipeFlags]") -> None:
        self._file = recipe_pb2.RecipeFile()
        self._plan: Optional[Callable[[], "Plan"]] = None
        self._scratch: Optional[Scratch] = None
        if said := words("recipe", flags):
            text_format.Parse(call("recipe", said), self._file)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"], /) -> "Recipe":
        """A file of `save`, or of `oneflow recipe`. An error names its line."""
        recipe = cls()
        text_format.Parse(call("recipe", [f"--recipe={os.fspath(path)}"]), recipe._file)
        return recipe

    @classmethod
    def _of_plan(cls, plan: "Plan") -> "Recipe":
        recipe = cls()
        text_format.Parse(call("recipe", [f"--plan={plan.path}"]), recipe._file)
        recipe._file.ClearField("model")
        recipe._file.ClearField("cluster")
        recipe._plan = lambda: plan
        return recipe

    @property
    def message(self) -> recipe_pb2.Recipe:
        """The message oneflow.proto.Recipe."""
        return self._file.recipe

    @property
    def optimizer(self) -> Any:
        """The message oneflow.proto.Optimizer."""
        return self._file.run.optimizer

    def save(self, path: Union[str, "os.PathLike[str]"], /) -> None:
        """Writes a file for `--recipe` and Recipe.load."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self))

    def emit(self, system: str, folder: Union[None, str, "os.PathLike[str]"] = None, /, **flags: "Unpack[CompileFlags]") -> "Emitted":
        """The configuration of another system, of a recipe that a plan or a search gave; of others `compile(...).emit(...)`.

        best[0].recipe.emit("megatron", "run")
        """
        if self._plan is None:
            raise InputError("the recipe belongs to no plan, and so has no model; write of.compile(model, recipe).emit(...)",
                             "write of.compile(model, recipe).emit(...)")
        return self._plan().emit(system, folder, **flags)

    def __flag__(self) -> str:
        self._scratch = self._scratch or Scratch()
        path = self._scratch.file("recipe.textproto")
        self.save(path)
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self._file == other._file

    __hash__ = None  # type: ignore[assignment]  # its message may be changed

    def __str__(self) -> str:
        return str(text_format.MessageToString(self._file))

    def __repr__(self) -> str:
        return f"Recipe({text_format.MessageToString(self._file, as_one_line=True)})"

    def _repr_html_(self) -> str:
        from oneflow_actors.facts import table
        messages: Tuple[Any, ...] = (self.message, self._file.run)
        fields: Dict[str, str] = {field.name: text_format.MessageToString(value, as_one_line=True) if field.message_type else str(value)
                                  for message in messages for field, value in message.ListFields()}
        return table(fields.items())


RecipeLike = Union[None, Recipe, str, "os.PathLike[str]"]
