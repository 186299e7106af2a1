"""What pydantic finds wrong, in the words of this library: the value, what was expected, and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Protocol

from pydantic_core import ErrorDetails

__all__ = ["Wording", "among", "nearest", "shown", "worded"]

Loc = tuple[str | int, ...]


class Wording(Protocol):
    """What a section says about its own keys."""

    missing: Mapping[str, str]

    def unknown_key(self, name: str) -> str:
        """The message for a key that the section has not."""


def worded(error: ErrorDetails, section: Wording) -> str:  # noqa: PLR0911 - one message for each kind of error
    """The message for one of pydantic's errors about a section."""
    value, context, loc = error["input"], error.get("ctx", {}), error["loc"]
    match error["type"]:
        case "skyband":
            return str(context["why"])
        case "extra_forbidden":
            return section.unknown_key(str(loc[-1]))
        case "missing":
            return f"is missing; {section.missing.get(str(loc[-1]), 'give it a value')}."
        case "literal_error" | "enum":
            return among(value, re.findall(r"'([^']*)'", str(context["expected"])))
        case "greater_than_equal":
            return f"{shown(value)} must be at least {context['ge']}."
        case "less_than_equal":
            return f"{shown(value)} must be at most {context['le']}."
        case "string_pattern_mismatch":
            return _unfit_text(value, loc)
        case "too_short":
            return f"is empty; {section.missing.get(str(loc[-1]), 'give at least one, or leave the key out')}."
    return _wrong_kind(error["type"], value)


def among(value: object, known: Iterable[str]) -> str:
    """The message for a value that is none of those known.

    >>> among("fiels", ["files", "rate"])
    "'fiels' is none of files, rate; did you mean 'files'?"
    """
    names = list(known)
    near = nearest(value, names)
    return f"{shown(value)} is none of {', '.join(names)}{f'; did you mean {near!r}?' if near else '.'}"


def nearest(value: object, known: Iterable[str]) -> str | None:
    """The known name that comes closest, if any comes close.

    >>> nearest("Trades", ["trades", "quotes"]), nearest(7, ["trades"])
    ('trades', None)
    """
    names = {name.lower(): name for name in known}
    near = get_close_matches(value.lower(), names, n=1, cutoff=0.5) if isinstance(value, str) else []
    return names[near[0]] if near else None


def shown(value: object) -> str:
    """A value as a message shows it: short, and in the words of YAML.

    >>> shown("10 minutes"), shown(True), shown(None), shown([1])
    ("'10 minutes'", 'true', 'nothing', 'a list')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…'"


def _unfit_text(value: object, loc: Loc) -> str:
    if loc[-1] == "memory":
        return f"{shown(value)} is no amount of memory; write 4g or 512m."
    return "is empty text; give it a value, or leave the key out."


def _wrong_kind(kind: str, value: object) -> str:
    wanted = {
        "string_type": "text",
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "int_parsing": "a whole number",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "dict_type": "a mapping (lines of 'key: value')",
        "model_type": "a mapping (lines of 'key: value')",
        "model_attributes_type": "a mapping (lines of 'key: value')",
        "list_type": "a list (lines that begin with '- ')",
    }.get(kind)
    if wanted is None:
        return f"{shown(value)} does not fit here; skyband schema --keys lists what each key takes."
    fix = ""
    if wanted == "text" and isinstance(value, int | float):
        fix = f" Put quotes around it: '{shown(value)}'."
    elif isinstance(value, str) and _unquoted(value, wanted):
        fix = " Take the quotes away."
    elif wanted == "true or false" and isinstance(value, str) and value.lower() in ("yes", "on", "no", "off", "y", "n"):
        fix = f" Write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'}."
    return f"{shown(value)} is here, but {wanted} is expected.{fix}"


def _unquoted(value: str, wanted: str) -> bool:
    return bool(re.fullmatch(r"[-+]?\d+", value) if wanted == "a whole number" else re.fullmatch("true|false", value))
