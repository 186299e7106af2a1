"""Tables of names with descriptions: the keys of a workload file, the algorithms."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from skyband.cli.terminal import console
from skyband.workload_file import keys

__all__ = ["print_keys", "print_table"]

WIDE = 1000  # columns if stdout is not a terminal, so that each row is one line


def print_keys() -> None:
    """Print all keys of a workload file."""
    print_table((key.path, f"{key.type}{_default(key.default)}", key.description) for key in keys())


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows of text as a table."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        if not table.columns:
            table.add_column(style="bold cyan", no_wrap=True)
            for _ in row[1:]:
                table.add_column()
        table.add_row(*row)
    out = console()
    if not out.is_terminal:
        out.width = WIDE
    out.print(table)


def _default(value: object) -> str:
    return "" if value is None else f", default {value}"
