"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import skyband as sb
from skyband.catalogue import algorithms

TINY = ["--seconds", "2", "--speed", "30", "--size", "20 seconds", "--slide", "10 seconds", "--k", "3"]


def skyband(*arguments, **options):
    """Run ``skyband`` and return the finished process; its output is text."""
    command = [sys.executable, "-m", "skyband.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def test_help_names_the_commands():
    done = skyband("--help")
    assert done.returncode == 0
    for command in ("demo", "algorithms", "--version"):
        assert command in done.stdout


def test_help_loads_nothing_heavy():
    heavy = ("numba", "numpy", "pyarrow", "rich")
    code = f"import sys, skyband.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version():
    assert skyband("--version").stdout == f"skyband {sb.__version__}\n"


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
        assert "6 of 6 answers checked equal a full sort of their window." in lines[-1]
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
            (["--k", "0"], "k=0 must lie in"),
            (["--size", "two minutes"], "is not a duration"),
            (["--speed", "1e12"], "at most 20,000,000"),
            (["--seed", "-4"], "seed=-4 must be a whole number"),
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
        command = [
            sys.executable,
            "-m",
            "skyband.cli",
            "demo",
            "--in-process",
            "--seconds",
            "100",
            "--slide",
            "5 milliseconds",
        ]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(4)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        assert running.returncode in (0, 130)
        assert "Traceback" not in errors


class TestLeaderboard:
    """What the demo's table is made from."""

    def test_moves_against_a_plain_ranking(self):
        from skyband.demo import OPENING, Leaderboard
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
