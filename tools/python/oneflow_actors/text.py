"""Text of a checkpoint."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from oneflow_actors.calls import Notice, call_json, words
from oneflow_actors.facts import Facts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import GenerateFlags


class Generated(str):
    """The text that was generated, without the prompt. `facts` has the ids of its tokens, why it ended, seconds."""

    facts: Facts

    def __new__(cls, answer: Dict[str, Any]) -> "Generated":
        text = super().__new__(cls, answer["text"])
        text.facts = Facts(answer)
        return text


def generate(checkpoint: Any, prompt: str, /, *, on_notice: Notice = None, **flags: "Unpack[GenerateFlags]") -> Generated:
    """Continues a text, as `oneflow generate` does; a seed gives the same text each time.

    of.generate("checkpoints", "The ", tokens=20, temperature=0.8, seed=1)
    """
    said = words("generate", {"checkpoint": checkpoint, "prompt": prompt, **flags})
    return Generated(call_json("generate", said, on_notice))
