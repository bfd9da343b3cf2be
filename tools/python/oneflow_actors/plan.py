"""Plans: what a model costs on devices, and the file that trains it there."""
from __future__ import annotations

import html
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

from oneflow_actors.calls import Notice, Progress, Scratch, call, call_json, words
from oneflow_actors.errors import InputError
from oneflow_actors.facts import Facts, bytes_text, seconds_text
from oneflow_actors.model import ModelLike, as_model
from oneflow_actors.recipe import Recipe, RecipeLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import CompileFlags, DiffFlags, ExplainFlags, SimulateFlags

Path = Union[str, "os.PathLike[str]"]


class Emitted(Mapping[str, str]):
    """Files of another system's configuration, name -> text. `facts` says what was rounded, why, and what that costs."""

    def __init__(self, facts: Dict[str, Any]) -> None:
        self._files = {file["name"]: str(file["text"]) for file in facts["files"]}
        self.facts = Facts({name: value for name, value in facts.items() if name != "files"})

    def __getitem__(self, name: str) -> str:
        return self._files[name]

    def __iter__(self) -> Any:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __str__(self) -> str:
        return "\n".join(f"# {name}\n{text}" for name, text in self.items())


class Plan:
    """A plan, of `compile` or Plan.load. `path` is its file, which lives as long as this object unless it was saved or loaded.

    plan = of.compile("llama3.1-8b", of.Recipe(mesh="data=2,tensor=4", batch=16), cluster="h100")
    plan.bytes_per_device, plan.step_seconds, plan.mfu
    """

    def __init__(self, path: str, scratch: Optional[Scratch], facts: Optional[Dict[str, Any]] = None) -> None:
        self.path, self._scratch, self._facts = path, scratch, facts

    @classmethod
    def load(cls, path: Path, /) -> "Plan":
        """A plan file. One that is truncated, or of another version, is an InputError."""
        plan = cls(os.path.abspath(path), None)
        plan.to_json()
        return plan

    def save(self, path: Path, /) -> None:
        """Writes the plan file."""
        if not (os.path.exists(path) and os.path.samefile(self.path, path)):
            shutil.copyfile(self.path, path)

    def to_json(self) -> Dict[str, Any]:
        """All of `oneflow explain --format=json`: stages, programs, actors, variables with their layouts."""
        if self._facts is None:
            self._facts = call_json("explain", [f"--plan={self.path}"])
        return self._facts

    @property
    def headline(self) -> Facts:
        """What the first lines of `explain` say."""
        return Facts(self.to_json()["headline"], call("explain", [f"--plan={self.path}"]).split("\n\n", maxsplit=1)[0])

    def _head(self, name: str) -> Any:
        return self.to_json()["headline"].get(name)

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.to_json()["model"])

    @property
    def devices(self) -> int:
        """How many devices it is for."""
        return int(self.to_json()["devices"])

    @property
    def fingerprint(self) -> str:
        """32 digits that equal plans have alike."""
        return str(self.to_json()["fingerprint"])

    @property
    def bytes_per_device(self) -> int:
        """Bytes of the device that needs most: weights, gradients, states, activations, workspaces; exact."""
        return int(self._head("bytes_a_device"))

    @property
    def step_seconds(self) -> Optional[float]:
        """The predicted time of a step, in seconds."""
        return _number(self._head("step_seconds"))

    @property
    def step_band(self) -> Optional[Tuple[float, float]]:
        """From and to what time of a step such predictions have held, in seconds; None where no run of the kind was compared."""
        compared = self._head("compared") or {}
        return (float(compared["low_seconds"]), float(compared["high_seconds"])) if "low_seconds" in compared else None

    @property
    def tokens_per_second(self) -> Optional[float]:
        """Tokens a second over all devices."""
        return _number(self._head("tokens_a_second"))

    @property
    def mfu(self) -> Optional[float]:
        """Model FLOPs a second over the peak of the devices, from 0 to 1; None where the peak is not known."""
        return _number(self._head("mfu"))

    @property
    def recipe(self) -> Recipe:
        """The complete recipe: compiled again it makes this plan, byte for byte."""
        return Recipe._of_plan(self)

    def explain(self, name: Optional[str] = None, /, **flags: "Unpack[ExplainFlags]") -> str:
        """The text of `oneflow explain`; with the name of an op or a tensor the lines about it in `program` (train): its
        registers (shape, bytes, address), actors, layouts, exchanges.

        print(plan.explain("h.0.mlp.gate"))
        """
        if name is None:
            return explain(self, **flags)
        flags["full"] = True
        flags.setdefault("program", "train")
        about = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w])")
        lines = [line for line in explain(self, **flags).split("\n") if about.search(line)]
        if not lines:
            hint = "explain(program=NAME, full=True) lists all"
            raise InputError(f"{name}: is no op and no tensor of program {flags['program']}; {hint}", hint)
        return "\n".join(lines)

    def to_html(self, path: Optional[Path] = None, /, **flags: "Unpack[ExplainFlags]") -> str:
        """The page: timeline, memory, critical path. It is one file, which loads nothing; written to `path` where that is given."""
        page = call("explain", [f"--plan={self.path}", *words("explain", flags), "--format=html"])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def simulate(self, **flags: "Unpack[SimulateFlags]") -> Facts:
        """A step, simulated: plan.simulate(cluster="a100", steps=4).bubble."""
        return simulate(self, **flags)

    def verify(self) -> str:
        """Proves the plan once more: no deadlock, no overlap in memory, layouts that agree. Returns the verdict; raises what fails."""
        return verify(self)

    def diff(self, other: "Plan", /, **flags: "Unpack[DiffFlags]") -> Facts:
        """How another plan differs, and what that does to time, bytes and memory."""
        return diff(self, other, **flags)

    def emit(self, system: str, folder: Optional[Path] = None, /, **flags: "Unpack[CompileFlags]") -> Emitted:
        """The plan as the configuration of "megatron", "bridge", "torchtitan", "deepspeed" or "accelerate", rounded to what that can;
        written to `folder` where that is given.

        print(plan.emit("megatron", "run", steps=1000)["run.sh"])
        """
        scratch = Scratch()
        recipe = scratch.file("recipe.textproto")
        call("recipe", [f"--plan={os.path.abspath(self.path)}", f"--out={recipe}"])
        to = [] if folder is None else [f"--emit_out={os.fspath(folder)}"]
        # The recipe says all, also what acts on nothing in this plan.
        emitted = call_json("compile", [f"--recipe={recipe}", f"--emit={system}", *to, *words("compile", flags)], lambda sentence: None)
        return Emitted(emitted["emit"])

    def __flag__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        mfu = "" if self.mfu is None else f", MFU {100 * self.mfu:.1f} %"
        return (f"Plan({self.model} on {self.devices} device{'s' if self.devices > 1 else ''}: "
                f"{bytes_text(self.bytes_per_device)} each, step {seconds_text(self.step_seconds)}{mfu})")

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'


def _number(value: Any) -> Optional[float]:
    return None if value is None else float(value)


def compile(model: ModelLike, recipe: RecipeLike = None, /, *, on_notice: Notice = None, **flags: "Unpack[CompileFlags]") -> Plan:
    """Compiles a model to a plan and proves it, as `oneflow compile` does; flags beside a recipe count in place of it.

    plan = of.compile(model, of.Recipe(mesh="data=2", batch=16), cluster="h100", memory="80GB")
    """
    said: Dict[str, Any] = {"recipe": recipe, **flags}
    scratch = None if said.get("out") else Scratch()
    path = scratch.file("plan") if scratch else os.path.abspath(said.pop("out"))
    model = as_model(model)
    facts = call_json("compile", [*_of_model(model), *words("compile", said), f"--out={path}"], on_notice)
    return Plan(path, scratch, facts)


def _of_model(model: Any) -> List[str]:
    return [f"--graph={as_model(model).__flag__()}"]


def _subject(verb: str, subject: Union[Plan, ModelLike], recipe: RecipeLike, flags: Mapping[str, Any]) -> Tuple[List[str], Any]:
    """The words for a plan, or for a model and what it is compiled with; and what must live until the verb has read them."""
    owner = subject if isinstance(subject, Plan) else as_model(subject)
    first = f"--plan={owner.path}" if isinstance(owner, Plan) else f"--graph={owner.__flag__()}"
    return [first, *words(verb, {"recipe": recipe, **flags})], owner


def explain(subject: Union[Plan, ModelLike], recipe: RecipeLike = None, /, *, on_notice: Notice = None,
            **flags: "Unpack[ExplainFlags]") -> str:
    """What a plan is, and why: text, or with `format` "json", "html", "memory"; of a model, the plan that flags would compile.

    of.explain("gpt2-124m", mesh="data=2", after="insert_boxing")
    """
    arguments, owner = _subject("explain", subject, recipe, flags)
    return call("explain", arguments, on_notice)


def simulate(subject: Union[Plan, ModelLike], recipe: RecipeLike = None, /, *, on_notice: Notice = None,
             **flags: "Unpack[SimulateFlags]") -> Facts:
    """Predicted times of a step and their causes, in seconds; str() of it is the text of `oneflow simulate`.

    of.simulate(plan, cluster="a100").step_seconds
    """
    arguments, owner = _subject("simulate", subject, recipe, flags)
    facts = call_json("simulate", arguments, on_notice)
    return Facts(facts, call("simulate", arguments, lambda sentence: None))


def verify(plan: Union[Plan, Path], /) -> str:
    """Proves a plan, a file too. Returns the verdict, "live, memory-safe, type-safe"; raises what fails."""
    return str(call_json("verify", words("verify", {"plan": plan}))["verdict"])


def diff(*plans: Union[Plan, Path], on_notice: Notice = None, **flags: "Unpack[DiffFlags]") -> Facts:
    """The differences of two plans: `facts`, and `numbers` with bytes and seconds of both; str() is the text of `oneflow diff`.
    Or of a lock and a plan, or a model and flags that compile it: costs that pass `fail_above` are a LimitError.

    print(of.diff(plan, other, cluster="h100"))
    of.diff(lock="plan.lock", graph=model, cluster="h100", fail_above="bytes:1%,step:2%")
    """
    arguments = [plan.path if isinstance(plan, Plan) else os.fspath(plan) for plan in plans] + words("diff", flags)
    return Facts(call_json("diff", arguments, on_notice), call("diff", arguments, lambda sentence: None))
