"""Values of records as producers encode them, by fastavro and protobuf, which share no code with the decoder."""

from __future__ import annotations

import io
import json

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from skyband.connectors.arrow.record_schema import declared_columns, reader_columns
from skyband.connectors.arrow.record_values import RecordDecoder, RecordFormat, program_in_schema
from skyband.connectors.registry import KINDS, Registered, UnknownSchemaError


def record(*fields, name="Row"):
    """An Avro schema."""
    return {"type": "record", "name": name, "fields": [dict(field) for field in fields]}


def avro_bytes(schema, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return out.getvalue()


def avro_row(data, writer, reader):
    """What a record is by Avro's rules of resolution."""
    one, two = (fastavro.parse_schema(json.loads(json.dumps(schema))) for schema in (writer, reader))
    return fastavro.schemaless_reader(io.BytesIO(data), one, two)


def framed(number, body, path=None):
    """A value that names its schema, and with `path` its message type."""
    places = b"" if path is None else b"\0" if path == [0] else _zigzag(len(path)) + b"".join(map(_zigzag, path))
    return b"\0" + number.to_bytes(4, "big") + places + body


def _zigzag(number):
    found, rest = bytearray(), number << 1
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


class Schemas(dict):
    """Schemas by number, as a registry has them; counts what it is asked for."""

    asked = 0

    def __call__(self, number):
        self.asked += 1
        if number not in self:
            raise UnknownSchemaError
        found = self[number]
        if isinstance(found, Registered):
            return found
        return Registered(found, "PROTOBUF") if isinstance(found, str) else Registered(json.dumps(found), "AVRO")


def columns_of(kind, reader, declared=None, message=None):
    """The columns of a stream whose reader has a schema."""
    columns = None
    if reader is not None:
        text = reader if isinstance(reader, str) else json.dumps(reader)
        columns = reader_columns(program_in_schema(kind, Registered(text, KINDS[kind]), message))
    return tuple(columns if declared is None else declared_columns(declared, columns))


def decoder(kind, schemas, reader, declared=None, message=None):
    """A decoder with the schemas of a registry, and a reader's schema."""
    return RecordDecoder(RecordFormat(kind, columns_of(kind, reader, declared, message), "http://unused"), schemas)


def rows_of(decoder, values):
    """The rows of values, None where there is a problem; and the problems by row."""
    import pyarrow as pa

    found = decoder.decode(pa.array(values, pa.binary()))
    table = pa.table(found.columns, [column.name for column in decoder._form.columns])
    table.validate(full=True)
    problems = {row: why for row, why in enumerate(found.problems.to_pylist()) if why is not None}
    return [None if row in problems else one for row, one in enumerate(table.to_pylist())], problems


SCALARS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
)


def message_class(fields, *, syntax="proto3", name="Row", more=()):
    """A class of messages; fields are (name, number, type, label), a label being optional, repeated or none.

    Types are scalars, and names of messages in google.protobuf. `more`: further messages and enums, as descriptors.
    """
    kinds = descriptor_pb2.FieldDescriptorProto
    made = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="test", syntax=syntax)
    made.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    top = made.message_type.add(name=name)
    for field, number, kind, label in fields:
        one = top.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
        if label == "repeated":
            one.label = kinds.LABEL_REPEATED
        if kind in SCALARS:
            one.type = getattr(kinds, f"TYPE_{kind.upper()}")
        else:
            is_enum = any(enum.name == kind for enum in more)
            one.type = kinds.TYPE_ENUM if is_enum else kinds.TYPE_MESSAGE
            one.type_name = f".test.{kind}" if is_enum else f".google.protobuf.{kind}"
        if label.startswith("oneof"):
            if label not in [each.name for each in top.oneof_decl]:
                top.oneof_decl.add(name=label)
            one.oneof_index = [each.name for each in top.oneof_decl].index(label)
    for field, *_, label in fields:  # those of optional fields come after the others
        if label == "optional" and syntax == "proto3":
            one = next(each for each in top.field if each.name == field)
            one.proto3_optional = True
            one.oneof_index = len(top.oneof_decl)
            top.oneof_decl.add(name=f"_{field}")
    made.enum_type.extend(more)
    pool = descriptor_pool.DescriptorPool()
    for each in _builtin():
        pool.AddSerializedFile(each)
    pool.AddSerializedFile(made.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{name}"))


def _builtin():
    from google.protobuf import timestamp_pb2, wrappers_pb2

    return [one.DESCRIPTOR.serialized_pb for one in (timestamp_pb2, wrappers_pb2)]


def message_text(fields, *, syntax="proto3", name="Row", more=()):
    """The same message type as text."""
    lines = [f'syntax = "{syntax}";', "package test;", 'import "google/protobuf/timestamp.proto";']
    for enum in more:
        values = " ".join(f"{one.name} = {one.number};" for one in enum.value)
        lines.append(f"enum {enum.name} {{ {values} }}")
    lines.append(f"message {name} {{  // a row")
    for oneof in dict.fromkeys(label for *_, label in fields if label.startswith("oneof")):
        inside = " ".join(_line(*field[:3], "") for field in fields if field[3] == oneof)
        lines.append(f"  oneof {oneof} {{ {inside} }}")
    single = [f"  {_line(*field)}" for field in fields if not field[3].startswith("oneof")]
    return "\n".join([*lines, *single, "}"])


def _line(name, number, kind, label):
    known = kind in SCALARS or kind[0].islower() or kind.startswith("Color")
    return f"{label} {kind if known else f'google.protobuf.{kind}'} {name} = {number};".strip()
