"""Compiling ahead: sets are known by name, a second run compiles nothing, a failure is reported."""

from __future__ import annotations

import subprocess

import pytest

from skyband import precompile
from skyband.topk.algorithms import algorithms


def test_every_algorithm_is_in_a_set_and_a_wheel_has_known_sets():
    assert {f"algorithm-{name}" for name in algorithms()} - set(precompile.SETS) == {"algorithm-sap", "algorithm-panes"}
    assert set(precompile.COMMON) < set(precompile.SETS)


def test_what_is_compiled_is_not_compiled_again():
    precompile.run_sets(["algorithm-naive"])
    assert precompile.run_sets(["algorithm-naive"]) == 0


def test_an_unknown_set_is_rejected_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as ended:
        precompile.main(["nothing"])
    assert ended.value.code == 2
    assert "unknown kernel set 'nothing'; known: sap, frames" in capsys.readouterr().err


def test_a_process_that_fails_is_an_error():
    with pytest.raises(subprocess.CalledProcessError):
        precompile.precompile(["nothing", "algorithm-naive"], jobs=1)


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_set_is_compiled_by_one_process(monkeypatch, jobs):
    started = []

    class Process:
        returncode, args = 0, ()

        def __init__(self, command, env):
            started.append((command[-1], env["EXTRA"]))

        def poll(self):
            return 0

    monkeypatch.setattr(subprocess, "Popen", Process)
    precompile.precompile(["a", "b", "c"], jobs, {"EXTRA": "1"})
    assert started == [("a", "1"), ("b", "1"), ("c", "1")]
