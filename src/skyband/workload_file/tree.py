"""Parse YAML into plain values with their places in the file. No Python objects are constructed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

__all__ = ["DEEPEST", "LARGEST", "Loc", "Place", "Spot", "YamlTree", "plain", "read_tree", "spelled"]

LARGEST = 1_000_000  # bytes of a file
DEEPEST = 16  # levels of nesting; the keys need five
_DIGITS = 400  # of a number; longer ones are text
MOST = 50_000  # values that aliases repeat

Loc = tuple[str | int, ...]
Scalar = str | int | float | bool | None
_TAG = "tag:yaml.org,2002:"


class Place(NamedTuple):
    """A line and a column, both from 1 on."""

    line: int
    column: int


class Spot(NamedTuple):
    """A problem at a place; the key can be empty."""

    place: Place
    loc: Loc
    message: str


@dataclass
class YamlTree:
    """Values of a file, their places, their original text, and the problems of the YAML."""

    value: Any = None
    places: dict[Loc, Place] = field(default_factory=dict)
    written: dict[Loc, str] = field(default_factory=dict)  # scalars with an environment variable
    wrong: list[Spot] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    """Composes nodes only. Types are those of YAML 1.2, so `no` and `2024-01-01` are text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as in the base class
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(
                problem=f"values are nested more than {DEEPEST} levels deep",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", "~nN"),
):
    for _letter in [*_first, *([""] if _kind == "null" else [])]:
        _entry = (_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"))
        _Loader.yaml_implicit_resolvers.setdefault(_letter, []).append(_entry)


def read_tree(text: str, substitute: Callable[[str, Loc], str]) -> YamlTree:
    r"""Read YAML; `substitute` is called for each scalar value that contains ``${``.

    `substitute` raises ValueError, with the reason, for a variable without a value.

    >>> tree = read_tree("queries:\n  - k: 10\n", lambda text, loc: text)
    >>> tree.value, tree.places["queries", 0, "k"]
    ({'queries': [{'k': 10}]}, Place(line=2, column=5))
    """
    tree = YamlTree(places={(): Place(1, 1)})
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is not None:
            tree.value = _Builder(tree, substitute).build(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        tree.wrong.append(Spot(place, (), _syntax(error, text, place)))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        found = error.character if isinstance(error.character, int) else ord(error.character)
        tree.wrong.append(Spot(Place(line, column), (), f"the character U+{found:04X} is not allowed in YAML."))
    return tree


def plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar.

    >>> plain("10"), plain("true"), plain("10 minutes"), plain("")
    (10, True, '10 minutes', None)
    """
    for tag, pattern in _Loader.yaml_implicit_resolvers.get(text[:1], []):
        if pattern.match(text):
            return _typed(tag, text)
    return text


def spelled(loc: Loc) -> str:
    """Format a location as users write it.

    >>> spelled(("queries", 1, "slide")), spelled(("engine", "settings", "spark.ui.enabled"))
    ('queries[1].slide', 'engine.settings.spark.ui.enabled')
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


class _Builder:
    def __init__(self, tree: YamlTree, substitute: Callable[[str, Loc], str]) -> None:
        self.tree = tree
        self.substitute = substitute
        self._built = set[int]()  # nodes
        self.count = 0  # values that were built before

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        self.count += id(node) in self._built
        self._built.add(id(node))
        if self.count > MOST or len(loc) > DEEPEST:  # an alias can contain itself
            raise yaml.MarkedYAMLError(
                problem=f"aliases expand to more than {MOST} values or {DEEPEST} levels", problem_mark=node.start_mark
            )
        self.tree.places.setdefault(loc, _place(node))
        if not node.tag.startswith(_TAG) or node.tag.removeprefix(_TAG) not in _KINDS:
            self.wrong(
                self.tree.places[loc],
                loc,
                f"the tag {_short(node.tag)} is not supported; write plain text, numbers and lists.",
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return dict(self.entries(node, loc))
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*loc, number)) for number, item in enumerate(node.value)]
        return self.scalar(node, loc)

    def entries(self, node: yaml.MappingNode, loc: Loc) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value.strip():
                self.wrong(_place(key), loc, "a key must be a single word, got an empty key, a list or a mapping.")
                continue
            name, place = _whole(key.value), _place(key)
            if name in seen:
                self.wrong(place, (*loc, name), f"is a duplicate key; the first is on line {seen[name]}.")
                continue
            seen[name] = place.line
            self.tree.places[(*loc, name)] = place
            yield name, self.build(value, (*loc, name))

    def scalar(self, node: yaml.Node, loc: Loc) -> Scalar:
        text = _whole(node.value)
        if "${" in text:
            try:
                filled = self.substitute(text, loc)
            except ValueError as error:
                self.wrong(self.tree.places[loc], loc, str(error))
                return None
            self.tree.written[loc] = text
            if isinstance(node, yaml.ScalarNode) and node.style is None and node.tag == _TAG + "str":
                return plain(filled)
            return filled
        try:
            return _typed(node.tag, text)
        except ValueError:
            self.wrong(self.tree.places[loc], loc, f"{text!r} does not match its tag {_short(node.tag)}.")
            return None

    def wrong(self, place: Place, loc: Loc, message: str) -> None:
        self.tree.wrong.append(Spot(place, loc, message))


_KINDS = {"str", "int", "float", "bool", "null", "map", "seq"}


def _typed(tag: str, text: str) -> Scalar:
    if len(text) > _DIGITS:
        return text
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0 if text[:2] in ("0x", "0o") else 10)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _whole(text: str) -> str:
    r"""Join surrogate pairs, as in JSON (\ud83d\ude00); replace a single surrogate."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _short(tag: str) -> str:
    return repr(tag.replace(_TAG, "!!"))


def _syntax(error: yaml.MarkedYAMLError, text: str, place: Place) -> str:
    """PyYAML's message, with a hint on the usual cause."""
    what = (error.problem or error.context or "syntax error").strip()
    line = text.splitlines()[place.line - 1] if place.line <= len(text.splitlines()) else ""
    if "\t" in line[: max(place.column, len(line) - len(line.lstrip()))]:
        hint = "indent with spaces, not with tabs"
    elif "${" in line and re.search(r"[{\[,].*\$\{", line):
        hint = "inside { } and [ ] put quotes around ${…}"
    elif "mapping values are not allowed" in what or "could not find expected ':'" in what:
        hint = "put quotes around text that contains ': ', and a space after the colon of a key"
    elif "expected <block end>" in what:
        hint = "the keys of a section must start in the same column"
    elif "cannot start any token" in what:
        hint = "put quotes around text that begins with one of @ ` % * & ! | >"
    elif "another document" in what:
        hint = "a workload file is one document; remove the line ---"
    elif "nested" in what or "expand" in what:
        hint = "a workload file needs five levels"
    elif "alias" in what or "anchor" in what:
        hint = "put quotes around text that begins with * or &"
    else:
        hint = "check for a missing closing quote or bracket above"
    return f"invalid YAML: {what}; {hint}."
