"""The reference page lists exactly the functions that exist."""

from __future__ import annotations

from pathlib import Path

from skyband.expressions import compiler
from skyband.expressions.registry import FUNCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "expressions.md"


def tables():
    """The tables of the page, by topic: one row for each function."""
    assert compiler.compile_expression  # importing it registers the functions
    found = {}
    for entry in dict.fromkeys(FUNCTIONS.values()):
        usage = entry.usage.replace("|", "\\|")
        others = f"Also {', '.join(f'`{name}`' for name in entry.other_names)}. " if entry.other_names else ""
        found.setdefault(entry.topic, []).append(f"| `{usage}` | {others}{entry.note} |".replace("  |", " |"))
    return found


def test_the_page_lists_every_function():
    lines = PAGE.read_text().splitlines()
    for topic, rows in tables().items():
        start = lines.index(f"### {topic.capitalize()}")
        table = [line for line in lines[start + 4 : start + 5 + len(rows)] if line.startswith("|")]
        assert table == rows, f"the table of {topic} should be:\n" + "\n".join(rows)
