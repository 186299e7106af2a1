"""Functions of strings. Lengths and positions count code points."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import UnsupportedError
from skyband.expressions.casts import cast
from skyband.expressions.nodes import Data, Node, fail, node, to_numpy
from skyband.expressions.registry import as_type, constant, function
from skyband.expressions.types import STRING

__all__ = ["lower", "pattern_of", "text_of"]

_INT = pa.int32()
_LITERALS = "Arguments other than `a` must be literals."


def text_of(name: str, arg: Node) -> Node:
    return as_type(name, arg, STRING)


def pattern_of(name: str, arg: Node) -> str:
    return str(constant(name, arg, STRING))


def _count(name: str, arg: Node) -> int:
    return int(str(constant(name, arg, _INT)))


def _cased(data: Data, upper: bool) -> Data:
    """Change the case. Letters outside ASCII need Unicode's full rules, which Arrow does not have."""
    plain = (pc.ascii_upper if upper else pc.ascii_lower)(data)
    if isinstance(data, pa.Scalar):
        value = data.as_py()
        return data if value is None else pa.scalar(value.upper() if upper else value.lower(), STRING)
    other = pc.fill_null(pc.invert(pc.string_is_ascii(data)), False)
    if not pc.any(other).as_py():
        return plain
    words = pc.filter(data, other).dictionary_encode()
    changed = pa.array([word.upper() if upper else word.lower() for word in words.dictionary.to_pylist()], STRING)
    return pc.replace_with_mask(plain, other, changed.take(words.indices))


@function("strings", "upper ucase", "upper(a)", 1)
def _upper(arg: Node) -> Node:
    return node(STRING, lambda data: _cased(data, True), text_of("upper", arg))


@function("strings", "lower lcase", "lower(a)", 1)
def lower(arg: Node) -> Node:
    return node(STRING, lambda data: _cased(data, False), text_of("lower", arg))


@function("strings", "length len char_length character_length", "length(a)", 1)
def _length(arg: Node) -> Node:
    return node(_INT, pc.utf8_length, text_of("length", arg))


@function("strings", "reverse", "reverse(a)", 1)
def _reverse(arg: Node) -> Node:
    return node(STRING, pc.utf8_reverse, text_of("reverse", arg))


@function("strings", "concat", "concat(a, b, …)", (1, 1000), "Other types are cast to strings.")
def _concat(*args: Node) -> Node:
    parts = [cast(arg, STRING) for arg in args]
    return node(STRING, lambda *data: pc.binary_join_element_wise(*data, "", null_handling="emit_null"), *parts)


@function("strings", "||", "a || b", 2, "As `concat`.")
def _pipes(left: Node, right: Node) -> Node:
    return _concat(left, right)


def _trim(name: str, arg: Node, characters: Node | None) -> Node:
    removed = " " if characters is None else pattern_of(name, characters)
    compute = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[name]
    if not removed:
        return text_of(name, arg)
    return node(STRING, lambda data: compute(data, removed), text_of(name, arg))


for _name in ("trim", "ltrim", "rtrim"):
    function("strings", _name, f"{_name}(a)", 1)(lambda arg, name=_name: _trim(name, arg, None))
    _side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[_name]
    function("strings", f"{_name}:from", f"trim({_side} characters FROM a)", 2, _LITERALS)(
        lambda characters, arg, name=_name: _trim(name, arg, characters)
    )


@function("strings", "btrim", "btrim(a), btrim(a, characters)", (1, 2), _LITERALS)
def _btrim(arg: Node, characters: Node | None = None) -> Node:
    return _trim("trim", arg, characters)


def _slice(data: Data, start: int, length: int | None) -> Data:
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(data, 0, 0)
    stop = None if length is None else start + length
    return pc.utf8_slice_codeunits(data, start, None if stop is None or (start < 0 <= stop) else stop)


@function("strings", "substring substr", "substring(a, start), substring(a, start, length)", (2, 3), _LITERALS)
def _substring(arg: Node, start: Node, *length: Node) -> Node:
    first = _count("substring", start)
    count = _count("substring", length[0]) if length else None
    at = first - 1 if first > 0 else first
    return node(STRING, lambda data: _slice(data, at, count), text_of("substring", arg))


@function("strings", "left", "left(a, length)", 2, _LITERALS)
def _left(arg: Node, length: Node) -> Node:
    count = _count("left", length)
    return node(STRING, lambda data: _slice(data, 0, count), text_of("left", arg))


@function("strings", "right", "right(a, length)", 2, _LITERALS)
def _right(arg: Node, length: Node) -> Node:
    count = _count("right", length)
    return node(STRING, lambda data: _slice(data, -count, None if count > 0 else 0), text_of("right", arg))


def _pad(name: str, arg: Node, length: Node, fill: tuple[Node, ...]) -> Node:
    count, filler = _count(name, length), pattern_of(name, fill[0]) if fill else " "
    if len(filler) > 1:
        raise UnsupportedError(f"{name} with {filler!r}: only one padding character is supported in process.")
    compute = pc.utf8_lpad if name == "lpad" else pc.utf8_rpad

    def run(data: Data) -> Data:
        padded = compute(data, count, filler) if filler and count > 0 else data
        return _slice(padded, 0, count)

    return node(STRING, run, text_of(name, arg))


@function("strings", "lpad", "lpad(a, length), lpad(a, length, character)", (2, 3), _LITERALS)
def _lpad(arg: Node, length: Node, *fill: Node) -> Node:
    return _pad("lpad", arg, length, fill)


@function("strings", "rpad", "rpad(a, length), rpad(a, length, character)", (2, 3), _LITERALS)
def _rpad(arg: Node, length: Node, *fill: Node) -> Node:
    return _pad("rpad", arg, length, fill)


@function("strings", "replace", "replace(a, 'text'), replace(a, 'text', 'other')", (2, 3), _LITERALS)
def _replace(arg: Node, text: Node, *other: Node) -> Node:
    pattern, replacement = pattern_of("replace", text), pattern_of("replace", other[0]) if other else ""
    if not pattern:
        return text_of("replace", arg)
    return node(STRING, lambda data: pc.replace_substring(data, pattern, replacement), text_of("replace", arg))


@function("strings", "split_part", "split_part(a, 'delimiter', number)", 3, _LITERALS)
def _split_part(arg: Node, delimiter: Node, number: Node) -> Node:
    pattern, part = pattern_of("split_part", delimiter), _count("split_part", number)
    if not part:
        return node(
            STRING,
            lambda data: fail(data, to_numpy(pc.is_valid(data))[0], "INVALID_INDEX_OF_ZERO"),
            text_of("split_part", arg),
        )

    def run(data: Data) -> Data:
        rows = pa.repeat(data, 1) if isinstance(data, pa.Scalar) else data
        parts = pc.split_pattern(rows, pattern) if pattern else None
        if parts is None:
            found = rows if part in (1, -1) else pc.if_else(pc.is_valid(rows), "", rows)
        else:
            size = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False)
            start = parts.offsets.to_numpy()[:-1]
            at = start + (part - 1 if part > 0 else size + part)
            inside = abs(part) <= size
            taken = parts.values.take(pa.array(np.where(inside, at, 0))) if len(parts.values) else rows
            found = pc.if_else(pc.is_valid(rows), pc.if_else(pa.array(inside), taken, ""), pa.scalar(None, STRING))
        return found[0] if isinstance(data, pa.Scalar) else found

    return node(STRING, run, text_of("split_part", arg))
