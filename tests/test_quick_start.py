"""The quick start as a newcomer does it: its commands are taken from the page and run, in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import check_docs

PAGE = check_docs.ROOT / "docs" / "tutorial" / "quick_start.md"
MOST_STARTS = 4  # of Spark, each of which takes a while


def steps():
    """The page's commands, each with the lines that the page shows of what comes out."""
    found: list[tuple[check_docs.Block, list[str]]] = []
    for block in check_docs.blocks(PAGE):
        if block.mark == "bash":
            found.append((block, []))
        elif block.mark == "text":
            found[-1][1].extend(block.text.splitlines())
    return found


def missing(shown, printed):
    """The lines shown that are not among those printed, in their order; a shown line may be a part of a printed one."""
    lines = iter(printed.splitlines())
    return [line for line in shown if not any(line.strip() in other for other in lines)]


def test_the_page_has_commands_with_what_they_print():
    assert len(steps()) >= 6
    assert sum(bool(shown) for _, shown in steps()) >= 6


def test_spark_is_started_a_few_times_only():
    text = "".join(block.text for block, _ in steps())
    assert len(re.findall(r"^skyband (?:run|verify)\b", text, re.MULTILINE)) <= MOST_STARTS


def test_a_line_that_is_not_printed_is_found():
    assert missing(["a", "c"], "xax\nb\ncc\n") == []
    assert missing(["c", "a"], "a\nc\n") == ["a"]


@pytest.mark.long
def test_the_commands_work_as_pasted(tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for block, shown in steps():
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        where = f"{PAGE.name}:{block.line}"
        assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"
        assert missing(shown, done.stdout) == [], f"{where}\n{done.stdout}\n{done.stderr}"
