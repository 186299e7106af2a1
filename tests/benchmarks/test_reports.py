"""A benchmark that takes an hour must find the place for its results."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from benchmarks import report

# The page for users repeats some numbers of a report.
SUMMARY = report.REPORTS.parents[1] / "docs" / "explanation" / "performance.md"
MODULES = sorted(Path(report.__file__).parent.glob("bench_*.py"))


def marks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    begins, ends = (re.findall(rf"<!-- {side} (\S+) -->", text) for side in ("begin", "end"))
    assert begins == ends, page
    return begins


def written(module: Path) -> tuple[Path, set[str]]:
    """The report of a module, and patterns of the names of what it writes there."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    page, found = report.PAGE, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(one.name == "PAGE" for one in node.names):
            page = written(module.parent.parent / f"{node.module.replace('.', '/')}.py")[0]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGE":
            page = report.REPORTS / ast.literal_eval(node.value.right)
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("report.show", "report.into_page"):
            continue
        if any(key.arg == "write" and ast.unparse(key.value) == "False" for key in node.keywords):
            continue
        if any(key.arg == "page" and ast.unparse(key.value) == "SUMMARY" for key in node.keywords):
            assert ast.literal_eval(node.args[0]) in marks(SUMMARY)
            continue
        name = node.args[0]
        if isinstance(name, ast.Constant):
            found.add(re.escape(name.value))
        elif isinstance(name, ast.JoinedStr):
            parts = [re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in name.values]
            found.add("".join(parts))
    return page, found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_reports_have_the_marks_of_their_benchmarks(module):
    page, names = written(module)
    if names:
        known = marks(page)
        assert {name for name in names if not any(re.fullmatch(name, mark) for mark in known)} == set()


def test_the_names_are_found():
    """Otherwise the test above compares nothing."""
    assert "page\\-ratios" in written(Path(report.__file__).parent / "bench_page.py")[1]
    assert sum(len(written(module)[1]) for module in MODULES) > 60


def test_results_replace_what_was_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- begin one -->\nold\n<!-- end one -->\nb\n", encoding="utf-8")
    report.into_page("one", "new \\1", page=page)
    assert page.read_text(encoding="utf-8") == "a\n<!-- begin one -->\nnew \\1\n<!-- end one -->\nb\n"


def test_a_missing_report_or_mark_is_an_error(tmp_path):
    page = tmp_path / "page.md"
    with pytest.raises(LookupError, match="does not exist"):
        report.into_page("one", "new", page=page)
    page.write_text("<!-- begin one -->\n<!-- end two -->\n", encoding="utf-8")
    with pytest.raises(LookupError, match="has 0 pairs"):
        report.into_page("one", "new", page=page)
    page.write_text("<!-- begin one --><!-- end one -->" * 2, encoding="utf-8")
    with pytest.raises(LookupError, match="has 2 pairs"):
        report.into_page("one", "new", page=page)
