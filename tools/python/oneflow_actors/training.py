"""Training, and what it leaves: Trainer, Step, Checkpoint."""
from __future__ import annotations

import dataclasses
import os
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union

from oneflow_actors import _engine
from oneflow_actors.calls import Notice, Progress, hear, listener, words
from oneflow_actors.errors import error_for
from oneflow_actors.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    from oneflow_actors._options import TrainFlags

    Array = npt.NDArray[np.float32]

Path = Union[str, "os.PathLike[str]"]


def _check(code: int, message: str, hint: str) -> None:
    if code != 0:
        raise error_for(code, message, hint)


@dataclasses.dataclass(frozen=True)
class Step:
    """One update of a training.

    `step` counts from 0. `seconds` is the time of the step, `left_seconds` that of the rest of the run, `mfu`
    the rate of the model's operations relative to that of matrix products on this machine, from 0 to 1. `loss` is a
    mean over the labels that count, None where none does; `eval_loss` that of a validation, if one followed the step.
    `experts`: of a mixture, the tokens of each expert, and of those the ones that were dropped.
    """

    step: int
    loss: Optional[float]
    eval_loss: Optional[float]
    learning_rate: float
    grad_norm: float
    labels: Optional[float]
    tokens_per_second: float
    seconds: float
    mfu: Optional[float]
    left_seconds: float
    experts: List[float]


class Trainer:
    """Trains a plan in this process, a step at a time.

    Keywords are the flags of `oneflow train`: the losses are those of that command, bit by bit, and so are the
    checkpoints. Between two steps all devices rest: `tensor` reads variables there, and Ctrl-C ends there.

        with of.Trainer(plan, data="text.txt", steps=20, seed=1, checkpoint_dir="run/ckpt") as trainer:
            for step in trainer:
                print(step.step, step.loss)

    Leaving the block before the last step ends the run as Ctrl-C ends the command: with a checkpoint, if there is a
    `checkpoint_dir`; `resume=True` goes on with it.
    """

    def __init__(self, plan: Union[Plan, Path, None] = None, /, *, on_notice: Notice = None, on_progress: Progress = None,
                 **flags: "Unpack[TrainFlags]") -> None:
        self._on_notice = on_notice or hear
        said = [os.fsencode(word) for word in words("train", {"plan": plan, **flags})]
        with listener(on_progress) as progress:
            error, self._trainer = _engine.open_trainer(said, self._on_notice, progress)
        _check(*error)
        self._begun = self._over = False

    def __enter__(self) -> "Trainer":
        self._begin()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self.close()

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        self._begin()
        if self._over:
            raise StopIteration
        error, values = self._trainer.advance()
        self._say()
        if values is None:
            self._over = True
            _check(*error)
            raise StopIteration
        return Step(**values)

    def run(self, on_step: Optional[Callable[[Step], None]] = None) -> Optional[Step]:
        """Trains to the end and returns the last step."""
        last = None
        for last in self:
            if on_step is not None:
                on_step(last)
        return last

    @property
    def steps_done(self) -> int:
        """Updates of the run so far, with those of a run that it goes on with."""
        return int(self._trainer.steps_done())

    def names(self) -> List[str]:
        """Variables of the plan, and the states of the optimizer: "h.0.attn.qkv.weight", "h.0.attn.qkv.weight/m"."""
        return list(self._trainer.names())

    def tensor(self, name: str) -> Array:
        """A copy of a variable, put together from all devices; bf16 comes as float32.

            trainer.tensor("wte").shape  # (50257, 768)
        """
        self._begin()
        error, array = self._trainer.tensor(name)
        _check(*error)
        return array  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends the training where it is, with a checkpoint if it has a folder for one, and gives its memory back."""
        over, self._over = self._over, True
        code, message, hint = self._trainer.close()
        self._say()
        if over or code == 0:
            return
        if not message.startswith("interrupted"):
            raise error_for(code, message, hint)
        self._on_notice(message)

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        error = self._trainer.begin()
        self._say()
        if error[0]:
            self._over = True
        _check(*error)

    def _say(self) -> None:
        for sentence in self._trainer.take_notices():
            self._on_notice(sentence)


class Checkpoint(Mapping[str, "Array"]):
    """The variables of a checkpoint, or of a folder of Hugging Face, by name: each is read and verified when asked for.

    `path`: the folder of a step, or a folder of checkpoints, whose latest is read. `base`: where the base of adapters
    is now.

        of.Checkpoint("run/ckpt")["h.0.attn.qkv.weight"].mean()
    """

    def __init__(self, path: Path, *, base: Path = "") -> None:
        error, self._weights = _engine.open_weights(os.fsencode(path), os.fsencode(base))
        _check(*error)
        self._shapes: Dict[str, Tuple[int, ...]] = dict(self._weights.names())

    def __flag__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """The folder that is read."""
        return os.fsdecode(self._weights.folder())

    @property
    def step(self) -> int:
        """The step that the checkpoint is of."""
        error, step = _engine.checkpoint_step(os.fsencode(self.path))
        _check(*error)
        return step

    @property
    def shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Shapes by name, without reading a weight."""
        return dict(self._shapes)

    def __getitem__(self, name: str) -> Array:
        if name not in self._shapes:
            raise KeyError(name)
        error, array = self._weights.load(name)
        _check(*error)
        return array  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._shapes  # reads none

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def tensors(self) -> "Dict[str, Array]":
        """All variables, as float32."""
        return dict(self)

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r}, {len(self)} variables)"
