"""The pages tell the truth: their Python runs, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
from tools import check_docs

import skyband as sb
from skyband.cli import prometheus
from skyband.cli.main import CODES, app
from skyband.topk.algorithms import algorithms

PAGES = check_docs.pages()


def name(page: Path) -> str:
    return str(page.relative_to(check_docs.ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_run(page, capsys):
    check_docs.run_python(page)
    capsys.readouterr()  # what a page prints is for its reader


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    assert check_docs.broken_links(page) == []


def test_readme_shows_python_that_runs():
    assert check_docs.run_python(check_docs.ROOT / "README.md") >= 1


def test_readme_is_short():
    assert len((check_docs.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_workload_file_of_the_readme_is_sound(tmp_path):
    block = next(block for block in check_docs.blocks(check_docs.ROOT / "README.md") if block.mark == "yaml")
    path = tmp_path / "skyband.yaml"
    path.write_text(block.text)
    assert list(sb.read_workload(path).workloads["trades"].queries)


def test_every_algorithm_is_listed_with_its_page():
    page = check_docs.ROOT / "docs" / "explanation" / "algorithms" / "README.md"
    assert [known for known in algorithms() if f"]({known}.md)" not in page.read_text(encoding="utf-8")] == []


def test_the_performance_page_is_short():
    page = check_docs.ROOT / "docs" / "explanation" / "performance.md"
    assert len(page.read_text(encoding="utf-8").split()) <= 1500


def test_every_metric_is_on_its_page():
    page = (check_docs.ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert [name for name, *_ in prometheus.METRICS if f"`skyband_{name}`" not in page] == []


def test_a_broken_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](#here) [b](#there) [c](gone.md)\n```text\n[d](also_gone.md)\n```\n`[e](code.md)`\n")
    assert check_docs.broken_links(page) == [
        "page.md:2: #there is not a heading of that page",
        "page.md:2: gone.md does not exist",
    ]


def test_python_that_fails_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\n\n```python\nassert a == 2\n```\n")
    with pytest.raises(AssertionError):
        check_docs.run_python(page)


class TestCommandLine:
    """Every command and option that help lists is on the page, in the command's own part of it."""

    PAGE = (check_docs.ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
    COMMANDS = typer.main.get_command(app).commands

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_command_has_a_part_with_all_its_options(self, command):
        assert f"\n## skyband {command}\n" in self.PAGE
        part = self.PAGE.split(f"\n## skyband {command}\n")[1].split("\n## ")[0]
        options = [name for option in self.COMMANDS[command].params for name in (*option.opts, *option.secondary_opts)]
        assert [name for name in options if name.startswith("-") and f"`{name}`" not in part] == []

    def test_what_the_program_itself_takes_is_there(self):
        known = [name for option in typer.main.get_command(app).params for name in option.opts]
        assert {"--version", "--install-completion", "--show-completion"} <= set(known)
        assert [name for name in known if f"skyband {name}" not in self.PAGE] == []

    def test_every_exit_code_is_there(self):
        codes = re.findall(r"\b(\d+) ", CODES)
        assert codes == ["0", "1", "2", "3", "4", "130"]
        assert [code for code in codes if f"\n| {code} |" not in self.PAGE] == []
