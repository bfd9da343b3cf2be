"""Calls of the engine: a function of this package is a verb of the command line, its keyword arguments are the verb's flags."""
from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Union

from oneflow_actors import _engine
from oneflow_actors.errors import Warning as EngineWarning
from oneflow_actors.errors import error_for

_log = logging.getLogger("oneflow_actors")
# Templates of chats are rendered, and tables read, by this Python and its packages.
os.environ.setdefault("ONEFLOW_PYTHON", sys.executable)


class SupportsFlag(Protocol):
    """An object of this package that is a flag's value: a model, a recipe, a plan, a cluster."""

    def __flag__(self) -> str:
        """The text of the value; files that it names live as long as the object."""


Scalar = Union[None, bool, int, float, str, "os.PathLike[str]", SupportsFlag]
Flag = Union[Scalar, Sequence[Scalar], Mapping[str, Scalar], Sequence[Mapping[str, Scalar]]]
Notice = Optional[Callable[[str], None]]
Progress = Union[None, bool, str, Callable[[str], None]]


class Scratch:
    """A temporary folder that is removed with this object."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="oneflow-")
        weakref.finalize(self, _remove, self.path, os.getpid())

    def file(self, name: str) -> str:
        """The path of a file of this name in the folder."""
        return os.path.join(self.path, name)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork of the process has the object, too
        shutil.rmtree(folder, ignore_errors=True)


class Option(NamedTuple):
    """A flag of a verb, as `oneflow VERB --help` shows it."""

    name: str
    value: str
    sentence: str
    default: str
    rare: bool


def options(verb: str) -> List[Option]:
    """The keyword arguments of a verb's function, with a sentence about each.

    print(*of.options("compile"), sep="\\n")
    """
    return [Option(*row) for row in _engine.options(verb)]


def flag_text(value: Any) -> str:
    """A value of Python as the text of a flag: True, 2, 4e6, "1f1b", a path, {"data": 2}, [1, 2, 3]."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if hasattr(value, "__flag__"):
        return str(value.__flag__())
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return ",".join(f"{key}={flag_text(item)}" for key, item in value.items())
    if isinstance(value, Sequence):
        return ",".join(flag_text(item) for item in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    return str(value)


def words(verb: str, flags: Mapping[str, Any]) -> List[str]:
    """The flags as words of a command line; those that are None are not said. A list of a flag that may be repeated is several."""
    repeated = {option.name for option in options(verb) if "may be repeated" in option.sentence}
    said = []
    for name, value in flags.items():
        several = name in repeated and not isinstance(value, (str, Mapping)) and isinstance(value, Sequence)
        for item in value if several else [value]:
            if item is not None:
                said.append(f"--{name}={flag_text(item)}")
    return said


def hear(sentence: str) -> None:
    """What is done with a notice unless `on_notice` is given: a warning of Python, or a line of logging."""
    begin = "warning: "
    if sentence.startswith(begin):
        frame, level = sys._getframe(), 1
        while frame.f_back and str(frame.f_globals.get("__name__")).startswith("oneflow_actors"):
            frame, level = frame.f_back, level + 1
        warnings.warn(sentence[len(begin):], EngineWarning, stacklevel=level)
    else:
        _log.info("%s", sentence)


@contextlib.contextmanager
def listener(on_progress: Progress) -> Iterator[Optional[Callable[[str], None]]]:
    """A function of one sentence. True or "tqdm": a line of tqdm where it is installed, else lines of stderr."""
    if on_progress is None or on_progress is False:
        yield None
    elif callable(on_progress):
        yield on_progress
    else:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            yield lambda sentence: print(sentence, file=sys.stderr)
            return
        with tqdm(bar_format="{desc} [{elapsed}]") as bar:
            yield bar.set_description_str


class Answer(NamedTuple):
    """How a verb ended."""

    exit_code: int
    message: str
    hint: str
    printed: bytes

    def checked(self) -> "Answer":
        """This, or the exception that it means."""
        if self.exit_code != 0:
            raise error_for(self.exit_code, self.message, self.hint)
        return self

    def json(self) -> Dict[str, Any]:
        """What was printed with --format=json."""
        value: Dict[str, Any] = json.loads(self.printed.decode("utf-8", "replace"))
        return value


def ask(verb: str, arguments: Sequence[str], on_notice: Notice = None, on_progress: Progress = None) -> Answer:
    """Runs a verb as the command line does. Other threads of Python go on.

    Ctrl-C ends a search or a fit, waits for any other verb, and raises KeyboardInterrupt.
    """
    with listener(on_progress) as progress:
        # Paths may hold bytes that are no UTF-8.
        return Answer(*_engine.call(verb, [os.fsencode(word) for word in arguments], on_notice or hear, progress))


def call(verb: str, arguments: Sequence[str], on_notice: Notice = None, on_progress: Progress = None) -> str:
    """What a verb prints; raises its error."""
    return ask(verb, arguments, on_notice, on_progress).checked().printed.decode("utf-8", "replace")


def call_json(verb: str, arguments: Sequence[str], on_notice: Notice = None, on_progress: Progress = None) -> Dict[str, Any]:
    """The same as data."""
    return ask(verb, [*arguments, "--format=json"], on_notice, on_progress).checked().json()
