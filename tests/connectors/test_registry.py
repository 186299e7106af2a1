"""The client of schema registries, against answers of a server on this machine."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.connectors.record_format import record_format
from skyband.connectors.registry import Registered, Registry, UnknownSchemaError
from tests.servers import free_port

ROW = json.dumps({"type": "record", "name": "R", "fields": [{"name": "s", "type": "double"}]})


class Served:
    """Answers requests by their path: a status and a body, or a list of them in turn."""

    def __init__(self, answers):
        self.answers, self.logins, served = answers, [], self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.logins.append(self.headers.get("Authorization"))
                found = served.answers.get(self.path, (404, {"error_code": 40401}))
                status, body = found.pop(0) if isinstance(found, list) else found
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_schemas_with_what_they_refer_to():
    answers = {
        "/api/schemas/ids/5": (
            200,
            {"schema": "c", "schemaType": "PROTOBUF", "references": [one("b", 2), one("a", 1)]},
        ),
        "/api/subjects/b/versions/2": (200, {"schema": "b", "references": [one("a", 1)]}),
        "/api/subjects/a/versions/1": (200, {"schema": "a", "references": [one("b", 2)]}),
        "/api/subjects/of%2Ftrades-value/versions/latest": (200, {"schema": ROW, "id": 3}),
    }
    with Served(answers) as server:
        registry = Registry(f"http://{server.host}/api/", 0)
        assert registry.schema(5) == Registered("c", "PROTOBUF", ("a", "b"))
        assert registry.newest("of/trades-value") == Registered(ROW, "AVRO")
        with pytest.raises(UnknownSchemaError):
            registry.schema(6)


def one(subject, version):
    return {"name": f"{subject}.proto", "subject": subject, "version": version}


def test_a_login_is_sent_to_this_server_only_and_is_in_no_message():
    with Served({}) as other, Served({}) as server:
        server.answers = {
            "/subjects": (401, {}),
            "/schemas/ids/1": (302, f"http://{other.host}/schemas/ids/1".encode()),
        }
        registry = Registry(f"http://alice:correct%2Fhorse@{server.host}", 0)
        with pytest.raises(sb.InvalidInputError, match=r"rejected the login \(status 401\)") as caught:
            registry.check()
        assert "correct" not in str(caught.value)
        assert server.logins == ["Basic " + base64.b64encode(b"alice:correct/horse").decode()]
        with pytest.raises(UnknownSchemaError):
            registry.schema(1)
        assert other.logins == [None]


def test_a_registry_that_is_unavailable_for_a_while():
    with Served({"/schemas/ids/1": [(503, {}), (500, {}), (200, {"schema": ROW})]}) as server:
        assert Registry(f"http://{server.host}", 60).schema(1).text == ROW
        assert len(server.logins) == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "its answer is not JSON"),
        ([1], "its answer contains no schema"),
        ({"schema": 1}, "its answer contains no schema"),
        ({"schema": ROW, "references": [{"subject": "a"}]}, "a reference without subject and version"),
    ],
)
def test_what_is_no_registry(body, why):
    with Served({"/schemas/ids/1": (200, body)}) as server:
        with pytest.raises(sb.InvalidInputError, match=why) as caught:
            Registry(f"http://{server.host}", 0).schema(1)
        assert "Correct the address registry:" in str(caught.value)


def test_a_registry_that_does_not_answer():
    with pytest.raises(sb.PipelineError, match=r"http://me:\*\*\*@127.*unavailable.*no data is lost.*registry_wait"):
        Registry(f"http://me:secret@127.0.0.1:{free_port()}", 0).schema(1)


def stream(**keys):
    from skyband.connectors.kafka import KafkaSource

    return KafkaSource(**{"servers": "h:1", "topic": "trades", "time": "kafka_timestamp", "format": "avro", **keys})


def test_the_columns_of_a_stream(tmp_path):
    newest = {"/subjects/trades-value/versions/latest": (200, {"schema": ROW}), "/subjects": (200, [])}
    with Served(newest) as server:
        url = f"http://{server.host}"
        assert names(stream(registry=url)) == ["s"]
        assert names(stream(registry=url, schema={"a": "bigint", "b": "timestamp"})) == ["a", "b"]
        with pytest.raises(sb.InvalidInputError, match=r"no subject 'other'.*correct subject:"):
            names(stream(registry=url, subject="other"))
        with pytest.raises(sb.InvalidInputError, match=r"the newest schema of subject .* AVRO.* format: protobuf"):
            names(stream(registry=url, format="protobuf"))
        file = tmp_path / "row.avsc"
        file.write_text(ROW.replace('"s"', '"x"'))
        assert names(stream(registry=url, schema_file=str(file))) == ["x"]
        assert names(stream(schema_file=str(file), schema={"x": "double"})) == ["x"]
        for wrong, why in (
            ({"schema_file": str(tmp_path / "gone.avsc")}, r"gone.avsc' cannot be read \(No such file"),
            ({"schema_file": str(file), "schema": {"y": "double"}}, "row.avsc' cannot be used: it has no field 'y'"),
            ({"schema_file": str(file), "schema": {"x": "array<int>"}}, "is not a type of encoded values"),
        ):
            with pytest.raises(sb.InvalidInputError, match=why):
                names(stream(**wrong))


def test_a_file_that_imports_another(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "kind.proto").write_text('syntax = "proto3"; package k; enum Kind { A = 0; B = 1; }')
    file = tmp_path / "row.proto"
    file.write_text('syntax = "proto3"; import "sub/kind.proto"; message Row { k.Kind kind = 1; } message Other {}')
    form = record_format("s", stream(format="protobuf", schema_file=str(file)))
    from skyband.connectors.arrow.record_values import RecordDecoder
    from tests.connectors.encoded import rows_of

    assert rows_of(RecordDecoder(form), [b"\x08\x01", b"", b"\x08"]) == (
        [{"kind": "B"}, {"kind": "A"}, None],
        {2: "the value cannot be decoded: it ends before its last value"},
    )
    with pytest.raises(sb.InvalidInputError, match="has no field of a type that is read"):
        names(stream(format="protobuf", schema_file=str(file), message="Other"))
    with pytest.raises(sb.InvalidInputError, match="it has no message 'Nothing'; it has Row, Other"):
        names(stream(format="protobuf", schema_file=str(file), message="Nothing"))


def names(source):
    return [column.name for column in record_format("s", source).columns]


def test_explain_knows_the_columns_of_a_schema_file_and_shows_no_password(tmp_path, monkeypatch):
    (tmp_path / "row.avsc").write_text(ROW)
    text = """
streams:
  t:
    source: kafka
    servers: h:1
    topic: t
    format: avro
    registry: "http://me:${PW}@127.0.0.1:1"
    KEY
    time: kafka_timestamp
queries: [{name: q, k: 1, size: 1 hour, by: s}]
"""
    file = tmp_path / "work.yaml"
    monkeypatch.setenv("PW", "correct-horse")
    for key in ("schema_file: row.avsc", "subject: other", "schema: {s: double}"):
        file.write_text(text.replace("KEY", key))
        shown = f"{explain_file(file, as_json=False)}{explain_file(file, as_json=True)}{sb.read_workload(file)!r}"
        assert "http://me:***@127.0.0.1:1" in shown
        assert "correct-horse" not in shown
    for name, content, said in (
        ("gone.avsc", None, r"streams.t.schema_file: the schema file '.*gone.avsc' cannot be read \(No such file"),
        ("text.avsc", '"string"', r"streams.t.schema_file: the schema file '.*' cannot be used: its top level is not"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        file.write_text(text.replace("KEY", f"schema_file: {name}"))
        with pytest.raises(sb.WorkloadFileError, match=said):
            explain_file(file, as_json=False)
    file.write_text(text.replace("KEY", "schema_file: row.avsc").replace("by: s", "by: z"))
    with pytest.raises(sb.WorkloadFileError, match="'z' is not a column of stream 't'; its columns are s, kafka_key"):
        explain_file(file, as_json=False)
