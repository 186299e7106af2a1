"""Sinks in Python have the keys of workload files, and refuse what those refuse, in the same words."""

from __future__ import annotations

import inspect

import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.file_systems import open_store
from skyband.connectors.sink import SinkModel
from tests.workload_file.files import SHORT
from tests.workload_file.test_schema import values
from tests.workload_file.test_server_sinks import VALID, WRONG


def made(text):
    """The sink that keys in YAML say, made in Python."""
    keys = {key: value for key, value in values(text).items() if value is not None}
    return SinkModel.kinds[keys.pop("type")](**keys)


def test_every_sink_is_there():
    offered = {value for value in vars(sb.sinks).values() if inspect.isclass(value) and issubclass(value, SinkModel)}
    assert offered == {SinkModel, *SinkModel.kinds.values()}
    assert all(kind.__doc__ for kind in offered)


@pytest.mark.parametrize("name", VALID)
def test_it_is_the_sink_that_a_file_says(tmp_path, name):
    file = tmp_path / "skyband.yaml"
    file.write_text(f"{SHORT}sinks: [{VALID[name]}]\n")
    assert sb.read_workload(file, {}).sinks == (made(VALID[name]).settled(tmp_path),)


@pytest.mark.parametrize("name", WRONG)
def test_what_a_file_may_not_say_is_refused_in_its_words(tmp_path, name):
    text, key, part, _ = WRONG[name]
    file = tmp_path / "skyband.yaml"
    file.write_text(f"{SHORT}sinks: [{text}]\n")
    with pytest.raises(sb.WorkloadFileError) as in_file:
        sb.read_workload(file, {})
    with pytest.raises(sb.InvalidInputError) as in_python:
        made(text)
    problem = next(one for one in in_file.value.problems if one.key == f"sinks[0].{key}")
    assert part in problem.message
    assert f"{key}: {problem.message}" in str(in_python.value)


def test_secrets_are_not_shown():
    sink = sb.sinks.Postgres(table="a", url="postgresql://me:hunter2@db/x", options={"password": "hunter2"})
    assert "hunter2" not in repr(sink)


def test_lines_on_standard_output_have_names_once(capsys):
    writer = sb.sinks.Stdout().open(None)
    for batch, scores in enumerate([[], [2.5, 1.0], [], [3.0]]):
        writer.take(batch, pa.table({"query": ["big"] * len(scores), "score": pa.array(scores, pa.float64())}))
    assert capsys.readouterr().out == '"query","score"\n"big",2.5\n"big",1\n"big",3\n'


def test_standard_output_that_is_closed_stops_the_stream(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(sb.PipelineError, match="the reader closed the pipe"):
        sb.sinks.Stdout().open(None).take(0, pa.table({"query": ["big"]}))


def test_a_wrong_option_of_a_store_is_named_before_a_region_is_searched(monkeypatch):
    def searched(bucket):
        raise AssertionError(f"a request was sent about {bucket}")

    monkeypatch.setattr("pyarrow.fs.resolve_s3_region", searched)
    with pytest.raises(sb.InvalidInputError, match=r"'endpont_override'\. Nothing was written"):
        open_store("s3://bucket/answers", {"endpont_override": "http://127.0.0.1:1"})
