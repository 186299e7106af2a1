"""As much of JSON Schema 2020-12 as the published schema uses, written after the specification; anything else fails."""

from __future__ import annotations

import re

from skyband.workload_file import schema

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": int | float,
}
NOTES = {"$schema", "title", "description", "examples", "default", "$defs", "then", "else"}


def errors(value):
    """What is wrong with a value by the published schema, as texts."""
    root = schema()
    return list(check(value, root, root, "$"))


def check(value, rule, root, at):  # noqa: C901, PLR0912, PLR0915 - one branch for each keyword
    for word, wanted in rule.items():
        match word:
            case "$ref":
                yield from check(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, at)
            case "type":
                if not any(is_of(value, name) for name in ([wanted] if isinstance(wanted, str) else wanted)):
                    yield f"{at}: not {wanted}"
            case "enum":
                if not any(same(value, one) for one in wanted):
                    yield f"{at}: not one of {wanted}"
            case "const":
                if not same(value, wanted):
                    yield f"{at}: not {wanted}"
            case "pattern":
                if isinstance(value, str) and not re.search(wanted, value):
                    yield f"{at}: does not match {wanted}"
            case "minimum":
                if is_of(value, "number") and value < wanted:
                    yield f"{at}: too small"
            case "maximum":
                if is_of(value, "number") and value > wanted:
                    yield f"{at}: too large"
            case "exclusiveMinimum":
                if is_of(value, "number") and value <= wanted:
                    yield f"{at}: too small"
            case "maxItems":
                if isinstance(value, list) and len(value) > wanted:
                    yield f"{at}: too many"
            case "minItems":
                if isinstance(value, list) and len(value) < wanted:
                    yield f"{at}: too few"
            case "minProperties":
                if isinstance(value, dict) and len(value) < wanted:
                    yield f"{at}: too few"
            case "uniqueItems":
                if isinstance(value, list) and len({repr(item) for item in value}) < len(value):
                    yield f"{at}: not unique"
            case "items":
                for number, item in enumerate(value if isinstance(value, list) else []):
                    yield from check(item, wanted, root, f"{at}[{number}]")
            case "properties":
                for name, item in value.items() if isinstance(value, dict) else []:
                    if name in wanted:
                        yield from check(item, wanted[name], root, f"{at}.{name}")
            case "additionalProperties":
                for name, item in value.items() if isinstance(value, dict) else []:
                    if name not in rule.get("properties", {}):
                        yield from (
                            [f"{at}.{name}: unknown"] if wanted is False else check(item, wanted, root, f"{at}.{name}")
                        )
            case "propertyNames":
                for name in value if isinstance(value, dict) else []:
                    yield from check(name, wanted, root, f"{at}.{name}")
            case "required":
                for name in wanted if isinstance(value, dict) else []:
                    if name not in value:
                        yield f"{at}.{name}: missing"
            case "anyOf":
                if all(any(check(value, one, root, at)) for one in wanted):
                    yield f"{at}: fits nothing"
            case "allOf":
                for one in wanted:
                    yield from check(value, one, root, at)
            case "not":
                if not any(check(value, wanted, root, at)):
                    yield f"{at}: must not be so"
            case "if":
                fits = not any(check(value, wanted, root, at))
                yield from check(value, rule.get("then" if fits else "else", {}), root, at)
            case _:
                assert word in NOTES, word


def is_of(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def same(one, other):
    return type(one) is type(other) and one == other
