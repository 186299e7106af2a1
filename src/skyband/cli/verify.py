"""`skyband verify`: a bounded input against an evaluation that knows no tricks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from skyband.cli.spark_session import said, spark_for
from skyband.cli.terminal import cell, console, spoken
from skyband.errors import InvalidInputError
from skyband.queries.families import family_of, refuse_unsupported
from skyband.workload_file import WorkloadFile, read_workload

__all__ = ["verify_file"]

DIFFERENT = 1


def verify_file(path: Path, *, answers: Path | None, unfinished: bool, as_json: bool, verbose: bool) -> int:
    """Verify every stream of the file, or the answers in a folder; return 0 if all agree, 1 if some do not."""
    file = read_workload(path)
    _refuse_misuse(answers, unfinished=unfinished)
    _refuse_other_types(file)
    talk, out = console(stderr=True), console()
    found: dict[str, Any] = {}
    with spark_for(talk, f"skyband verify {path.stem}", file.engine, verbose=verbose, kafka=file.needs_kafka) as spark:
        from skyband.jobs.verification import verify  # noqa: PLC0415 - loading Spark takes seconds

        for name in file.workloads:
            with said(talk, f"{name}: reading…"):
                found[name] = verify(
                    spark,
                    file,
                    name,
                    lambda line: talk.print(line, style="dim"),
                    answers=answers,
                    unfinished=unfinished,
                )
    if as_json:
        out.file.write(json.dumps({name: _plain(one) for name, one in found.items()}, default=str) + "\n")
    else:
        for name, one in found.items():
            _tell(out, name, one)
    return 0 if all(one.agrees for one in found.values()) else DIFFERENT


def _refuse_misuse(answers: Path | None, *, unfinished: bool) -> None:
    if answers is not None and not answers.is_dir():
        raise InvalidInputError(
            f"--answers {str(answers)!r} is not a folder on this machine; name the folder that a run has written to."
        )
    if unfinished and answers is None:
        raise InvalidInputError(
            "--unfinished is for --answers: without it, the whole input is answered, and every window must be there."
        )


def _refuse_other_types(file: WorkloadFile) -> None:
    for name, workload in file.workloads.items():
        refuse_unsupported(family_of(workload), "verification", f"verification of stream {name!r}")


def _plain(one: Any) -> dict[str, Any]:
    return {**one._asdict(), "difference": one.difference._asdict(), "agrees": one.agrees}


def _tell(out: Any, name: str, one: Any) -> None:
    found = one.difference
    windows = "" if one.windows is None else f", {one.windows:,} windows answered"
    dropped_null = f", {one.dropped_null:,} {spoken('dropped_null')}" if one.dropped_null else ""
    out.print(f"{name}: {one.rows:,} rows{dropped_null}{windows}")
    one_pass = "" if one.seconds is None else f"one pass {one.seconds:.1f} s, "
    out.print(f"  {one_pass}brute force in Spark SQL {one.seconds_by_brute_force:.1f} s")
    if one.not_final:
        out.print(f"  {one.not_final:,} rows of windows that are not answered yet were not compared")
    if one.agrees:
        out.print(f"  all {found.compared:,} rows of answers agree", style="bold green")
        return
    out.print(
        f"  {found.missing:,} of {found.compared:,} rows of answers are missing, {found.unexpected:,} are unexpected",
        style="bold red",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for column in found.examples[0]:
        table.add_column(column.removeprefix("__"), no_wrap=True)
    for row in found.examples:
        table.add_row(*map(cell, row.values()))
    out.print(table)
