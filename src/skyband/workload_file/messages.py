"""What pydantic finds wrong, in the words of this library: the value, what was expected, and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from skyband.workload_file.models import Document, Engine, Sink, Stream
from skyband.workload_file.query_models import Query
from skyband.workload_file.section import Section
from skyband.workload_file.tree import Loc

__all__ = ["among", "nearest", "section_of", "shown", "taken", "worded"]

_SECTIONS: dict[str, type[Section]] = {"streams": Stream, "queries": Query, "sinks": Sink, "engine": Engine}
# What people write who know the thing by another name.
_OTHER_NAMES = {
    Stream: {
        "type": "source",
        "timestamp": "time",
        "url": "path",
        "file": "path",
        "folder": "path",
        "key": "id",
        "topics": "topic",
        "subscribe": "topic",
        "brokers": "servers",
        "bootstrap_servers": "servers",
        "bootstrap.servers": "servers",
        "offsets": "starting",
        "starting_offsets": "starting",
        "max_offsets_per_trigger": "rows_per_batch",
        "dead_letter": "dead_letters",
    },
    Query: {
        "window": "size",
        "range": "size",
        "step": "slide",
        "frequency": "every",
        "score": "by",
        "order_by": "by",
        "group_by": "partition_by",
        "groups": "partition_by",
        "filter": "where",
        "limit": "k",
        "top": "k",
        "query": "sql",
        "confidence": "probability",
        "family": "type",
    },
    Sink: {
        "format": "type",
        "folder": "path",
        "mode": "output",
        "address": "url",
        "host": "url",
        "dsn": "url",
        "password": "options",
        "sslmode": "options",
        "ttl": "expire",
        "key_prefix": "prefix",
        "brokers": "servers",
        "bootstrap_servers": "servers",
    },
    Engine: {"config": "settings", "conf": "settings", "state": "checkpoint"},
    Document: {"stream": "streams", "query": "queries", "sink": "sinks", "sources": "streams", "spark": "engine"},
}
_NEEDED = {
    "streams": "name at least one stream, with its source or path",
    "queries": "ask at least one query",
    "type": "say where answers go: terminal, parquet, jsonl, csv, memory, kafka, postgres or redis",
}


def worded(error: ErrorDetails) -> str:  # noqa: PLR0911 - one message for each kind of error
    """The message for one of pydantic's errors."""
    value, context, loc = error["input"], error.get("ctx", {}), error["loc"]
    match error["type"]:
        case "skyband":
            return str(context["why"])
        case "extra_forbidden":
            return _unknown_key(loc)
        case "missing":
            return f"is missing; {_NEEDED.get(str(loc[-1]), 'give it a value')}."
        case "literal_error" | "enum":
            return among(value, re.findall(r"'([^']*)'", str(context["expected"])))
        case "greater_than_equal":
            return f"{shown(value)} must be at least {context['ge']}."
        case "less_than_equal":
            return f"{shown(value)} must be at most {context['le']}."
        case "string_pattern_mismatch":
            return _unfit_text(value, loc)
        case "too_short":
            return f"is empty; {_NEEDED.get(str(loc[-1]), 'give at least one, or leave the key out')}."
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


def taken(name: str, line: int) -> str:
    """The message for a query's name that another query has."""
    return (
        f"{name!r} is the name of another query too (line {line}); answers are told apart by it. Give each query a "
        "name of its own."
    )


def section_of(loc: Loc) -> type[Section]:
    """The model whose keys stand at this place.

    >>> section_of(("queries", 0, "k")).__name__, section_of(("sinks",)).__name__
    ('Query', 'Document')
    """
    deep = 2 if loc[:1] == ("engine",) else 3
    return _SECTIONS.get(str(loc[0]), Document) if len(loc) >= deep else Document


def _unknown_key(loc: Loc) -> str:
    section, name = section_of(loc), str(loc[-1])
    if name == "<<":
        return "merging is not part of YAML any more; write the keys out."
    near = _OTHER_NAMES.get(section, {}).get(name.lower()) or nearest(name, section.model_fields)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(section.model_fields)}."
    return f"there is no such key; {hint}"


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
