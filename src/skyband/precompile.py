"""Compile the kernels before they are needed, in several processes: ``python -m skyband.precompile``.

A *kernel set* is what one way of using the library compiles. Running a few rows that way compiles it, so a set cannot
miss a kernel or list one too many. Processes share the kernel store: what one compiles, another waits for and loads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from skyband import aggregate, incomplete, uncertain
from skyband.aggregate.query import AggregateTopK
from skyband.incomplete.query import IncompleteTopK
from skyband.kernels import _notice
from skyband.kernels._shipped import level_features, write_manifest
from skyband.kernels._stored_kernel import INNER
from skyband.topk.algorithms import algorithms
from skyband.topk.monitor import Monitor, replay
from skyband.topk.query import TopK
from skyband.topk.warmup import warm_up
from skyband.uncertain.query import UncertainTopK

__all__ = ["COMMON", "SETS", "compile_into", "precompile", "run_sets"]

ROWS = 3_000
_RANDOM = np.random.default_rng(1)
_SCORES = _RANDOM.random(ROWS)
_TIMES = np.arange(ROWS) * 100_000
_GROUPS = np.arange(ROWS) % 7


def _table() -> pa.Table:
    at = pa.array(_TIMES).cast(pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "id": np.arange(ROWS), "g": _GROUPS, "x": _SCORES, "p": np.clip(_SCORES, 0.1, 1.0)})


def _arrays() -> None:
    """Top-k queries over arrays: count and time windows, batches, several queries at once."""
    counted, timed = TopK(k=3, size=500, slide=100), TopK(k=3, size="1 minute", slide="10 seconds")
    replay(counted, None, _SCORES)
    replay([timed, TopK(name="least", k=9, size="2 minutes", slide="20 seconds", order="asc")], _TIMES, _SCORES)
    replay(TopK(k=2, size="1 minute", slide="10 seconds", ties="rank"), _TIMES, np.round(_SCORES, 2))
    monitor = Monitor(timed)
    for begin in range(0, ROWS, 500):
        monitor.push(_TIMES[begin : begin + 500], _SCORES[begin : begin + 500])
        monitor.answers()
    monitor.advance_to(int(_TIMES[-1]) + 60_000_000)
    Monitor.resume(monitor.snapshot()).finish()


def _groups() -> None:
    """Top-k queries with groups, over arrays."""
    replay(TopK(k=2, size="1 minute", slide="10 seconds", partition_by=["g"]), _TIMES, _SCORES, groups=_GROUPS)


def _frames() -> None:
    """Top-k queries over data frames, and what Spark's workers run: reducers and shards."""
    warm_up()
    queries = [
        TopK(name="all", k=3, size="1 minute", slide="10 seconds", by="x"),
        TopK(name="each", k=2, size="1 minute", slide="1 minute", by="-x", partition_by=["g"]),
    ]
    for id_column in (None, "id"):
        replay(queries, _table(), time="at", id=id_column)


def _aggregates() -> None:
    """Aggregate queries over arrays and data frames."""
    size, slide = "1 minute", "10 seconds"
    for kind in ("sum", "count", "max", "avg", "stddev", "latest", "count_distinct"):
        asked = AggregateTopK(k=3, size=size, slide=slide, key="g", value="x", aggregate=kind)
        aggregate.replay(asked, _TIMES, _GROUPS, None if kind == "count" else _SCORES)
        replay(asked, _table(), time="at")  # type: ignore[arg-type]  # frames of all families
    sketch = AggregateTopK(k=3, size=size, slide=slide, key="g", value="x", method="sketch", counters=5)
    for keys in (np.arange(ROWS), np.arange(ROWS).astype(str)):
        aggregate.replay(sketch, _TIMES, keys, _SCORES)
    aggregate.Monitor.resume(aggregate.Monitor(sketch).snapshot())
    replay(sketch, _table(), time="at")  # type: ignore[arg-type]  # frames of all families


def _uncertain() -> None:
    """Queries over uncertain rows."""
    for semantics in ("pk-topk", "global-topk", "pt-k", "u-kranks", "u-topk", "expected-rank", "prf"):
        more = {"pt-k": {"threshold": 0.2}, "prf": {"weights": [1, 0.5]}}.get(semantics, {})
        asked = UncertainTopK(k=3, size="20 seconds", every="10 seconds", semantics=semantics, **more)  # type: ignore[arg-type]
        uncertain.replay(asked, _TIMES[:600], _SCORES[:600], np.clip(_SCORES[:600], 0.1, 0.9))


def _incomplete() -> None:
    """Queries over incomplete rows, by each method."""
    streams = np.where(_GROUPS % 2 == 0, "a", "b")
    for method in ("exact", "sorted-lists", "approximate", "expected-scores"):
        asked = IncompleteTopK(k=3, size="1 minute", every="10 seconds", streams=["a", "b"], method=method)
        incomplete.replay(asked, _TIMES, _GROUPS, streams, _SCORES)


def _algorithm(name: str) -> Callable[[], None]:
    def run() -> None:
        replay(TopK(k=3, size=500, slide=5), None, _SCORES, algorithm=name)
        replay(TopK(k=3, size="10 seconds", slide="1 second"), _TIMES, np.arange(ROWS) / ROWS, algorithm=name)

    run.__doc__ = f"The algorithm {name} over arrays."
    return run


# By name, the longest first, so that processes end at about the same time.
SETS: dict[str, Callable[[], None]] = {
    "sap": _algorithm("sap"),
    "frames": _frames,
    "arrays": _arrays,
    "aggregates": _aggregates,
    "incomplete": _incomplete,
    "uncertain": _uncertain,
    "groups": _groups,
    **{f"algorithm-{name}": _algorithm(name) for name in algorithms() if name not in ("sap", "panes")},
}
COMMON = ("frames", "arrays", "sap", "aggregates", "groups")  # what a wheel contains


def run_sets(names: Sequence[str]) -> int:
    """Compile or load the sets in this process; return how many kernels were compiled."""
    before = _notice.compiled_kernels()
    for name in names:
        SETS[name]()
    return _notice.compiled_kernels() - before


def precompile(names: Sequence[str], jobs: int, environment: dict[str, str] | None = None) -> None:
    """Compile the sets in `jobs` processes at a time; raise `subprocess.CalledProcessError` if one fails."""
    waiting = list(names)
    running: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-m", "skyband.precompile", "--jobs", "1"]
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                started = [*command, waiting.pop(0)]
                running.append(subprocess.Popen(started, env={**os.environ, **(environment or {})}))
            for process in [ended for ended in running if ended.poll() is not None]:
                running.remove(process)
                if process.returncode:
                    raise subprocess.CalledProcessError(process.returncode, process.args)
            time.sleep(0.05)
    finally:
        for process in running:
            process.terminate()
            process.wait()


def compile_into(folder: Path, names: Sequence[str], jobs: int, level: str | None) -> None:
    """Compile the sets into a folder for a wheel or an archive: for a processor level, or for this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {"NUMBA_CACHE_DIR": str(folder)}
    if level is not None:
        chosen |= {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": level_features(level)}
    precompile(names, jobs, chosen)
    describe = "from skyband.precompile import describe; import sys; describe(sys.argv[1])"
    subprocess.run([sys.executable, "-c", describe, str(folder)], env={**os.environ, **chosen}, check=True)


def describe(folder: str) -> None:
    """Write what the kernels of the folder were compiled for, and delete inner code, which only a compiler needs."""
    from numba.core.registry import cpu_target  # noqa: PLC0415 - only here

    for path in Path(folder).iterdir():
        if path.name.endswith((INNER + ".nbi", INNER + ".1.nbc", ".lock")):
            path.unlink()
    write_manifest(Path(folder), cpu_target.target_context.codegen().magic_tuple())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m skyband.precompile", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"kernel sets (default: all): {', '.join(SETS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per processor)")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="compile for a wheel into this folder")
    parser.add_argument("--level", default="x86-64-v3", help="processor level for --into")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.sets if name not in SETS]
    if unknown:
        parser.error(f"unknown kernel set {unknown[0]!r}; known: {', '.join(SETS)}")
    names = given.sets or list(COMMON if given.into else SETS)
    if given.into:
        compile_into(given.into, names, given.jobs, given.level)
    elif given.jobs == 1:
        run_sets(names)
    else:
        precompile(names, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
