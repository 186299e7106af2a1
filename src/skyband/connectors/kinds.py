"""Sections with several kinds (sinks and queries by type, streams by source): one model each, in a tagged union."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import Discriminator, Tag, ValidationError, WithJsonSchema, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Section
from skyband.errors import InvalidInputError

__all__ = ["NULL", "Kind", "Schema", "absent", "flat", "flat_fields", "given", "union"]

Schema = dict[str, Any]

NULL: Schema = {"type": "null"}


def given(*names: str) -> Schema:
    """Return a JSON Schema that requires these keys. A key without a value counts as missing."""
    return {"required": list(names), "properties": {name: {"not": NULL} for name in names}}


def absent(names: Iterable[str]) -> Schema:
    """Return a JSON Schema in which these keys have no value."""
    return {"properties": dict.fromkeys(names, NULL)}


class Kind(Section):
    """A section with several kinds. The value of one key, the tag, selects the kind.

    A subclass with a default for the tag is a kind. Defining it registers it; there is no other list of kinds.
    """

    tag: ClassVar[str]  # the key that selects the kind
    usual: ClassVar[str] = ""  # the kind of a section without the tag
    kinds: ClassVar[dict[str, Any]]  # the models of all kinds, by name
    noun: ClassVar[str]  # what messages call such a section
    purpose: ClassVar[str]  # what the kind determines, for messages
    foreign: ClassVar[str]  # the message for a key of another kind
    untagged: ClassVar[Mapping[str, Any]] = {}  # sections without the tag, by the key that identifies them
    instead: ClassVar[Mapping[str, str]] = {}  # by key of another kind: the equivalent key of this kind
    foreign_keys: ClassVar[Mapping[str, str]] = {}  # the message for a key of this kind in a section of another kind
    conditions: ClassVar[tuple[Schema, ...]] = ()  # conditions on combinations of keys, for the published schema
    needs_kafka: ClassVar[bool] = False  # whether the session needs Spark's connector for Kafka
    secrets_rule: ClassVar[SecretsRule | None] = None  # None: options are not checked for secrets

    if not TYPE_CHECKING:  # type checkers know the keys of each model

        def __init__(self, /, **keys: Any) -> None:
            try:
                super().__init__(**keys)
            except ValidationError as error:
                wrong = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
                problems = " ".join(f"{loc}: {why}" if loc else why for loc, why in wrong)
                raise InvalidInputError(f"{self.noun.format(kind=self.kind())}: {problems}") from None

        # When a file is read, pydantic does not call this method, and collects the problems of all sections.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def __pydantic_init_subclass__(cls, **given: Any) -> None:
        """Register the kind."""
        super().__pydantic_init_subclass__(**given)
        if cls.kind():
            known = {**cls.kinds, cls.kind(): cls}
            cls.kinds.clear()  # by module, so that the order does not depend on which is loaded first
            cls.kinds.update(sorted(known.items(), key=lambda item: item[1].__module__))

    @classmethod
    def kind(cls) -> str:
        """Return the name of the kind; empty for a base class of several kinds."""
        field = cls.model_fields.get(getattr(cls, "tag", ""))
        return "" if field is None or field.default is PydanticUndefined else str(field.default)

    @classmethod
    def known_keys(cls) -> Iterable[str]:
        """Return the keys of all kinds, so that messages can suggest a key of another kind."""
        return flat_fields(next(one for one in cls.__mro__ if "kinds" in vars(one)))

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """Return the message for an unknown key, or for a key of another kind."""
        owners = [kind for kind in cls.kinds.values() if name in kind.model_fields]
        if not owners:
            return super().unknown_key(name)
        said = next((kind.foreign_keys[name] for kind in owners if name in kind.foreign_keys), cls.foreign)
        message = said.format(owners=" or ".join(kind.kind() for kind in owners), kind=cls.kind())
        return f"{message.removesuffix('.')}, which has {cls.instead[name]}." if name in cls.instead else message

    @classmethod
    def kind_of(cls, value: Any) -> str:
        """Return the kind of a raw value; empty if it does not name a known kind."""
        alone = next((key for key in cls.untagged if isinstance(value, dict) and key in value), "")
        if alone:
            return alone
        found = value.get(cls.tag, cls.usual) if isinstance(value, dict) else getattr(value, cls.tag, "")
        return found if isinstance(found, str) and found in cls.kinds else ""


def flat_fields(base: type[Kind]) -> dict[str, FieldInfo]:
    """Return the keys of all kinds: shared keys before the tag, the tag, keys of the kinds, remaining shared keys."""
    shared = list(base.model_fields)
    place = shared.index(base.tag)
    before, after = shared[:place], shared[place:]
    found = {name: base.model_fields[name] for name in before}
    for one in base.untagged.values():
        found |= {name: field for name, field in one.model_fields.items() if name not in shared}
    found[base.tag] = base.model_fields[base.tag]
    for kind in base.kinds.values():
        found |= {name: field for name, field in kind.model_fields.items() if name not in (*found, *after)}
    return found | {name: base.model_fields[name] for name in after}


@cache
def flat(base: type[Kind], name: str) -> type[Section]:
    """Return a model with the keys of all kinds: for the published schema, and for a section of unknown kind.

    A key that several kinds share accepts the same values in all of them.
    """
    fields: dict[str, Any] = {}
    for key, field in flat_fields(base).items():
        one = copy(field)
        annotation: Any = field.annotation
        if key == base.tag:
            annotation = Literal[tuple(base.kinds)]
            one.default = base.usual or PydanticUndefined
        elif field.is_required():
            annotation = (Annotated[annotation, *field.metadata] if field.metadata else annotation) | None
            one.default, one.metadata = None, []
        one.description = _described(base, key)
        one.examples = _examples(base, key) or None
        fields[key] = (annotation, one)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='Field name "schema"')
        made = create_model(name, __base__=Section, __doc__=base.__doc__, __module__=__name__, **fields)
    *others, last = base.kinds
    made.other_names = base.other_names
    made.missing = {base.tag: f"set {base.purpose}: {', '.join(others)} or {last}"}
    return made


def union(base: type[Kind], name: str) -> Any:
    """Return the union type of all kinds. `name` is the name of the model with the keys of all kinds."""
    kinds = [Annotated[kind, Tag(tag)] for tag, kind in base.kinds.items()]
    kinds += [Annotated[one, Tag(key)] for key, one in base.untagged.items()]
    members: Any = Union[(*kinds, Annotated[flat(base, name), Tag("")])]
    return Annotated[members, Discriminator(base.kind_of), WithJsonSchema({})]  # the flat model provides the schema


def _described(base: type[Kind], key: str) -> str:
    """Return the description of a key, with the names of its kinds; each description once."""
    if key in base.model_fields and key != base.tag:
        return str(base.model_fields[key].description)
    alone = next((one for one in base.untagged.values() if key in one.model_fields), None)
    if alone is not None:
        return str(alone.model_fields[key].description)
    said: dict[str, list[str]] = {}
    for name, kind in base.kinds.items():
        if key in kind.model_fields:
            said.setdefault(str(kind.model_fields[key].description), []).append(name)
    if key == base.tag:
        each = (f"{_listed(names)}: {text}" for text, names in said.items())
        return f"{base.model_fields[key].description} {'; '.join(each)}."
    if len(said) == 1 and list(base.kinds) in said.values():
        return next(iter(said))
    return " ".join(f"{_listed(names).capitalize()}: {text[0].lower()}{text[1:]}" for text, names in said.items())


def _examples(base: type[Kind], key: str) -> list[Any]:
    """Return the examples of all kinds, without duplicates."""
    owners = [base] if key in base.model_fields else [*base.kinds.values(), *base.untagged.values()]
    given = [one for kind in owners if key in kind.model_fields for one in kind.model_fields[key].examples or ()]
    return [one for place, one in enumerate(given) if one not in given[:place]]


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
