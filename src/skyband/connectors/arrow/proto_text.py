"""Reads Protobuf schemas in their text form (.proto): messages and enums, with what decides how values are stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ProtoEnum", "ProtoField", "ProtoFile", "ProtoMessage", "ProtoTextError", "parse_proto", "unescaped"]

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>\.?[A-Za-z_][\w.]*)
    |(?P<number>[0-9][\w.]*(?:(?<=[eE])[+-][0-9]+)?|\.[0-9]\w*)
    |(?P<sign>[{}\[\]()<>;:,=+/-])""",
    re.VERBOSE | re.DOTALL,
)
_LABELS = ("optional", "required", "repeated")
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_DEEPEST = 32  # messages inside each other


class ProtoTextError(Exception):
    """A text is not a Protobuf schema. The message is the reason."""


class ProtoField(NamedTuple):
    """A field of a message."""

    name: str
    number: int
    type: str  # as written: a scalar type, or the name of a message or enum; map for maps
    label: str = ""  # optional, required, repeated or none
    oneof: str = ""
    default: str | None = None
    presence: str = ""  # features.field_presence, in editions


class ProtoEnum(NamedTuple):
    """An enum: its full name, and the name of each value by number, in order."""

    name: str
    values: dict[int, str]
    is_closed: bool  # whether numbers without a name are ignored


class ProtoMessage(NamedTuple):
    """A message type: its full name, its fields, and the types inside it, in order."""

    name: str
    fields: list[ProtoField]
    messages: list[ProtoMessage]
    enums: list[ProtoEnum]


class ProtoFile(NamedTuple):
    """A schema."""

    has_presence: bool  # whether fields without a label can be absent
    package: str
    imports: list[str]
    messages: list[ProtoMessage]
    enums: list[ProtoEnum]


def parse_proto(text: str) -> ProtoFile:
    """Return the messages and enums of a schema; raise ProtoTextError if it is not one.

    >>> found = parse_proto('syntax = "proto3"; package shop; message Sale { double price = 1; }')
    >>> found.messages[0].name, found.messages[0].fields[0].type
    ('shop.Sale', 'double')
    """
    return _Parser(text).file()


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise ProtoTextError(f"line {line} contains {text[at]!r}, which is not part of a Protobuf schema")
        if found.lastgroup:
            yield found[0]
        at = found.end()


class _Parser:
    def __init__(self, text: str) -> None:
        self._left = list(_tokens(text))
        self._left.reverse()
        self._syntax, self._presence, self._closed = "proto2", True, True

    def file(self) -> ProtoFile:
        package, imports = "", list[str]()
        messages, enums = list[ProtoMessage](), list[ProtoEnum]()
        while self._left:
            word = self._next()
            if word in ("syntax", "edition"):
                self._expect("=")
                self._set_syntax(_unquoted(self._next()))
                self._expect(";")
            elif word == "package":
                package = self._next()
                self._expect(";")
            elif word == "import":
                path = self._next()
                imports.append(_unquoted(self._next() if path in ("public", "weak") else path))
                self._expect(";")
            elif word == "option":
                name, value = self._option()
                self._feature(name, value)
                self._expect(";")
            elif word == "message":
                messages.append(self._message(package, 0))
            elif word == "enum":
                enums.append(self._enum(package))
            elif word in ("service", "extend"):
                self._skip_block()
            elif word != ";":
                raise ProtoTextError(f"it contains {word!r} where a message, an enum or an option is expected")
        return ProtoFile(self._presence, package, imports, messages, enums)

    def _set_syntax(self, value: str) -> None:
        if value not in ("proto2", "proto3", "2023", "2024"):
            raise ProtoTextError(f"its syntax {value!r} is not proto2, proto3 or an edition up to 2024")
        self._syntax = value
        self._presence, self._closed = value != "proto3", value == "proto2"

    def _feature(self, name: str, value: str) -> None:
        if name == "features.field_presence":
            self._presence = value != "IMPLICIT"
        if name == "features.enum_type":
            self._closed = value == "CLOSED"

    def _message(self, space: str, depth: int) -> ProtoMessage:  # noqa: C901 - a case for each kind of statement
        if depth > _DEEPEST:
            raise ProtoTextError(f"its messages are nested more than {_DEEPEST} times")
        name = _full(space, self._next())
        found = ProtoMessage(name, [], [], [])
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "message":
                found.messages.append(self._message(name, depth + 1))
            elif word == "enum":
                found.enums.append(self._enum(name))
            elif word == "oneof":
                self._oneof(found)
            elif word in ("reserved", "extensions"):
                self._skip_to(";")
            elif word == "option":
                self._option()
                self._expect(";")
            elif word == "extend":
                self._skip_block()
            elif word != ";":
                found.fields.append(self._field(word))
        numbers = [field.number for field in found.fields]
        if len(set(numbers)) < len(numbers):
            raise ProtoTextError(f"message {name!r} has two fields with the same number")
        return found

    def _oneof(self, message: ProtoMessage) -> None:
        oneof = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._option()
                self._expect(";")
            elif word != ";":
                message.fields.append(self._field(word)._replace(oneof=oneof))

    def _field(self, word: str) -> ProtoField:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "group":
            raise ProtoTextError("it has a group, which is not supported; use a message")
        if kind == "map":
            self._skip_to(">")
            label = "repeated"
        name = self._next()
        self._expect("=")
        number = self._number(self._next())
        default, presence = None, ""
        if self._left and self._left[-1] == "[":
            self._next()
            while True:
                option, value = self._option()
                default = value if option == "default" else default
                presence = value if option == "features.field_presence" else presence
                if (after := self._next()) == "]":
                    break
                if after != ",":
                    raise ProtoTextError(f"options of field {name!r} do not end")
        self._expect(";")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not 0 < number < 1 << 29:
            raise ProtoTextError(f"field {name!r} has no valid name and number")
        return ProtoField(name, number, kind, label, "", default, presence)

    def _enum(self, space: str) -> ProtoEnum:
        name, closed = _full(space, self._next()), self._closed
        values = dict[int, str]()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                option, value = self._option()
                closed = value == "CLOSED" if option == "features.enum_type" else closed
                self._expect(";")
            elif word == "reserved":
                self._skip_to(";")
            elif word != ";":
                self._expect("=")
                sign = self._next()
                number = -self._number(self._next()) if sign == "-" else self._number(sign)
                values.setdefault(number, word)
                if self._next() == "[":
                    self._skip_to("]")
                    self._expect(";")
        if not values:
            raise ProtoTextError(f"enum {name!r} has no values")
        return ProtoEnum(name, values, closed)

    def _option(self) -> tuple[str, str]:
        """Read an option, and return its name and its value; a value in braces is skipped."""
        name = ""
        while (word := self._next()) != "=":
            name += word
        value = self._next()
        if value in ("{", "["):
            self._skip_to({"{": "}", "[": "]"}[value])
        elif value in ("-", "+"):
            value += self._next()
        else:
            while (
                value[:1] in "\"'" and self._left and self._left[-1][:1] in ('"', "'")
            ):  # texts that follow each other
                value = f'"{value[1:-1]}{self._next()[1:-1]}"'
        return name, value

    def _skip_block(self) -> None:
        while (word := self._next()) != "{":
            if word == ";":
                return
        self._skip_to("}")

    def _skip_to(self, end: str) -> None:
        """Skip up to a sign, over pairs of braces and brackets."""
        while (word := self._next()) != end:
            if word in ("{", "["):
                self._skip_to({"{": "}", "[": "]"}[word])

    def _next(self) -> str:
        if not self._left:
            raise ProtoTextError("it is cut off")
        return self._left.pop()

    def _expect(self, sign: str) -> None:
        if (found := self._next()) != sign:
            raise ProtoTextError(f"it contains {found!r} where {sign!r} is expected")

    def _number(self, word: str) -> int:
        try:
            return int(word, 0) if not re.fullmatch(r"0[0-7]+", word) else int(word, 8)
        except ValueError:
            raise ProtoTextError(f"it contains {word!r} where a number is expected") from None


def _full(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


def _unquoted(text: str) -> str:
    if text[:1] not in ('"', "'") or text[-1:] != text[:1]:
        raise ProtoTextError(f"it contains {text!r} where a text in quotes is expected")
    return unescaped(text)


def unescaped(text: str) -> str:
    r"""Return the text of a literal in quotes.

    >>> unescaped('"a\\n\\x41"') == "a\nA"
    True
    """
    return re.sub(
        r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)",
        lambda found: (
            chr(int(found[1][1:], 16))
            if found[1][0] == "x" and len(found[1]) > 1
            else chr(int(found[1], 8))
            if found[1][0] in "01234567"
            else _SHORT_ESCAPES.get(found[1], found[1])
        ),
        text[1:-1],
    )
