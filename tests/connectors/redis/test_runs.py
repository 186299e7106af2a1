"""A workload file with sorted sets as its sink, from files to the server, against the definitions."""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.jobs import run, run_local
from tests.jobs.test_job import POSED, QUERIES, STREAM, finished, rows_of, workload
from tests.servers import PASSWORD
from tests.sharding import cases
from tests.spark.frames import write_files

SINKS = """
sinks:
  - {type: redis, url: '${CACHE}', sort: rank}
  - {type: redis, url: '${CACHE}', prefix: plain, member: id, queries: [all], expire: 1 hour}
"""


@pytest.fixture(autouse=True)
def environment(server, monkeypatch):
    monkeypatch.setenv("CACHE", server.url())


def newest(rows):
    """{(query, group): ids of the newest answer, in order} by the definitions."""
    found = {}
    for one in POSED:
        for key, answers in cases.wanted(one, rows).items():
            end = max(answer[1] for answer in answers)
            found[key] = [answer[3] for answer in answers if answer[1] == end]
    return found


def kept(client):
    found = {("all", "-"): client.zrange("skyband:all", 0, -1)}
    for key in client.scan_iter("skyband:each:\\[*\\]"):
        found["each", json.loads(key.split(":", 2)[2])[0]] = client.zrange(key, 0, -1)
    return {key: [json.loads(member)["id"] for member in members] for key, members in found.items()}


def test_the_newest_answers_are_those_of_the_definitions(spark, tmp_path, client):
    rows = rows_of(21, 150)
    write_files(tmp_path / "in", [rows[:70], rows[70:]])
    file = workload(tmp_path, STREAM + QUERIES + SINKS)
    finished(file, spark)
    assert kept(client) == newest(rows)
    assert sorted(map(int, client.zrange("plain:all", 0, -1))) == sorted(newest(rows)["all", "-"])
    assert client.pttl("plain:all") > 0
    # Answered once more, with less: an older answer takes the place of what is gone.
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    write_files(tmp_path / "in", [rows[:70]])
    finished(file, spark)
    assert kept(client) == newest(rows[:70])


def test_a_server_that_is_not_there_is_told_at_once(spark, tmp_path, server, monkeypatch):
    rows = rows_of(22, 20)
    write_files(tmp_path / "in", [rows])
    file = workload(tmp_path, STREAM + QUERIES + SINKS)
    assert PASSWORD not in explain_file(file.path, as_json=True) + explain_file(file.path, as_json=False)
    server.stop()
    try:
        with pytest.raises(sb.InvalidInputError, match=r"keys skyband:… of redis://:.* cannot be used: .*refused"):
            run(file, "once", spark=spark)
    finally:
        server.start()


def test_a_local_stream(tmp_path, client):
    rows = rows_of(22, 150)
    file = workload(tmp_path, STREAM + QUERIES + SINKS)
    for number, part in enumerate((rows[:70], rows[70:])):
        write_files(tmp_path / "in", [part], begin=number)
        run_local(file, "stream").finish() if number else run_local(file, "catch-up").await_end(60)
    assert kept(client) == newest(rows)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_an_older_checkpoint_over_newer_sorted_sets(tmp_path, client, seed):
    """The answers in between are written again, and the newest ones are there at the end."""
    random, rows = Random(seed), sorted(rows_of(40 + seed, 200), key=lambda row: row[0])
    file = workload(tmp_path, STREAM + QUERIES + SINKS)
    stored, older, cut = tmp_path / file.engine.checkpoint, tmp_path / "older", random.randrange(1, 4)
    for number in range(4):
        write_files(tmp_path / "in", [rows[40 * number : 40 * number + 40]], begin=number)
        if number == cut:
            shutil.copytree(stored, older)
        assert run_local(file, "catch-up").await_end(60)
    newer = kept(client)
    shutil.rmtree(stored)
    shutil.copytree(older, stored)
    assert run_local(file, "catch-up").await_end(60)
    assert kept(client) == newer != {}
    write_files(tmp_path / "in", [rows[160:]], begin=4)
    run_local(file, "stream").finish()
    assert kept(client) == newest(rows)
