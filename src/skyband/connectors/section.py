"""The base class of all workload-file sections: validates keys one by one and in combination, with our messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails

from skyband.connectors.values import refused

__all__ = ["Section", "Wording", "Wrong", "among", "nearest", "shown", "worded"]

Wrong = Iterator[tuple[str | tuple[str, ...], str]]  # a key, or a key and a nested key, and the problem with it
Loc = tuple[str | int, ...]


class Section(BaseModel):
    """A mapping in a workload file. Unknown keys are rejected; instances are immutable.

    All problems of a section are reported together: those that pydantic finds in single keys, and those that `rules`
    find in combinations of keys. If the validation context is a dictionary, a valid section is stored there under the
    `id` of its input. It then need not be validated again when another section has problems.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    other_names: ClassVar[Mapping[str, str]] = {}  # alternative name → the key to suggest
    missing: ClassVar[Mapping[str, str]] = {}  # by key: what to do if it is missing or empty

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Yield problems with combinations of keys. Runs on the raw input, even if single keys are invalid."""
        yield from ()

    @classmethod
    def needed_keys(cls) -> list[str]:
        """Return the required keys."""
        return [name for name, field in cls.model_fields.items() if field.is_required()]

    @classmethod
    def known_keys(cls) -> Iterable[str]:
        """Return the keys that error messages may suggest."""
        return cls.model_fields

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """Return the message for an unknown key."""
        if name == "<<":
            return "merge keys (<<) are not supported; write the keys out."
        near = cls.other_names.get(name.lower()) or nearest(name, cls.known_keys())
        hint = f"did you mean {near!r}?" if near else f"known keys: {', '.join(cls.known_keys())}."
        return f"unknown key; {hint}"

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        made, wrong, missing = None, dict[Loc, str](), set[Loc]()
        try:
            made = handler(value)
        except ValidationError as error:
            for one in error.errors(include_url=False):
                wrong.setdefault(one["loc"], worded(one, cls))
                if one["type"] == "missing":
                    missing.add(one["loc"])
        for key, message in cls.rules(value) if isinstance(value, dict) else ():
            wrong.setdefault(tuple(filter(None, (key,) if isinstance(key, str) else key)), message)
        if () in wrong:  # a problem of the whole section already covers its missing keys
            wrong = {loc: why for loc, why in wrong.items() if loc not in missing}
        if made is None or wrong:
            details = [InitErrorDetails(type=refused(why), loc=loc, input=value) for loc, why in wrong.items()]
            raise ValidationError.from_exception_data(cls.__name__, details, hide_input=True)
        if isinstance(info.context, dict):
            info.context[id(value)] = made
        return made


class Wording(Protocol):
    """The messages that a section provides about its keys."""

    missing: Mapping[str, str]

    def unknown_key(self, name: str) -> str:
        """Return the message for an unknown key."""


def worded(error: ErrorDetails, section: Wording) -> str:  # noqa: PLR0911 - one message for each kind of error
    """Return our message for a pydantic error in a section."""
    value, context, loc = error["input"], error.get("ctx", {}), error["loc"]
    match error["type"]:
        case "skyband":
            return str(context["why"])
        case "extra_forbidden":
            return section.unknown_key(str(loc[-1]))
        case "missing":
            return f"is missing; {section.missing.get(str(loc[-1]), 'set a value')}."
        case "literal_error" | "enum":
            return among(value, re.findall(r"'([^']*)'", str(context["expected"])))
        case "greater_than_equal":
            return f"must be at least {context['ge']}, got {shown(value)}."
        case "less_than_equal":
            return f"must be at most {context['le']}, got {shown(value)}."
        case "string_pattern_mismatch":
            return _invalid_text(value, loc)
        case "too_short":
            return f"is empty; {section.missing.get(str(loc[-1]), 'list at least one entry or omit the key')}."
    return _wrong_kind(error["type"], value)


def among(value: object, known: Iterable[str]) -> str:
    """Return the message for a value that is not one of the known values.

    >>> among("fiels", ["files", "rate"])
    "must be one of files, rate, got 'fiels'; did you mean 'files'?"
    """
    names = list(known)
    near = nearest(value, names)
    hint = f"; did you mean {near!r}?" if near else "."
    return f"must be one of {', '.join(names)}, got {shown(value)}{hint}"


def nearest(value: object, known: Iterable[str]) -> str | None:
    """Return the most similar known name, or None if no name is similar.

    >>> nearest("Trades", ["trades", "quotes"]), nearest(7, ["trades"])
    ('trades', None)
    """
    names = {name.lower(): name for name in known}
    near = get_close_matches(value.lower(), names, n=1, cutoff=0.5) if isinstance(value, str) else []
    return names[near[0]] if near else None


def shown(value: object) -> str:
    """Format a value for a message: short, in YAML terms.

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


def _invalid_text(value: object, loc: Loc) -> str:
    if loc[-1] == "memory":
        return f"{shown(value)} is not a memory size; write 4g or 512m."
    return "must not be empty; set a value or omit the key."


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
        return f"{shown(value)} is not a valid value; `skyband schema --keys` lists the values of each key."
    fix = ""
    if wanted == "text" and isinstance(value, int | float):
        fix = f" Put quotes around it: '{shown(value)}'."
    elif isinstance(value, str) and _unquoted(value, wanted):
        fix = " Remove the quotes."
    elif wanted == "true or false" and isinstance(value, str) and value.lower() in ("yes", "on", "no", "off", "y", "n"):
        fix = f" Write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'}."
    return f"must be {wanted}, got {shown(value)}.{fix}"


def _unquoted(value: str, wanted: str) -> bool:
    return bool(re.fullmatch(r"[-+]?\d+", value) if wanted == "a whole number" else re.fullmatch("true|false", value))
