"""Folders that are one through a link, or that only look as if they got in each other's way."""

from __future__ import annotations

import pytest

from tests.workload_file.files import SHORT


@pytest.fixture
def linked(tmp_path):
    for name in ("in", "out", "state"):
        (tmp_path / name).mkdir()
        (tmp_path / f"to_{name}").symlink_to(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "sinks", "key", "part"),
    [
        ("in/*.csv", "[{type: csv, path: to_in}]", "sinks[0].path", "is read by stream 'trades'"),
        ("to_in/*", "[{type: csv, path: in/new}]", "sinks[0].path", "is read by stream 'trades'"),
        ("'file:///{folder}/in/*'", "[{type: csv, path: to_in/new}]", "sinks[0].path", "is read by stream 'trades'"),
        (
            "t.csv",
            "[{type: csv, path: out}, {type: jsonl, path: to_out}]",
            "sinks[1].path",
            "is already the folder of sinks[0]",
        ),
        ("t.csv", "[{type: csv, path: out}, {type: jsonl, path: to_out/x}]", "sinks[1].path", "is inside the folder"),
        ("t.csv", "[{type: csv, path: to_state/trades/x}]", "sinks[0].path", "is inside the checkpoint folder"),
        ("t.csv", "[{type: csv, path: state}]", "sinks[0].path", "is inside the checkpoint folder"),
    ],
)
def test_links_are_followed(problems, linked, path, sinks, key, part):
    path = path.replace("{folder}", str(linked).lstrip("/"))
    text = SHORT.replace("trades.csv", f"{path}\n    format: csv").replace("queries:", f"sinks: {sinks}\nqueries:")
    [problem] = problems(text + "engine: {checkpoint: to_state}\n")
    assert problem[2] == key
    assert part in problem[3]


@pytest.mark.parametrize(
    ("path", "sinks"),
    [
        ("in/*.csv", "[{type: jsonl, path: in}]"),  # of another ending
        ("in/*.csv", "[{type: csv, path: in/out}]"),  # no name that the glob means
        ("in", "[{type: csv, path: in_answers}]"),
        ("in", "[{type: csv, path: in/_answers}]"),  # Spark passes over it
        ("in/{a,b}*.csv", "[{type: csv, path: in}]"),
        ("s3a://bucket/in", "[{type: csv, path: out}]"),
        ("t.csv", "[{type: csv, path: out/a}, {type: csv, path: out/b}]"),
        ("t.csv", "[{type: csv, path: .skyband/answers}]"),
        ("t.csv", "[{type: csv, path: 's3://b/x'}, {type: csv, path: 's3://b/xy'}, {type: csv, path: 'gs://b/x'}]"),
        (
            "t.csv",
            "[{type: delta, path: 's3://b/x', queries: [big]}, {type: delta, path: 's3://b/x'}]",
        ),  # several writers
    ],
)
def test_others_are_taken(read, linked, path, sinks):
    text = SHORT.replace("trades.csv", f"{path}\n    format: csv").replace("queries:", f"sinks: {sinks}\nqueries:")
    assert read(text).sinks


def test_streams_may_share_a_folder_of_dead_letters(read):
    more = "  more: {path: more.csv, time: ts, dead_letters: dead}\nqueries:"
    text = SHORT.replace("time: ts", "time: ts\n    dead_letters: dead").replace("queries:", more)
    found = read(text.replace("name: big", "name: big\n    stream: trades"))
    assert {stream.dead_letters for stream in found.streams.values()} == {str(found.path.parent / "dead")}
