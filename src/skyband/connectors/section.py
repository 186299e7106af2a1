"""What the sections of a workload file have in common: their keys are checked one by one and together, in our words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails

from skyband.connectors.values import refused

__all__ = ["Section", "Wording", "Wrong", "among", "nearest", "shown", "worded"]

Wrong = Iterator[tuple[str | tuple[str, ...], str]]  # a key, or a key and one below it, and what is wrong with it
Loc = tuple[str | int, ...]


class Section(BaseModel):
    """A part of the file with keys: unknown ones are refused, and a file that was read does not change.

    All that is wrong with a section is told at once: what pydantic finds wrong with single keys, and what `rules` find
    wrong with keys together. Validated with a dictionary as context, it is noted there under the `id` of what it was
    made from, so that a section without problems need not be validated again where another section has some.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    other_names: ClassVar[Mapping[str, str]] = {}  # what people write who know a key by another name
    missing: ClassVar[Mapping[str, str]] = {}  # by key: what to do where it is missing or empty

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """What keys ask of each other; checked on what was written, whether or not each key is right by itself."""
        yield from ()

    @classmethod
    def needed_keys(cls) -> list[str]:
        """The keys that the section must have."""
        return [name for name, field in cls.model_fields.items() if field.is_required()]

    @classmethod
    def known_keys(cls) -> Iterable[str]:
        """The keys that may be suggested."""
        return cls.model_fields

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """The message for a key that the section has not."""
        if name == "<<":
            return "merging is not part of YAML any more; write the keys out."
        near = cls.other_names.get(name.lower()) or nearest(name, cls.known_keys())
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(cls.known_keys())}."
        return f"there is no such key; {hint}"

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
        if () in wrong:  # what a rule says about the whole section is not repeated for each key that is missing
            wrong = {loc: why for loc, why in wrong.items() if loc not in missing}
        if made is None or wrong:
            details = [InitErrorDetails(type=refused(why), loc=loc, input=value) for loc, why in wrong.items()]
            raise ValidationError.from_exception_data(cls.__name__, details, hide_input=True)
        if isinstance(info.context, dict):
            info.context[id(value)] = made
        return made


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
