"""How the values of a topic are decoded: the columns of a stream, from its schema file, its registry or its keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.connectors.kafka_values import SOURCE_OPTIONS
from skyband.connectors.secrets import shown_address
from skyband.connectors.section import Wrong
from skyband.errors import InvalidInputError, SkybandError

if TYPE_CHECKING:
    from skyband.connectors.arrow.record_values import RecordFormat
    from skyband.connectors.kafka import KafkaSource

__all__ = ["ENCODED", "encoding_rules", "record_format"]

ENCODED = ("avro", "protobuf")  # formats of values that are decoded with a schema
_WAIT = "60 seconds"


def record_format(name: str, stream: KafkaSource) -> RecordFormat:
    """Return how a stream's values are decoded. Reads the schema file, and asks the registry.

    Without a schema file, and without declared columns, the reader's schema is the newest of the subject.
    """
    from skyband.connectors.arrow.record_schema import MismatchError, declared_columns, reader_columns
    from skyband.connectors.arrow.record_values import RecordFormat, program_in_schema
    from skyband.connectors.registry import KINDS, Registered, Registry, UnknownSchemaError
    from skyband.connectors.server import seconds

    wait, kind = seconds(stream.registry_wait or _WAIT), str(stream.format)
    registry = None if stream.registry is None else Registry(stream.registry, wait)
    schema, what = None, ""
    if stream.schema_file is not None:
        what = f"the schema file {stream.schema_file!r}"
        text, references = _texts_of(name, Path(stream.schema_file), kind)
        schema = Registered(text, KINDS[kind], references)
        if registry is not None:
            registry.check()
    elif registry is not None and stream.schema is None:
        subject = subject_of(stream)
        what = f"the newest schema of subject {subject!r}"
        try:
            schema = registry.newest(subject)
        except UnknownSchemaError:
            raise InvalidInputError(
                f"stream {name!r}: the schema registry {shown_address(str(stream.registry))} has no subject "
                f"{subject!r}, so the columns are unknown. Register a schema, correct subject:, or declare the columns "
                "with schema:."
            ) from None
    elif registry is not None:
        registry.check()
    try:
        reader = None
        if schema is not None:
            reader = reader_columns(program_in_schema(kind, schema, stream.message))
        declared = _declared(name, stream.schema)
        columns = reader if declared is None else declared_columns(declared, reader)
    except MismatchError as error:
        raise InvalidInputError(f"stream {name!r}: {what} cannot be used: {error}. Nothing was read.") from None
    assert columns is not None  # one of the three is given
    if not columns:
        raise InvalidInputError(
            f"stream {name!r}: {what} has no field of a type that is read. Numbers, text, bytes, booleans, enums, "
            "dates, times and decimals are read; lists, maps and other messages or records are not."
        )
    if stream.registry is not None or schema is None:
        return RecordFormat(kind, tuple(columns), stream.registry, wait)
    return RecordFormat(kind, tuple(columns), None, wait, schema.text, schema.references, stream.message)


def subject_of(stream: KafkaSource) -> str:
    """Return the subject with the schemas of a stream's values: by default, that of its topic."""
    return stream.subject or f"{(stream.topic or [''])[0]}-value"


def encoding_rules(raw: Mapping[str, Any]) -> Wrong:
    """Report keys of schemas that do not fit together."""
    kind = raw.get("format")
    if kind not in ENCODED:
        for key in ("registry", "registry_wait", "subject", "schema_file", "message"):
            if key in raw and isinstance(kind, str):
                yield key, f"is for format: avro or protobuf; the values of this stream have format {kind}."
        return
    yield from _registry_rules(raw)
    if "message" in raw and (kind != "protobuf" or ("schema" in raw and "schema_file" not in raw)):
        yield "message", "names the message type of a Protobuf schema that sets the columns; remove the key."
    for option in raw["options"] if isinstance(raw.get("options"), dict) else ():
        if not option.startswith("kafka.") and option.lower() not in SOURCE_OPTIONS:
            yield ("options", option), f"is an option of a parser of text; {kind} values have none."


def _registry_rules(raw: Mapping[str, Any]) -> Wrong:
    kind = raw["format"]
    if "registry" not in raw and "schema_file" not in raw:
        yield "registry", f"is missing; {kind} values need the address of a schema registry, or a schema_file."
    registry = raw.get("registry")
    if isinstance(registry, str) and not registry.startswith(("http://", "https://")):
        yield "registry", f"{shown_address(registry)!r} is not an address; write http://host:port or https://host."
    if "registry" not in raw:
        for key in ("registry_wait", "subject"):
            if key in raw:
                yield key, "needs registry."
    if "subject" in raw and ("schema" in raw or "schema_file" in raw):
        yield "subject", "has no effect with schema or schema_file, which set the columns; remove the key."
    has_columns = any(key in raw for key in ("schema", "schema_file", "subject"))
    if not has_columns and "registry" in raw and ("topic_pattern" in raw or _has_several(raw.get("topic"))):
        yield "subject", "is missing; with several topics, set the subject whose newest schema sets the columns."


def _has_several(topic: Any) -> bool:
    return isinstance(topic, list) and len(topic) > 1


def _texts_of(name: str, file: Path, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a schema file, and those of the files that it imports, which are in the same folder."""
    texts: dict[Path, str] = {}

    def read(path: Path, why: str) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidInputError(
                f"stream {name!r}: {why} {str(path)!r} cannot be read ({reason}). Nothing was read."
            ) from None

    def imports_of(text: str) -> None:
        from skyband.connectors.arrow.proto_text import ProtoTextError, parse_proto

        try:
            found = parse_proto(text).imports
        except ProtoTextError:
            return  # reported when the columns are read
        for one in found:
            path = file.parent / one
            if one.startswith("google/protobuf/") or path in texts:
                continue
            texts[path] = read(path, f"the schema file {str(file)!r} imports a file that")
            imports_of(texts[path])

    whole = read(file, "the schema file")
    if kind == "protobuf":
        imports_of(whole)
    return whole, tuple(texts.values())


def _declared(name: str, schema: Mapping[str, str] | None) -> dict[str, Any] | None:
    """Return the declared columns as Arrow types."""
    if schema is None:
        return None
    import pyarrow as pa

    from skyband.expressions import compile_expression

    found, nothing = {}, pa.schema([])
    for column, kind in schema.items():
        try:
            found[column] = compile_expression(f"CAST(NULL AS {kind})", nothing).type
        except SkybandError:
            raise InvalidInputError(
                f"stream {name!r}: schema: {{{column}: {kind}}} is not a type of encoded values, which are numbers, "
                "string, binary, boolean, date, timestamp and decimal. Nothing was read."
            ) from None
    return found
