"""The search for the best plan, and the question whether a model fits."""
from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union, overload

from oneflow_actors.calls import Notice, Progress, Scratch, ask, call_json, flag_text, options, words
from oneflow_actors.errors import InputError
from oneflow_actors.facts import Facts, bytes_text, seconds_text, table, text_of
from oneflow_actors.model import ModelLike, as_model
from oneflow_actors.plan import Plan
from oneflow_actors.recipe import Recipe, RecipeLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import FitFlags, SearchFlags

_HEAD = ("plan", "step", "memory", "MFU", "choices")


def recipe_of_flags(said: Sequence[str]) -> Recipe:
    """The recipe among flags of compile."""
    names = {option.name for option in options("recipe")} - {"plan", "recipe", "out", "format"}
    flags: Dict[str, Any] = {}
    for word in said:
        name, _, value = word.removeprefix("--").partition("=")
        if name in names:
            flags[name] = value or True
    return Recipe(**flags)


class Found(Facts):
    """A plan that was found: its numbers and its choices. `flags` are those of `oneflow compile` that make it."""

    def __init__(self, values: Mapping[str, Any], owners: Any = None) -> None:
        super().__init__(values)
        self._owners = owners  # of files that are among `flags`
        self._plan: Optional[Plan] = None

    @property
    def step_seconds(self) -> float:
        """Predicted seconds of a step."""
        return float(self.get("step_seconds", "nan"))

    @property
    def bytes(self) -> int:
        """Bytes of the device that needs most."""
        return int(self.get("bytes_a_device", 0))

    def _words(self) -> List[str]:
        if self["flags"] is None:  # a part of compare= that has no plan
            raise InputError(str(self.get("none", "no plan was found")))
        return shlex.split(self["flags"])

    @property
    def recipe(self) -> Recipe:
        """Its recipe: what was given and what was found."""
        recipe = recipe_of_flags(self._words())
        recipe._plan = lambda: self.plan
        return recipe

    @property
    def plan(self) -> Plan:
        """The plan, compiled when it is first asked for."""
        if self._plan is None:
            scratch = Scratch()
            path = scratch.file("plan")
            self._plan = Plan(path, scratch, call_json("compile", [*self._words(), f"--out={path}"]))
        return self._plan

    def row(self, title: str) -> List[str]:
        """Its line of a table."""
        choices = " ".join(f"{name}={text_of(self[name])}" for name in ("mesh", "micro_batches", "schedule", "recompute", "shard")
                           if self.get(name) not in (None, "", "none"))
        mfu = self.get("mfu")
        return [title, seconds_text(self.step_seconds), bytes_text(self.bytes), f"{100 * mfu:.1f} %" if mfu else "", choices]


class SearchResult(Sequence[Found]):
    """Plans, the fastest first; `simplest` is the one that `oneflow search` shows first: predictions cannot tell it from the fastest.
    `facts` are all of --format=json."""

    def __init__(self, facts: Dict[str, Any], owners: Any) -> None:
        self.facts = Facts(facts)
        plans = facts.get("plans", facts.get("points", facts.get("compare", [])))  # of pareto=True, and of compare=
        self._found = [Found(plan, owners) for plan in plans]

    @property
    def simplest(self) -> Found:
        """The plan to take first."""
        return self._found[self.facts.get("simplest") or 0]

    @overload
    def __getitem__(self, index: int) -> Found: ...
    @overload
    def __getitem__(self, index: slice) -> List[Found]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Found, List[Found]]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        if not self._found:
            return "SearchResult(no plans)"
        best = self._found[0]
        return f"SearchResult({len(self)} plans; the fastest: step {seconds_text(best.step_seconds)}, {bytes_text(best.bytes)} a device)"

    def _repr_html_(self) -> str:
        return table([plan.row(str(index)) for index, plan in enumerate(self._found)], _HEAD)


def search(model: ModelLike, recipe: RecipeLike = None, /, *, on_progress: Progress = None, on_notice: Notice = None,
           **flags: "Unpack[SearchFlags]") -> SearchResult:
    """The plans of least predicted time for a model, a cluster and a memory, as `oneflow search` finds them.

    best = of.search(model, devices=256, cluster="h100", memory="80GB", batch=1024, on_progress=print)
    best[0].plan.save("best.plan")

    `on_progress` is a function of one sentence, or True: a line of tqdm. Ctrl-C ends the search and is a KeyboardInterrupt. If no plan
    fits, the InputError names the nearest. `fix={"tensor": 8}` sets what is otherwise chosen.
    """
    owner = as_model(model)
    said = words("search", {"recipe": recipe, **flags})
    return SearchResult(call_json("search", [f"--graph={owner.__flag__()}", *said], on_notice, on_progress), (owner, flags))


class Fit(Facts):
    """The answer of `fit`. `fits` says whether; `plans` are the best ones, `limits` how far it may grow; `miss` what is too large."""

    def __init__(self, values: Mapping[str, Any], owners: Any) -> None:
        super().__init__({**values, "plans": [Found(plan, owners) for plan in values.get("plans", [])]})

    def __repr__(self) -> str:
        verdict = "fits" if self["fits"] else "does not fit"
        devices = f"{self['devices']} device{'s' if self['devices'] > 1 else ''}"
        return f"Fit({self['model']} {verdict} {devices} of {self['cluster']}, batch {self['batch']})"

    def _rows(self) -> Iterator[List[str]]:
        for index, plan in enumerate(self["plans"]):
            yield plan.row(str(index))
        for limit in self.get("limits", []):
            if plan := limit.get("plan"):
                grown = f"{text_of(limit.get('batch'))} × {text_of(limit.get('sequence'))} tokens on {text_of(limit.get('devices'))}"
                yield Found(plan).row(f"largest {limit['what']}: {grown}")

    def _repr_html_(self) -> str:
        miss = self.get("miss") or {}
        why = f": {bytes_text(miss['bytes_too_many'])} a device too many" if "bytes_too_many" in miss else ""
        return table([[repr(self)[4:-1] + why]]) + table(self._rows(), _HEAD)


def fit(model: ModelLike, /, *, batch_tokens: Optional[float] = None, on_progress: Progress = None, on_notice: Notice = None,
        **flags: "Unpack[FitFlags]") -> Fit:
    """Whether a model fits devices, the best plan's step, and how far it may grow, as `oneflow fit` says.

    of.fit("llama3.1-8b", devices="8x8", cluster="h100", batch_tokens=4e6)

    `devices` is a number, or nodes and the devices of each; `batch_tokens` the tokens of a step (`batch` its sequences). That nothing
    fits is an answer, not an error.
    """
    owner = as_model(model)
    said: Dict[str, Any] = dict(flags)
    if batch_tokens is not None:
        if said.get("batch") is not None:
            raise InputError("batch and batch_tokens are given together; leave one of the two out", "leave one of the two out")
        said["batch"] = f"{flag_text(batch_tokens)}tokens"
    answer = ask("fit", [owner.__flag__(), *words("fit", said), "--format=json"], on_notice, on_progress)
    if answer.exit_code != 0 and not answer.printed:
        answer.checked()
    return Fit(answer.json(), (owner, flags))
