"""Searches in strings: LIKE, startswith, contains, instr. Patterns are literals."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.nodes import Data, Node, node
from skyband.expressions.registry import function
from skyband.expressions.strings import lower, pattern_of, text_of

__all__: list[str] = []

_BOOLEAN, _INT = pa.bool_(), pa.int32()
_LITERAL = "The text must be a literal."


def _search(name: str, compute: Any) -> None:
    @function("strings", name, f"{name}(a, 'text')", 2, _LITERAL)
    def _build(arg: Node, text: Node) -> Node:
        pattern = pattern_of(name, text)
        return node(_BOOLEAN, lambda data: compute(data, pattern), text_of(name, arg))


_search("startswith", pc.starts_with)
_search("endswith", pc.ends_with)
_search("contains", pc.match_substring)


def _position(name: str, arg: Node, text: Node) -> Node:
    pattern = pattern_of(name, text)

    def run(data: Data) -> Data:
        if isinstance(data, pa.Scalar):
            return pa.scalar(None if data.as_py() is None else data.as_py().find(pattern) + 1, _INT)
        before = pc.list_element(pc.split_pattern(data, pattern, max_splits=1), 0)
        found = pc.match_substring(data, pattern)
        return pc.if_else(found, pc.add(pc.utf8_length(before), pa.scalar(1, _INT)), pa.scalar(0, _INT))

    if not pattern:
        return node(
            _INT,
            lambda data: pc.if_else(pc.is_valid(data), pa.scalar(1, _INT), pa.scalar(None, _INT)),
            text_of(name, arg),
        )
    return node(_INT, run, text_of(name, arg))


@function("strings", "instr", "instr(a, 'text')", 2, _LITERAL)
def _instr(arg: Node, text: Node) -> Node:
    return _position("instr", arg, text)


@function("strings", "locate position charindex", "locate('text', a), position('text' IN a)", 2, _LITERAL)
def _locate(text: Node, arg: Node) -> Node:
    return _position("locate", arg, text)


def _like_regex(pattern: str, escape: str) -> str:
    """Return the regular expression of a LIKE pattern.

    >>> _like_regex("a%_", "!")
    '(?s)^a.*.$'
    """
    found, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, "")
            if following not in ("_", "%", escape) or not following:
                raise InvalidExpressionError(
                    f"LIKE pattern {pattern!r} has the escape character {escape!r} before {following!r}; it may stand "
                    "only before _, % or itself. The expression was not compiled."
                )
            found.append(re.escape(following))
        else:
            found.append({"%": ".*", "_": "."}.get(letter) or _quoted(letter))
    return f"(?s)^{''.join(found)}$"


def _quoted(letter: str) -> str:
    return letter if letter.isalnum() or ord(letter) > 127 else f"\\x{{{ord(letter):x}}}"


def _like(name: str, arg: Node, pattern: Node, escape: Node, uncased: bool) -> Node:
    text = pattern_of(name, pattern)
    regex = _like_regex(text.lower() if uncased else text, str(escape.literal))
    value = lower(arg) if uncased else text_of(name, arg)
    return node(_BOOLEAN, lambda data: _matches(data, regex), value)


def _matches(data: Data, regex: str) -> Data:
    plain = re.fullmatch(r"\(\?s\)\^(\.\*)?((?:[A-Za-z0-9 ])*)(\.\*)?\$", regex)
    if plain is None:
        return pc.match_substring_regex(data, regex)
    start, text, end = plain.groups()
    if start and end:
        return pc.match_substring(data, text)
    return (pc.ends_with if start else pc.starts_with if end else pc.equal)(data, text)


@function("strings", "like", "a [NOT] LIKE 'pattern' [ESCAPE 'c']", 3, "The pattern must be a literal.")
def _like_cased(arg: Node, pattern: Node, escape: Node) -> Node:
    return _like("like", arg, pattern, escape, False)


@function("strings", "ilike", "a [NOT] ILIKE 'pattern' [ESCAPE 'c']", 3, "The pattern must be a literal.")
def _like_uncased(arg: Node, pattern: Node, escape: Node) -> Node:
    return _like("ilike", arg, pattern, escape, True)
