"""What a verb answers, as data: a mapping with the names of --format=json, which shows itself as a table."""
from __future__ import annotations

import html
from typing import Any, Iterable, Iterator, List, Mapping, Sequence, Tuple


class Facts(Mapping[str, Any]):
    """The answer of a verb. Names are also attributes: `facts.step_seconds` is `facts["step_seconds"]`."""

    def __init__(self, values: Mapping[str, Any], text: str = "") -> None:
        self._values, self._text = dict(values), text

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(values)}")
        return values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._values]

    def __str__(self) -> str:
        """The text of the command line, where it is known."""
        return self._text or repr(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in scalars(self._values))})"

    def _repr_html_(self) -> str:
        return table([(name, text_of(value)) for name, value in scalars(self._values)])


def scalars(values: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """The facts that are one number or one word."""
    return [(name, value) for name, value in values.items() if not isinstance(value, (dict, list))]


def text_of(value: Any) -> str:
    """A cell: numbers with separators of thousands, or four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def seconds_text(seconds: Any) -> str:
    """1.234 s, 56.7 ms; a time that is not known is none."""
    if not isinstance(seconds, (int, float)):
        return "no time"
    return f"{seconds:.4g} s" if seconds >= 1 else f"{seconds * 1e3:.4g} ms"


def bytes_text(size: Any) -> str:
    """61.5 GiB, 17.2 MiB."""
    unit = next((unit for unit in (2**40, 2**30, 2**20, 2**10) if size >= unit), 1)
    name = {2**40: "TiB", 2**30: "GiB", 2**20: "MiB", 2**10: "KiB", 1: "bytes"}[unit]
    return f"{size / unit:.4g} {name}"


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table of HTML; a word of another's file is no markup."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"

    return "<table>" + (line(head, "th") if head else "") + "".join(line(row, "td") for row in rows) + "</table>"
