"""The format of a data file by its name, or by its first bytes if the name does not have the extension of a format."""

from __future__ import annotations

import json
import re
from pathlib import Path

from skyband.connectors.file_formats import Format, format_of, is_packed

__all__ = ["format_by_content", "format_of_file"]

_HEAD = 65_536  # bytes that are read
# Files without an extension, parts with a number as extension, and extensions that do not denote a format.
_NEUTRAL = re.compile(r"^[^.]+$|\.(?:txt|dat|data|part|out|\d+)$|(?:^|[-_.])part-[^.]*$", re.IGNORECASE)
_TIME = re.compile(r'^"?(?:\d{4}[-/]\d{2}[-/]\d{2}(?:[ T].*)?|\d{10}|\d{13}|\d{16})"?$')


def format_of_file(file: Path) -> Format | None:
    """Return the format by the extension, or by the content if the extension does not denote a format."""
    return format_of(file.name) or format_by_content(file)


def format_by_content(file: Path) -> Format | None:
    r"""Return the format of a file whose name does not denote one; None if it does, or if the content is not data.

    Lines are CSV if the first two have equally many cells, and the second has a time.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "part-00000")
    ...     _ = file.write_text("ts;price\n2024-01-01 09:30:00;9.5\n")
    ...     format_by_content(file)
    'csv'
    """
    bare = file.name.removesuffix(file.suffix) if is_packed(file.name) else file.name
    if format_of(file.name) or not _NEUTRAL.search(bare) or not file.is_file():  # a pipe would never end
        return None
    try:
        head = _head(file)
    except (OSError, ValueError):  # a damaged compressed file; Arrow's errors are ValueErrors
        return None
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"Obj\x01"):
        return "avro"
    lines = [line.strip("\r") for line in head.decode("utf-8", "replace").lstrip("\ufeff").split("\n") if line.strip()]
    if not lines or "\x00" in lines[0] or "\ufffd" in lines[0]:
        return None
    return "json" if _is_json(lines[0]) else "csv" if _is_csv(lines[:2]) else None


def _head(file: Path) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - loaded when data is read

    with pa.input_stream(str(file), compression="detect" if is_packed(file.name) else None) as stream:
        head: bytes = stream.read(_HEAD)
    return head


def _is_json(line: str) -> bool:
    """Whether a line is an object, or the begin of a list of objects or of an object over several lines."""
    if re.fullmatch(r"\s*(?:\[\s*\{?|\{)\s*", line):
        return True
    try:
        found = json.loads(line)
    except ValueError:
        return re.match(r'\s*(?:\[\s*)?\{\s*"[^"]*"\s*:', line) is not None
    return isinstance(found, dict) or (isinstance(found, list) and bool(found) and isinstance(found[0], dict))


def _is_csv(lines: list[str]) -> bool:
    if len(lines) < 2:
        return False
    separator = max(",;\t|", key=lines[0].count)
    header, cells = (line.split(separator) for line in lines)
    return len(header) == len(cells) > 1 and any(_TIME.match(cell.strip()) for cell in cells)
