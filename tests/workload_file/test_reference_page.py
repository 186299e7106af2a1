"""The page names every key, and its first file is sound."""

from __future__ import annotations

from pathlib import Path

from tools import check_docs

from skyband.workload_file import keys

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "workload_files.md"


def test_every_key_is_on_the_page():
    text = PAGE.read_text()
    assert [key.path for key in keys() if f"`{key.path.rpartition('.')[2]}`" not in text] == []


def test_the_first_block_is_a_workload_file(read):
    block = next(block for block in check_docs.blocks(PAGE) if block.mark == "yaml")
    assert list(read(block.text).workloads["trades"].queries)


def test_its_python_runs():
    assert check_docs.run_python(PAGE) >= 5
    assert check_docs.broken_links(PAGE) == []
