"""The families of models, as `oneflow model` has them, each with its presets and numbers.

    of.models.llama(preset="llama3.1-8b", sequence=8192)
    of.models.gpt(layers=2, heads=4, hidden=64, sequence=32, vocab=256)
    of.models.moe(layers=2, hidden=64, heads=4, experts=8, experts_per_token=2)
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from oneflow_actors.model import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflow_actors._options import ModelFlags


def gpt(**flags: "Unpack[ModelFlags]") -> Model:
    """GPT-2 and GPT-3: learned positions, LayerNorm, GELU."""
    return Model.family("gpt", **flags)


def llama(**flags: "Unpack[ModelFlags]") -> Model:
    """Llama, Mistral and Qwen: rotary positions, RMSNorm, gated MLPs, grouped queries."""
    return Model.family("llama", **flags)


def moe(**flags: "Unpack[ModelFlags]") -> Model:
    """A Llama whose MLPs are mixtures of experts, as Mixtral's; 8 experts unless `experts` or a preset says otherwise."""
    if "experts" not in flags and "preset" not in flags:
        flags["experts"] = 8
    return Model.family("llama", **flags)


def named(name: str, /) -> Model:
    """A preset of any family, or a public name of Hugging Face: "llama3.1-8b", "Qwen/Qwen2.5-7B"."""
    return Model.from_hf(name)
