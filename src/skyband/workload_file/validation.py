"""Validate a file's values against the models, and check rules across sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from skyband.connectors.secrets import has_literal_secret, is_secret, shown_address
from skyband.connectors.section import among, shown
from skyband.queries.workload import Workload
from skyband.workload_file.models import Document, Sink, Stream, has_one_shard, types_of
from skyband.workload_file.query_models import QuerySection
from skyband.workload_file.report import Report, taken
from skyband.workload_file.tree import Loc

__all__ = [
    "STREAM_NAME",
    "Sections",
    "check_families",
    "check_sinks",
    "checked",
    "sound_queries",
    "sound_streams",
    "top_of",
    "without_nulls",
]

STREAM_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
T = TypeVar("T")


def top_of(value: Any, report: Report) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if report.is_sound():
        what = "an empty file" if value is None else shown(value)
        report.add((), f"a workload file must have the keys streams and queries (optional: sinks, engine), got {what}.")
    report.finish()
    return {}


def without_nulls(raw: dict[str, Any]) -> dict[str, Any]:
    """Remove keys without a value; names chosen by the user (of streams) keep theirs."""

    def kept(section: Any) -> Any:
        return (
            {key: value for key, value in section.items() if value is not None}
            if isinstance(section, dict)
            else section
        )

    top: dict[str, Any] = kept(raw)
    for name, section in top.items():
        if name == "streams" and isinstance(section, dict):
            top[name] = {key: kept(value) for key, value in section.items()}
        elif isinstance(section, list):
            top[name] = [kept(item) for item in section]
        elif name == "engine":
            top[name] = kept(section)
    return top


class Sections(dict[int, Any]):
    """The valid sections of a file, by the `id` of their raw value.

    They are available if another section has problems, so no section is validated twice.
    """

    def of(self, raw: Any, kind: type[T]) -> T | None:
        """Return the model of a section; None if it has problems."""
        found = self.get(id(raw))
        return found if isinstance(found, kind) else None


def checked(raw: dict[str, Any], report: Report) -> tuple[Document | None, Sections]:
    """Validate the document with the models, then check names and secrets."""
    document, sections = None, Sections()
    try:
        document = Document.model_validate(raw, context=sections)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            report.add(_untagged(one["loc"]), one["msg"])
    _check_names(raw, report)
    _check_secrets(raw, report)
    return document, sections


def _untagged(loc: Loc) -> Loc:
    """Location of a key in the file. Pydantic adds the kind of the stream, query or sink before the key."""
    return loc if loc[:1] == ("engine",) else (*loc[:2], *loc[3:])


def sound_streams(raw: dict[str, Any], sections: Sections, report: Report) -> dict[str, Stream | None]:
    """Return the streams by name; None for a stream with problems, so that its queries can still be checked."""
    return {
        name: sections.of(stream, Stream) if report.is_sound("streams", name) else None
        for name, stream in _map(raw, "streams").items()
    }


def sound_queries(raw: dict[str, Any], sections: Sections, report: Report) -> dict[int, QuerySection]:
    """Return the valid entries under queries, by number."""
    found = {number: sections.of(query, QuerySection) for number, query in enumerate(_list(raw, "queries"))}
    return {
        number: query for number, query in found.items() if query is not None and report.is_sound("queries", number)
    }


def check_sinks(raw: dict[str, Any], found: Iterable[str], report: Report) -> None:
    """Check that sinks name existing queries and do not write to a topic that is read."""
    queries = [query for query in _list(raw, "queries") if isinstance(query, dict)]
    # The name of an invalid query counts. Invalid SQL can contain any names, so then nothing is checked.
    names = [*found, *(str(query.get("name", "topk")) for query in queries if "sql" not in query)]
    all_known = all(report.is_sound("queries", number) for number, query in enumerate(queries) if "sql" in query)
    topics = {(topic, name) for name, stream in _map(raw, "streams").items() for topic in _topics_of(stream)}
    for number, sink in enumerate(_list(raw, "sinks")):
        if not report.is_sound("sinks", number):
            continue
        for index, name in enumerate(sink.get("queries", ())):
            if all_known and name not in names:
                report.add(("sinks", number, "queries", index), among(name, dict.fromkeys(names)))
        _check_topic(number, sink, topics, report)


def check_families(raw: dict[str, Any], made: Mapping[str, Workload[Any]], report: Report) -> None:
    """Check settings that only some query types support: algorithm and shards."""
    algorithm = _map(raw, "engine").get("algorithm", "auto")
    kinds = {workload.family for workload in made.values()}
    if made and algorithm != "auto" and report.is_sound("engine") and kinds.isdisjoint(types_of(algorithm)):
        wanted = " or ".join(types_of(algorithm))
        report.add(
            ("engine", "algorithm"), f"{algorithm!r} supports only queries of type {wanted}, and the file has none."
        )
    shards = _map(raw, "engine").get("shards", 1)
    if made and shards != 1 and report.is_sound("engine") and all(map(has_one_shard, made.values())):
        report.add(
            ("engine", "shards"),
            f"{shards} is not supported: queries of type {' and '.join(kinds)} have one shard, unless all of them have "
            "partition_by. Remove the key.",
        )


def _check_topic(number: int, sink: dict[str, Any], topics: set[tuple[str, str]], report: Report) -> None:
    """Report a sink that writes to a topic that a stream reads; the clusters are not compared."""
    for topic, stream in sorted(topics):
        if sink.get("type") == "kafka" and sink.get("topic") == topic:
            report.add(
                ("sinks", number, "topic"),
                f"{topic!r} is read by stream {stream!r}, so answers would become input.",
            )


def _topics_of(stream: Any) -> list[str]:
    found = stream.get("topic") if isinstance(stream, dict) else None
    return [topic for topic in (found if isinstance(found, list) else [found]) if isinstance(topic, str)]


def _check_names(raw: dict[str, Any], report: Report) -> None:
    """Check that query names are unique, and stream names are valid and unique without regard to case."""
    queries: dict[str, Loc] = {}
    for number, query in enumerate(_list(raw, "queries")):
        name = query.get("name") if isinstance(query, dict) else None
        if isinstance(name, str) and queries.setdefault(name, ("queries", number)) != ("queries", number):
            report.add(("queries", number, "name"), taken(name, report.line_of((*queries[name], "name"))))
    streams: dict[str, str] = {}
    for name in _map(raw, "streams"):
        if not re.match(STREAM_NAME, name):
            report.add(
                ("streams", name),
                f"a stream name can contain only letters, digits, _ and -, and must not start with a digit or -, got "
                f"{name!r}. It is the name of a folder, and of a table in SQL.",
            )
        first = streams.setdefault(name.lower(), name)
        if first != name:
            report.add(("streams", name), f"the name {name!r} differs from {first!r} only in case, which SQL ignores.")


def _check_secrets(raw: dict[str, Any], report: Report) -> None:
    """Report literal secrets, which must come from the environment: many people read workload files."""
    places: list[tuple[Loc, Any, Any]] = [
        (("streams", name), one, Stream.kinds.get(Stream.kind_of(one))) for name, one in _map(raw, "streams").items()
    ]
    places += [
        (("sinks", number), one, Sink.kinds.get(Sink.kind_of(one))) for number, one in enumerate(_list(raw, "sinks"))
    ]
    for loc, section, kind in places:
        if not isinstance(section, dict) or kind is None or kind.secrets_rule is None:
            continue
        instead, allows_default = kind.secrets_rule
        for key in ("url", "registry"):
            url = section.get(key)
            if isinstance(url, str) and has_literal_secret(report.written((*loc, key)) or url):
                report.add(
                    (*loc, key),
                    f"{shown_address(url)!r} contains a password, and secrets are not allowed in a workload file; "
                    f"{instead}",
                )
        for option in _map(section, "options"):
            written = report.written((*loc, "options", option))
            if is_secret(str(option)) and (written is None or (":-" in written and not allows_default)):
                report.add(
                    (*loc, "options", option), f"is a secret, and secrets are not allowed in a workload file; {instead}"
                )


def _map(raw: dict[str, Any], key: str) -> dict[str, Any]:
    return raw[key] if isinstance(raw.get(key), dict) else {}


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    return raw[key] if isinstance(raw.get(key), list) else []
