"""`skyband verify`: compare answers over a bounded input with a brute-force evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from skyband.cli.spark_session import progress, spark_for
from skyband.cli.terminal import cell, console, dropped_rows, spoken
from skyband.connectors.answer_sums import SUMS
from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError
from skyband.queries.families import family_of, refuse_unsupported
from skyband.workload_file import WorkloadFile, read_workload

__all__ = ["verify_file"]

DIFFERENT = 1


def verify_file(
    path: Path,
    *,
    answers: Path | None,
    unfinished: bool,
    as_json: bool,
    verbose: bool,
    joined: bool = False,
    local: bool = False,
    checksums: bool = False,
) -> int:
    """Verify every stream of the file, or the answers in a folder. Return 0 if all answers agree, else 1."""
    file = read_workload(path)
    if checksums:
        if answers is not None or unfinished or joined or local:
            raise InvalidInputError(
                "--checksums compares no answers, so it cannot be combined with --answers, --unfinished, --joined or "
                "--local. Run both commands."
            )
        return _check_files(file, as_json=as_json)
    _refuse_misuse(answers, unfinished=unfinished, joined=joined)
    _refuse_other_types(file)
    talk, out = console(stderr=True), console()
    local = local or _is_only_local(file, talk)
    options = {"answers": answers, "unfinished": unfinished, "joined": joined}
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        if local:
            from skyband.jobs.local_verification import verify_local  # noqa: PLC0415 - loads compiled code

            compare: Callable[..., Any] = partial(verify_local, file)
        else:
            app = f"skyband verify {path.stem}"
            spark = stack.enter_context(spark_for(talk, app, file.engine, verbose=verbose, kafka=file.needs_kafka))
            from skyband.jobs.verification import verify  # noqa: PLC0415 - loading Spark takes seconds

            compare = partial(verify, spark, file)
        for name in file.workloads:
            with progress(talk, f"{name}: reading…"):
                found[name] = compare(name, lambda line: talk.print(line, style="dim"), **options)
    if as_json:
        out.file.write(json.dumps({name: _plain(one) for name, one in found.items()}, default=str) + "\n")
    else:
        for name, one in found.items():
            _print_result(out, name, one, "in this process" if local else "in Spark SQL")
    return 0 if all(one.agrees for one in found.values()) else DIFFERENT


def _check_files(file: WorkloadFile, *, as_json: bool) -> int:
    """Compare the files of answers of every stream with their checksums. Return 0 if all agree, else 1."""
    from skyband.jobs.verified import checked_files  # noqa: PLC0415 - loads compiled code

    out = console()
    found = {name: checked_files(file, name) for name in file.workloads}
    if as_json:
        shown = {name: {**one._asdict(), "intact": one.are_intact} for name, one in found.items()}
        out.file.write(json.dumps(shown) + "\n")
        return 0 if all(one.are_intact for one in found.values()) else DIFFERENT
    for name, one in found.items():
        out.print(f"{name}: {one.agree:,} files of answers agree with their checksums", style="green")
        for file_name in one.changed:
            out.print(f"  {file_name} was changed or damaged after it was written", style="bold red", soft_wrap=True)
        for file_name in one.missing:
            out.print(f"  {file_name} was removed", style="bold red", soft_wrap=True)
        if one.unreadable:
            lines = ", ".join(map(str, one.unreadable))
            out.print(
                f"  {file.checkpoint_of(name)}/{SUMS} is damaged in line {lines}", style="bold red", soft_wrap=True
            )
        if one.unknown:
            out.print(f"  {len(one.unknown):,} files have no checksum, such as {one.unknown[0]}", soft_wrap=True)
        if not one.are_intact:
            out.print(
                "  Restore these files from a copy; or start over with skyband run --fresh, if the input is still "
                "there. The state of the run is not affected.",
                soft_wrap=True,
            )
    return 0 if all(one.are_intact for one in found.values()) else DIFFERENT


def _is_only_local(file: WorkloadFile, talk: Any) -> bool:
    """Return whether the file can be verified without Spark, and Spark is missing or cannot read it; print it."""
    from skyband.jobs.engine_choice import why_no_spark, why_not_local  # noqa: PLC0415 - loads compiled code

    streams = (file.streams[name] for name in file.workloads)
    readers = (one.by_tasks_only for one in streams if isinstance(one, FilesSource))
    missing = next(filter(None, readers), None) or why_no_spark()
    if missing is None or why_not_local(file) is not None:
        return False
    talk.print(f"verifies in this process, without Spark: {missing}", soft_wrap=True)
    return True


def _refuse_misuse(answers: Path | None, *, unfinished: bool, joined: bool) -> None:
    if answers is not None and not answers.is_dir():
        raise InvalidInputError(
            f"--answers must be a folder on this machine that a run has written to, got {str(answers)!r}."
        )
    if (unfinished or joined) and answers is None:
        raise InvalidInputError(
            f"--{'unfinished' if unfinished else 'joined'} requires --answers. Without --answers, the whole input is "
            "evaluated and every window exists."
        )


def _refuse_other_types(file: WorkloadFile) -> None:
    for name, workload in file.workloads.items():
        refuse_unsupported(family_of(workload), "verification", f"verification of stream {name!r}")


def _plain(one: Any) -> dict[str, Any]:
    return {**one._asdict(), "difference": one.difference._asdict(), "agrees": one.agrees}


def _print_result(out: Any, name: str, one: Any, where: str) -> None:
    found = one.difference
    windows = "" if one.windows is None else f", {one.windows:,} windows emitted"
    dropped_null = f", {one.dropped_null:,} {spoken('dropped_null')}" if one.dropped_null else ""
    out.print(f"{name}: {one.rows:,} rows{dropped_null}{windows}")
    one_pass = "" if one.seconds is None else f"one pass {one.seconds:.1f} s, "
    out.print(f"  {one_pass}brute force {where} {one.seconds_by_brute_force:.1f} s")
    if one.unreadable:
        out.print(f"  {dropped_rows('unreadable', one.unreadable, one.rows)}", style="yellow")
    if one.not_final:
        out.print(f"  {one.not_final:,} rows of windows that are not emitted yet were not compared")
    if one.earlier:
        out.print(f"  {one.earlier:,} rows of windows before the first one of their query were not compared")
    if one.agrees:
        out.print(f"  all {found.compared:,} answer rows agree", style="bold green")
        return
    out.print(
        f"  {found.missing:,} of {found.compared:,} answer rows are missing, {found.unexpected:,} are unexpected",
        style="bold red",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for column in found.examples[0]:
        table.add_column(column.removeprefix("__"), no_wrap=True)
    for row in found.examples:
        table.add_row(*map(cell, row.values()))
    out.print(table)
