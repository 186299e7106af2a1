"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import skyband as sb
from skyband.topk.algorithms import algorithms
from tests.programs import on_terminal, skyband

TINY = ["--seconds", "2", "--speed", "30", "--size", "20 seconds", "--slide", "10 seconds", "--k", "3"]


def test_help_names_the_commands():
    done = skyband("--help")
    assert done.returncode == 0
    for command in ("init", "run", "explain", "verify", "jars", "schema", "bench", "demo", "algorithms", "--version"):
        assert command in done.stdout


def test_help_loads_nothing_heavy():
    heavy = ("numba", "numpy", "pyarrow", "pyspark", "pydantic", "yaml", "sqlglot", "rich")
    code = f"import sys, skyband.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version():
    assert skyband("--version").stdout == f"skyband {sb.__version__}\n"


def test_kafka_without_its_jars_names_the_one_command(tmp_path):
    (tmp_path / "work.yaml").write_text(
        "streams: {s: {source: kafka, servers: 127.0.0.1:1, topic: t, format: text, time: kafka_timestamp}}\n"
        "queries: [{k: 1, size: 1 hour, by: length(value)}]\n"
    )
    done = skyband("run", "work.yaml", cwd=tmp_path, env={**os.environ, "SKYBAND_JARS": str(tmp_path / "jars")})
    assert done.returncode == 4
    assert "Fetch them once with: skyband jars" in done.stderr
    assert not (tmp_path / ".skyband").exists()


CSV = "at,shop,amount\n2024-01-01 10:00:00,north,5.5\n2024-01-01 10:20:00,south,7.25\n2024-01-01 11:10:00,north,1.0\n"


class TestFirstSteps:
    """What needs no Spark: a file is written, read and explained."""

    def test_init_finds_the_only_data_file(self, tmp_path):
        (tmp_path / "sales.csv").write_text(CSV)
        done = skyband("init", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "skyband run" in done.stdout
        file = sb.read_workload(tmp_path / "skyband.yaml")
        assert file.streams["sales"].path == str(tmp_path / "sales.csv")
        assert file.streams["sales"].time == "at"

    def test_init_without_data_makes_rows_up(self, tmp_path):
        done = skyband("init", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        streams = sb.read_workload(tmp_path / "skyband.yaml").streams
        assert [stream.source for stream in streams.values()] == ["rate"]

    def test_init_asks_which_of_several(self, tmp_path):
        for name in ("a.csv", "b b.parquet"):
            (tmp_path / name).write_text(CSV)
        done = skyband("init", cwd=tmp_path)
        assert done.returncode == 2
        assert "this folder contains 2 data files (a.csv, b b.parquet)" in done.stderr
        assert not (tmp_path / "skyband.yaml").exists()

    def test_init_elsewhere_names_the_data_as_seen_from_there(self, tmp_path):
        (tmp_path / "sales.csv").write_text(CSV)
        done = skyband("init", "sales.csv", "--file", "jobs/first.yaml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "skyband run jobs/first.yaml" in done.stdout
        assert sb.read_workload(tmp_path / "jobs/first.yaml").streams["sales"].path == str(tmp_path / "sales.csv")

    def test_init_replaces_nothing_unasked(self, tmp_path):
        (tmp_path / "skyband.yaml").write_text("mine")
        assert skyband("init", cwd=tmp_path).returncode == 2
        assert (tmp_path / "skyband.yaml").read_text() == "mine"
        assert skyband("init", "--force", cwd=tmp_path).returncode == 0
        assert (tmp_path / "skyband.yaml").read_text() != "mine"

    def test_explain_for_people_and_for_machines(self, tmp_path):
        (tmp_path / "sales.csv").write_text(CSV)
        skyband("init", cwd=tmp_path)
        page = skyband("explain", cwd=tmp_path)
        assert page.returncode == 0, page.stderr
        assert "csv files" in page.stdout
        assert " over event time: the " in page.stdout
        assert "Memory: about " in page.stdout
        assert "sharing class" in page.stdout
        plain = json.loads(skyband("explain", "--json", cwd=tmp_path).stdout)
        queries = plain["streams"]["sales"]["queries"]
        file = sb.read_workload(tmp_path / "skyband.yaml")
        assert [sb.sql(query["sql"]) for query in queries] == list(file.workloads["sales"])

    def test_every_problem_of_a_file_is_told_with_its_place(self, tmp_path):
        (tmp_path / "bad.yaml").write_text(
            "streams: {s: {path: x.csv, tme: t}}\nqueries: [{k: 0, size: 1 hour, by: v}]\n"
        )
        for command in ("run", "explain", "verify"):
            done = skyband(command, "bad.yaml", cwd=tmp_path)
            assert done.returncode == 2
            assert "bad.yaml:1:" in done.stderr
            assert "did you mean 'time'" in done.stderr
            assert "bad.yaml:2:" in done.stderr
            assert "Traceback" not in done.stderr

    def test_a_missing_file_says_how_to_get_one(self, tmp_path):
        done = skyband("run", cwd=tmp_path)
        assert done.returncode == 2
        assert "skyband init writes one" in done.stderr

    def test_schema(self):
        published = json.loads(skyband("schema").stdout)
        assert published["$schema"].startswith("https://json-schema.org/")
        assert {"streams", "queries", "sinks", "engine"} <= set(published["properties"])
        keys = skyband("schema", "--keys").stdout
        assert "watermark" in keys
        assert "files_per_batch" in keys

    def test_once_or_catch_up(self, tmp_path):
        done = skyband("run", "--once", "--catch-up", cwd=tmp_path)
        assert done.returncode == 2
        assert "cannot be combined" in done.stderr

    def test_java_that_is_not_there(self, tmp_path):
        skyband("init", cwd=tmp_path)
        done = skyband("run", cwd=tmp_path, env={**os.environ, "JAVA_HOME": "/nowhere"})
        assert done.returncode == 4
        assert "JAVA_HOME=/nowhere has no bin/java" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion_can_be_shown(self, shell):
        # Which shell asks is told by the process's ancestors, and a test may have none that is one.
        done = skyband(
            "--show-completion", shell, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
        )
        assert done.returncode == 0
        assert "skyband" in done.stdout.lower()


def test_bench_times_what_is_asked_for():
    done = skyband("bench", "--rows", "500000", "--algorithm", "panes", "--algorithm", "mintopk", "--json")
    assert done.returncode == 0, done.stderr
    timed = json.loads(done.stdout)["algorithms"]
    assert [one["algorithm"] for one in timed] == ["panes", "mintopk"]
    assert all(one["objects"] == 500_000 and one["per_second"] > 0 for one in timed)
    assert len({one["candidates"] for one in timed}) == 1


def test_algorithms_for_machines():
    assert list(json.loads(skyband("algorithms", "--json").stdout)) == ["auto", *algorithms()]


def test_algorithms_lists_all():
    done = skyband("algorithms")
    assert done.returncode == 0
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed == ["auto", *algorithms()]


class TestDemo:
    def test_plain_tables_and_a_summary(self):
        done = skyband("demo", "--in-process", *TINY)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert sum("price × size" in line for line in lines) == 3
        assert "6 windows" in lines[-1]
        assert "6 of 6 answers checked are equal to a full sort of their window." in lines[-1]
        assert "\x1b" not in done.stdout

    def test_same_seed_same_answers(self):
        tables = [
            [line for line in skyband("demo", "--in-process", *TINY, "--seed", seed).stdout.splitlines() if "$" in line]
            for seed in ("5", "5")
        ]
        assert len(tables[0]) == 9
        assert tables[0] == tables[1]

    def test_no_window_ends(self):
        done = skyband("demo", "--in-process", "--seconds", "0.1")
        assert done.returncode == 0
        assert "No window has ended yet" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--k", "0"], "k must be between 1 and 2147483647, got 0"),
            (["--size", "two minutes"], "is not a duration"),
            (["--speed", "1e12"], "at most 20,000,000"),
            (["--seed", "-4"], "seed must be an integer of at least 0, got -4"),
        ],
    )
    def test_our_errors_are_one_line(self, arguments, says):
        done = skyband("demo", "--in-process", *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert says in done.stderr
        assert done.stderr.startswith("skyband: ")
        assert len(done.stderr.splitlines()) == 1

    def test_unknown_option(self):
        done = skyband("demo", "--in-process", "--sped", "3")
        assert done.returncode == 2
        assert "No such option: --sped" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(os.name == "nt", reason="signals differ")
    def test_ctrl_c_stops_cleanly(self):
        code, text = on_terminal(
            "demo", "--in-process", "--seconds", "600", "--speed", "1", ctrl_c_after="next window ends"
        )
        assert code == 0, text
        assert "stopped" in text
        assert "Traceback" not in text


class TestLeaderboard:
    """What the demo's table is made from."""

    def test_moves_against_a_plain_ranking(self):
        from skyband.cli.demo import OPENING, Leaderboard
        from skyband.streams import trades

        query = sb.TopK(k=5, size="10 seconds", slide="2 seconds")
        stream = trades(20_000, seed=3)
        board = Leaderboard(query, stream)
        for second in range(1, 31):
            board.feed(OPENING + second * 1_000_000)
        assert board.pushed == (stream.position < OPENING + 30_000_000).sum()
        assert [window.end for window in board.windows] == [OPENING + 2_000_000 * i for i in range(1, 16)]
        assert board.check() == (15, 15)
        for before, now in zip(board.windows, board.windows[1:], strict=False):
            then = before.ids.tolist()
            for place, (id_, move) in enumerate(zip(now.ids.tolist(), now.moves, strict=True)):
                assert move == (then.index(id_) - place if id_ in then else None)
            inside = (stream.position >= now.end - 10_000_000) & (stream.position < now.end)
            assert now.objects == inside.sum()
