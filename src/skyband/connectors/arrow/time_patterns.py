"""Times in text that follow a datetime pattern of Spark: digits of fixed width, optional parts, and offsets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import compile_expression

__all__ = ["parse_times"]

_PARTS = {"yyyy": r"\d{4}", "MM": r"\d{2}", "dd": r"\d{2}", "HH": r"\d{2}", "mm": r"\d{2}", "ss": r"\d{2}"}
_HOURS = r"[+-](?:0\d|1[0-7])"
_ZONES = {"XXX": rf"[zZ]|{_HOURS}:[0-5]\d", "XX": rf"[zZ]|{_HOURS}[0-5]\d", "X": rf"[zZ]|{_HOURS}(?:[0-5]\d)?"}
_TOKEN = re.compile(r"'([^']+)'|([A-Za-z])\2*|[^A-Za-z'{}#]")
_ISO = compile_expression("try_cast(t AS timestamp)", pa.schema([("t", pa.string())]))


def parse_times(pattern: str) -> Callable[[Any], Any] | None:
    """Return the function that parses text with a pattern; null where it does not match. None: not supported here.

    >>> parse_times("dd/MM/yyyy HH:mm")(pa.array(["31/12/2024 23:59", "31/13/2024 00:00"])).cast(pa.int64()).to_pylist()
    [1735689540000000, None]
    >>> parse_times("yyyy-MM-dd HH:mm:ss[.SSS]X")(pa.array(["1970-01-01 02:00:00.5+02"])).cast(pa.int64()).to_pylist()
    [500000]
    >>> parse_times("d MMM yyyy") is None
    True
    """
    found, names, at, depth = [], list[str](), 0, 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token.start() != at:
            return None
        at = token.end()
        if token[1]:
            found.append(f"(?i:{re.escape(token[1])})")
        elif text in "[]":
            depth += 1 if text == "[" else -1
            found.append("(?:" if text == "[" else ")?")
        elif not token[2]:
            found.append(re.escape(text))
        elif (part := _group(text, len(names))) is not None:
            found.append(part[1])
            names.append(part[0])
        else:
            return None
        if depth not in (0, 1):
            return None
    fields = [name for name in names if not name.startswith("zone")]
    clock = [name for name in ("HH", "mm", "ss", "S") if name in fields]
    if at != len(pattern) or depth or len(set(fields)) < len(fields) or not {"yyyy", "MM", "dd"} <= set(fields):
        return None
    if clock != ["HH", "mm", "ss", "S"][: len(clock)]:
        return None
    return lambda texts: _parsed(texts, f"^{''.join(found)}$", names)


def _group(text: str, place: int) -> tuple[str, str] | None:
    """Return the name and the regular expression of a part of a pattern; None if it is not supported."""
    if text in _PARTS:
        return text, f"(?P<{text}>{_PARTS[text]})"
    if text in _ZONES:
        return f"zone{place}", f"(?P<zone{place}>{_ZONES[text]})"
    # Spark accepts fewer digits of a fraction than the pattern has.
    return ("S", rf"(?P<S>\d{{1,{len(text)}}})") if re.fullmatch("S{1,9}", text) else None


def _parsed(texts: Any, regex: str, names: list[str]) -> Any:
    parts = pc.extract_regex(texts, regex)

    def part(name: str, absent: str = "00") -> Any:
        if name not in names:
            return absent
        text = pc.struct_field(parts, name)
        return pc.if_else(pc.equal(text, ""), absent, text)

    day = pc.binary_join_element_wise(part("yyyy"), part("MM"), part("dd"), "-")
    clock = pc.binary_join_element_wise(part("HH"), part("mm"), part("ss"), ":")
    iso = pc.binary_join_element_wise(day, clock, " ")
    if "S" in names:
        iso = pc.binary_join_element_wise(iso, part("S", "0"), ".")
    for zone in (name for name in names if name.startswith("zone")):
        iso = pc.binary_join_element_wise(iso, pc.ascii_upper(part(zone, "")), "")
    iso = pc.if_else(pc.is_valid(parts), iso, pa.scalar(None, pa.string()))
    return _ISO.evaluate(pa.table({"t": iso}))
