"""What a workload file may hold, for editors (JSON Schema) and for readers (a flat table), both out of the models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from skyband.workload_file.models import Document
from skyband.workload_file.paths import ENDING
from skyband.workload_file.query_models import KEYS, NEEDS
from skyband.workload_file.rules import FIELDS, NEEDED, OWN, STREAM_NAME
from skyband.workload_file.server_rules import SERVER_KEYS, SERVER_NEEDS

__all__ = ["Key", "keys", "schema"]

Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_VARIABLE: Schema = {
    "description": "Text with an environment variable in it: ${NAME} or ${NAME:-default}.",
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
}
_A_VARIABLE: Schema = {"$ref": "#/$defs/Variable"}
_EXAMPLE = {
    "streams": {"trades": {"path": "trades.csv", "time": "ts"}},
    "queries": [{"name": "big", "k": 10, "size": "10 minutes", "slide": "1 minute", "by": "price * shares"}],
}
_FILES = ["parquet", "jsonl", "csv"]
_SHOWN = ["terminal", "memory"]
_PREFIX = {"Stream": "streams.<name>.", "Query": "queries[].", "Sink": "sinks[].", "Engine": "engine."}


class Key(NamedTuple):
    """A key of a workload file, as a line of a table."""

    path: str
    type: str
    default: str | None
    description: str


def schema() -> Schema:
    """The JSON Schema (2020-12) of workload files.

    >>> sorted(schema()["properties"])
    ['engine', 'queries', 'sinks', 'streams']
    """
    made = Document.model_json_schema()
    sections: dict[str, Schema] = made["$defs"]
    for section in (made, *sections.values()):
        section.pop("title", None)
        section["properties"] = {
            name: _property(value, name in section.get("required", ())) for name, value in section["properties"].items()
        }
    made["properties"]["sinks"]["default"] = [{"type": "terminal"}]
    made["properties"]["engine"].pop("default")
    made["properties"]["streams"]["propertyNames"] = {"pattern": STREAM_NAME}
    sections["Stream"]["allOf"] = [_for_source(source) for source in NEEDED]
    sections["Query"] |= {
        "if": _given("sql"),
        "then": _absent(FIELDS),
        "else": {"allOf": [_for_type(kind) for kind in KEYS]},
    }
    sections["Sink"] |= {
        "if": {"properties": {"type": {"enum": _FILES}}},
        "then": _given("path"),
        "else": {"if": {"properties": {"type": {"enum": _SHOWN}}}, "then": _absent(["path"])},
        "allOf": [
            *(_for_server(kind) for kind in SERVER_KEYS),
            _for_no_server(),
            {"if": {"properties": {"type": {"not": {"const": "csv"}}}}, "then": _absent(["formulas"])},
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Skyband workload file",
        **{key: made[key] for key in ("description", "type", "properties", "required", "additionalProperties")},
        "examples": [_EXAMPLE],
        "$defs": {**sections, "Variable": _VARIABLE},
    }


def keys() -> list[Key]:
    """All keys of a workload file, in the order they are usually written.

    >>> keys()[0]
    Key(path='streams', type='mapping', default=None, description='Streams by name; at least one.')
    """
    made = schema()
    found = []
    for name, section in zip(made["properties"], ("Stream", "Query", "Sink", "Engine"), strict=True):
        found.append(_key(name, made["properties"][name]))
        found += [_key(_PREFIX[section] + key, value) for key, value in made["$defs"][section]["properties"].items()]
    return found


def _property(value: Schema, needed: bool) -> Schema:
    """A key's schema: a key without a value is a key left out, and a variable may stand for what is no text."""
    value = {key: item for key, item in value.items() if key != "title"}
    kinds = value.pop("anyOf") if "anyOf" in value else [_take_kind(value)]
    kinds = [_with_variables(part) for kind in kinds if kind != _NULL for part in kind.get("anyOf", [kind])]
    if any(_is_narrow(kind) for kind in kinds):
        kinds.append(_A_VARIABLE)
    if not needed:
        kinds.append(_NULL)
    if value.get("default", ...) is None:
        del value["default"]
    described = {key: value.pop(key) for key in ("description",) if key in value}
    return {**described, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **value}


def _with_variables(kind: Schema) -> Schema:
    """The same with variables for what stands in a list or a mapping."""
    for place in ("items", "additionalProperties"):
        inner = kind.get(place)
        if isinstance(inner, dict) and inner:
            inner = _with_variables(inner)
            kind = {**kind, place: {"anyOf": [inner, _A_VARIABLE]} if _is_narrow(inner) else inner}
    return kind


def _take_kind(value: Schema) -> Schema:
    """What a schema says about the value, apart from what it says to the reader."""
    return {key: value.pop(key) for key in list(value) if key not in ("description", "examples", "default")}


def _is_narrow(kind: Schema) -> bool:
    text_of_any_kind = kind.get("type") == "string" and kind.get("pattern", r"\S") == r"\S" and "enum" not in kind
    return (
        not text_of_any_kind
        and kind.get("type") not in ("object", "array", ["string", "number", "boolean"])
        and ("$ref" not in kind)
    )


def _for_source(source: str) -> Schema:
    foreign = sorted({key for keys_ in OWN.values() for key in keys_} - set(OWN[source]))
    then = [_given(*NEEDED[source]), _absent(foreign)]
    if source == "files":
        told = {"properties": {"path": {"type": "string", "pattern": rf"\$\{{|{ENDING}"}}}
        then.append({"if": told, "else": _given("format")})
        then.append({"properties": {"format": {"not": {"const": "text"}}}})
    if source == "socket":
        then.append({"properties": {"format": {"not": {"enum": ["parquet", "text"]}}}})
    if source == "kafka":
        then.append({"properties": {"format": {"not": {"const": "parquet"}}}})
        then.append(
            {"if": {"properties": {"format": {"const": "text"}}}, "then": _absent(["schema"]), "else": _given("schema")}
        )
        then.append({"if": _given("topic"), "then": _absent(["topic_pattern"]), "else": _given("topic_pattern")})
    return {"if": _is("source", source, default="files"), "then": {"allOf": then}}


def _for_type(kind: str) -> Schema:
    foreign = sorted({key for keys_ in KEYS.values() for key in keys_} - set(KEYS[kind]))
    then = {"allOf": [_given(*NEEDS[kind]), _absent(foreign)]}
    return {"if": _is("type", kind, default="topk"), "then": then}


def _for_server(kind: str) -> Schema:
    foreign = {key for keys_ in SERVER_KEYS.values() for key in keys_} - set(SERVER_KEYS[kind])
    then: list[Schema] = [_given(*SERVER_NEEDS[kind]), _absent(sorted({*foreign, "path"}))]
    if kind == "redis":
        then.append({"properties": {"output": {"not": {"const": "changes"}}}})
    return {"if": {"properties": {"type": {"const": kind}}}, "then": {"allOf": then}}


def _for_no_server() -> Schema:
    servers = sorted({key for keys_ in SERVER_KEYS.values() for key in keys_})
    return {"if": {"properties": {"type": {"enum": [*_FILES, *_SHOWN]}}}, "then": _absent(servers)}


def _is(key: str, value: str, *, default: str) -> Schema:
    """Whether a key has this value, or is left out where that means the same."""
    if value == default:
        return {"properties": {key: {"enum": [value, None]}}}
    return {"properties": {key: {"const": value}}, "required": [key]}


def _given(*names: str) -> Schema:
    return {"required": list(names), "properties": {name: {"not": _NULL} for name in names}}


def _absent(names: Iterable[str]) -> Schema:
    return {"properties": dict.fromkeys(names, _NULL)}


def _key(path: str, value: Schema) -> Key:
    default = value.get("default")
    shown = default if isinstance(default, str) else None if default in (None, {}) else json.dumps(default)
    return Key(path, _spelled(value), shown, value["description"])


def _spelled(value: Schema) -> str:
    """What a key takes, in a few words."""
    if "anyOf" in value:
        kinds = [_spelled(kind) for kind in value["anyOf"] if kind != _NULL and "Variable" not in kind.get("$ref", "")]
        return " | ".join(dict.fromkeys(kinds))
    if "enum" in value:
        return " | ".join(value["enum"])
    if value.get("type") == "string" and "[A-Za-z]+" in value.get("pattern", ""):
        return "duration"
    if isinstance(value.get("type"), list):
        return "text | number | true | false"
    if value.get("type") == "array":
        return f"list of {_spelled(value['items'])}"
    names = {"string": "text", "integer": "whole number", "boolean": "true | false"}
    return names.get(value.get("type", ""), "mapping")
