"""The format of workload files, generated from the models: a JSON Schema for editors and a flat table of keys."""

from __future__ import annotations

import json
from typing import NamedTuple

from skyband.connectors.kinds import NULL, Kind, Schema, absent, flat, flat_fields, given
from skyband.workload_file.models import Document, Sink, Stream
from skyband.workload_file.query_models import FamilyQuery
from skyband.workload_file.validation import STREAM_NAME

__all__ = ["Key", "keys", "schema"]

_VARIABLE: Schema = {
    "description": "Text with an environment variable: ${NAME} or ${NAME:-default}.",
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
}
_A_VARIABLE: Schema = {"$ref": "#/$defs/Variable"}
_EXAMPLE = {
    "streams": {"trades": {"path": "trades.csv", "time": "ts"}},
    "queries": [{"name": "big", "k": 10, "size": "10 minutes", "slide": "1 minute", "by": "price * shares"}],
}
_UNIONS: dict[str, type[Kind]] = {"Query": FamilyQuery, "Stream": Stream, "Sink": Sink}
_PREFIX = {"Stream": "streams.<name>.", "Query": "queries[].", "Sink": "sinks[].", "Engine": "engine."}


class Key(NamedTuple):
    """A key of a workload file."""

    path: str
    type: str
    default: str | None
    description: str


def schema() -> Schema:
    """The JSON Schema (2020-12) of workload files.

    >>> sorted(schema()["properties"])
    ['engine', 'queries', 'sinks', 'streams']
    """
    # The schema names the section Engine.
    made = json.loads(json.dumps(Document.model_json_schema()).replace("EngineSection", "Engine"))
    # Editors give better help for one flat section with conditions than for a union of many.
    parts = {name: flat(base, name).model_json_schema() for name, base in _UNIONS.items()}
    sections: dict[str, Schema] = {**made["$defs"], **parts}
    made["properties"]["streams"]["additionalProperties"] = {"$ref": "#/$defs/Stream"}
    made["properties"]["queries"]["items"] = {"$ref": "#/$defs/Query"}
    made["properties"]["sinks"]["items"] = {"$ref": "#/$defs/Sink"}
    for section in (made, *sections.values()):
        section.pop("title", None)
        section["properties"] = {
            name: _property(value, name in section.get("required", ())) for name, value in section["properties"].items()
        }
    made["properties"]["sinks"]["default"] = [{"type": "terminal"}]
    made["properties"]["engine"].pop("default")
    made["properties"]["streams"]["propertyNames"] = {"pattern": STREAM_NAME}
    for name, base in _UNIONS.items():
        sections[name] |= _of_one_kind(base)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Skyband workload file",
        **{key: made[key] for key in ("description", "type", "properties", "required", "additionalProperties")},
        "examples": [_EXAMPLE],
        "$defs": {**sections, "Variable": _VARIABLE},
    }


def keys() -> list[Key]:
    """Return all keys of a workload file, in the usual order.

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
    """Schema of a key. An optional key can be null, and a value that is not free text can be a variable."""
    value = {key: item for key, item in value.items() if key != "title"}
    kinds = value.pop("anyOf") if "anyOf" in value else [_take_kind(value)]
    kinds = [_with_variables(part) for kind in kinds if kind != NULL for part in kind.get("anyOf", [kind])]
    if any(_is_narrow(kind) for kind in kinds):
        kinds.append(_A_VARIABLE)
    if not needed:
        kinds.append(NULL)
    if value.get("default", ...) is None:
        del value["default"]
    described = {key: value.pop(key) for key in ("description",) if key in value}
    return {**described, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **value}


def _with_variables(kind: Schema) -> Schema:
    """Allow variables in the items of a list or the values of a mapping."""
    for place in ("items", "additionalProperties"):
        inner = kind.get(place)
        if isinstance(inner, dict) and inner:
            inner = _with_variables(inner)
            kind = {**kind, place: {"anyOf": [inner, _A_VARIABLE]} if _is_narrow(inner) else inner}
    return kind


def _take_kind(value: Schema) -> Schema:
    """Remove and return the type constraints of a schema, without description, examples and default."""
    return {key: value.pop(key) for key in list(value) if key not in ("description", "examples", "default")}


def _is_narrow(kind: Schema) -> bool:
    text_of_any_kind = kind.get("type") == "string" and kind.get("pattern", r"\S") == r"\S" and "enum" not in kind
    return (
        not text_of_any_kind
        and kind.get("type") not in ("object", "array", ["string", "number", "boolean"])
        and ("$ref" not in kind)
    )


def _of_one_kind(base: type[Kind]) -> Schema:
    """Conditions on the keys of a section: those of its kind, or those of an untagged model."""
    made: Schema = {"allOf": [_for_kind(base, kind) for kind in base.kinds.values()]}
    for key, model in base.untagged.items():
        others = [name for name in flat_fields(base) if name not in model.model_fields]
        made = {"if": given(key), "then": absent(others), "else": made}
    return made


def _for_kind(base: type[Kind], kind: type[Kind]) -> Schema:
    """Required and excluded keys of a kind."""
    foreign = sorted({key for one in base.kinds.values() for key in one.model_fields} - set(kind.model_fields))
    then = [given(*kind.needed_keys()), absent(foreign), *kind.conditions]
    return {"if": _is(base.tag, kind.kind(), default=base.usual), "then": {"allOf": then}}


def _is(key: str, value: str, *, default: str) -> Schema:
    """Condition that a key has this value, or is missing if this is the default."""
    if value == default:
        return {"properties": {key: {"enum": [value, None]}}}
    return {"properties": {key: {"const": value}}, "required": [key]}


def _key(path: str, value: Schema) -> Key:
    default = value.get("default")
    shown = default if isinstance(default, str) else None if default in (None, {}) else json.dumps(default)
    return Key(path, _spelled(value), shown, value["description"])


def _spelled(value: Schema) -> str:
    """Type of a key, in words."""
    if "anyOf" in value:
        kinds = [_spelled(kind) for kind in value["anyOf"] if kind != NULL and "Variable" not in kind.get("$ref", "")]
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
