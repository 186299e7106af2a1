"""The notebooks run as they are, and what they show is displayed as HTML."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.programs import LONGEST

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
LONG = ("spark_live_board",)  # starts Spark


def executed(name):
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(book, timeout=LONGEST, resources={"metadata": {"path": str(FOLDER)}}).execute()
    return {cell.source: cell.outputs for cell in book.cells if cell.cell_type == "code"}


def shown(outputs):
    """The HTML that the last expression of a cell is displayed as."""
    (found,) = [one for one in outputs if one.output_type == "execute_result"]
    return found.data["text/html"]


def test_every_notebook_is_tested_and_stored_without_outputs():
    paths = sorted(FOLDER.glob("*.ipynb"))
    assert [path.stem for path in paths] == ["in_process", *LONG]
    for path in paths:
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        assert not [cell for cell in book.cells if cell.get("outputs") or cell.get("execution_count")]


def test_in_process():
    cells = executed("in_process")
    explained = shown(cells["work.explain()"])
    assert explained.startswith("<pre>2 queries over event time")
    tables = [outputs for source, outputs in cells.items() if source.endswith(("\nwork", "\nanswers"))]
    queries, answers = map(shown, tables)
    assert "<td>price * shares</td>" in queries
    assert answers.count("<tr>") == 21  # a header and 20 rows
    assert "more rows</p>" in answers


@pytest.mark.long
def test_on_spark_with_a_live_board():
    cells = executed("spark_live_board")
    before, after = [shown(outputs) for source, outputs in cells.items() if source.endswith("\nhandle")]
    assert "<b>Stream: running</b>" in before
    assert "<b>Stream: ended</b>" in after
    assert "<td>rows</td><td>20000</td>" in after
    (board,) = [outputs for source, outputs in cells.items() if source.startswith("def newest")]
    assert "<th>rank</th>" in board[0].data["text/html"]
