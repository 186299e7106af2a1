"""Times in text that follow a datetime pattern of Spark, for patterns of fixed width."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import compile_expression

__all__ = ["parse_times"]

_PARTS = {"yyyy": r"\d{4}", "MM": r"\d{2}", "dd": r"\d{2}", "HH": r"\d{2}", "mm": r"\d{2}", "ss": r"\d{2}"}
_TOKEN = re.compile(r"'([^']+)'|([A-Za-z])\2*|[^A-Za-z']")
_ISO = compile_expression("try_cast(t AS timestamp)", pa.schema([("t", pa.string())]))


def parse_times(pattern: str) -> Callable[[Any], Any] | None:
    """Return the function that parses text with a pattern; null where it does not match. None: not supported here.

    >>> parse_times("dd/MM/yyyy HH:mm")(pa.array(["31/12/2024 23:59", "31/13/2024 00:00"])).cast(pa.int64()).to_pylist()
    [1735689540000000, None]
    >>> parse_times("d MMM yyyy") is None
    True
    """
    found, names, at = [], list[str](), 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token.start() != at:
            return None
        at = token.end()
        if token[1]:
            found.append(re.escape(token[1]))
        elif not token[2]:
            found.append(re.escape(text))
        elif text in _PARTS or re.fullmatch("S{1,6}", text):
            name = text if text in _PARTS else "S"
            found.append(f"(?P<{name}>{_PARTS.get(text, rf'[0-9]{{{len(text)}}}')})")
            names.append(name)
        else:
            return None
    clock = [name for name in ("HH", "mm", "ss", "S") if name in names]
    if at != len(pattern) or len(set(names)) < len(names) or not {"yyyy", "MM", "dd"} <= set(names):
        return None
    if clock != ["HH", "mm", "ss", "S"][: len(clock)]:
        return None
    return lambda texts: _parsed(texts, f"^{''.join(found)}$", names)


def _parsed(texts: Any, regex: str, names: list[str]) -> Any:
    parts = pc.extract_regex(texts, regex)

    def part(name: str) -> Any:
        return pc.struct_field(parts, name) if name in names else "00"

    day = pc.binary_join_element_wise(part("yyyy"), part("MM"), part("dd"), "-")
    clock = pc.binary_join_element_wise(part("HH"), part("mm"), part("ss"), ":")
    iso = pc.binary_join_element_wise(day, clock, " ")
    if "S" in names:
        iso = pc.binary_join_element_wise(iso, part("S"), ".")
    iso = pc.if_else(pc.is_valid(parts), iso, pa.scalar(None, pa.string()))
    return _ISO.evaluate(pa.table({"t": iso}))
