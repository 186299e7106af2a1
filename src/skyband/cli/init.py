"""`skyband init`: a first workload file, made for the data at hand."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

from skyband.cli.data_search import search_data
from skyband.errors import InvalidInputError
from skyband.workload_file import sample_of, starter

__all__ = ["begin"]


def begin(data: Path | None, file: Path, *, force: bool) -> str:
    """Write the file; return what to tell the user."""
    if file.exists() and not force:
        raise InvalidInputError(
            f"{str(file)!r} is there already and was not touched; "
            "write another with --file, or replace it with --force."
        )
    data = data or search_data(file.parent)
    sample = None if data is None else sample_of(data, besides=[file])
    if sample is not None:
        sample = replace(sample, path=_seen_from(file.parent, Path(sample.path)))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(starter(sample), encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{str(file)!r} cannot be written: {error.strerror or error}.") from error
    name = "" if file == Path("skyband.yaml") else f" {shlex.quote(str(file))}"
    about = "rows that Spark makes up, since there is no data here" if data is None else str(data)
    lines = [
        f"wrote {file}: queries over {about}. Have a look at it, then:",
        "",
        f"  skyband explain{name}      what it means, before anything runs",
        f"  skyband run{name}          follow the stream, live; Ctrl-C stops it",
    ]
    if data is not None:
        lines += [
            f"  skyband run{name} --once   answer every window of what is there now, and end",
            f"  skyband verify{name}       check all answers against brute force",
        ]
    return "\n".join(lines)


def _seen_from(folder: Path, data: Path) -> str:
    """Paths in a workload file are relative to its folder."""
    return str(data) if data.is_absolute() else os.path.relpath(data, folder)
