"""What the sections of a workload file have in common: their keys are checked one by one and together, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from skyband.connectors.messages import Loc, nearest, worded
from skyband.connectors.values import refused

__all__ = ["Section", "Wrong"]

Wrong = Iterator[tuple[str | tuple[str, ...], str]]  # a key, or a key and one below it, and what is wrong with it


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
