"""The search for phrases, over made-up files: which texts are searched, and how a hit is allowed."""

from __future__ import annotations

import pytest
from tools import check_words

PHRASES = """
[phrases]
'nobody' = 'name the user'
'is told' = 'is reported'
'(?<!there )is no' = 'is not a'
'refuse' = 'reject'
"""


@pytest.fixture
def hits(tmp_path):
    """What is found in a file: lines and messages."""

    def found(name, text):
        path = tmp_path / name
        path.write_text(text)
        lines = check_words.problems(path, check_words.phrases_of(PHRASES))
        return [line.removeprefix(f"{path}:") for line in lines]

    return found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Nobody listens.\n", "1: 'Nobody': name the user"),
        ("x = 1  # this is\n", None),
        ("# this is\n#   told\n", "1: 'is told': is reported"),
        ('def f():\n    """Return one.\n\n    The rest is\n    told later.\n    """\n', "4: 'is told': is reported"),
        ('raise E(\n    "the row is "\n    f"told {x}"\n)\n', "2: 'is told': is reported"),
        ('raise E(f"{count} rows: nobody reads {them}")\n', "1: 'nobody': name the user"),
        ('print("There is no row.")\n', None),
        ('print("A row is no column.")\n', "1: 'is no': is not a"),
        ('late = "refuse"\n', None),  # a value, not a text
        ('"""Rows are late: ``late="refuse"`` stops the stream."""\n', None),
        ('"""They refuse it."""\n', "1: 'refuse': reject"),
        ('nobody = f("a" if is_told else "b c")\n', None),  # names
        ('raise E(f"{nobody} sent it")\n', None),
        ('f("this is", x, "told later")\n', None),  # two texts
    ],
)
def test_python(hits, text, line):
    assert hits("module.py", text) == ([line] if line else [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("One.\nNobody\nlistens.\n", "2: 'Nobody': name the user"),
        ("A `nobody` in code, [a link](nobody.md).\n", None),
        ("```text\nnobody\n```\n\nThe row is\ntold.\n", "5: 'is told': is reported"),
        ("- item\n  ```text\n  nobody\n  ```\n", None),
        ("| `a` is | told |\n", None),
        ("End the line with `<!-- words: allow -->`.\n", None),
    ],
)
def test_pages(hits, text, line):
    assert hits("page.md", text) == ([line] if line else [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("// nobody reads it\n", "1: 'nobody': name the user"),
        ("const nobody = 1;\n", None),
        ("show('refuse');\n", None),
        ("show('We refuse it');\n", "1: 'refuse': reject"),
        ("return <p>\n  Nobody reads it.\n</p>;\n", "2: 'Nobody': name the user"),
        ("/* one\n   is told */\n", "2: 'is told': is reported"),
        ("f = (x: A<B>) => x;\nrefuse: string = y < z;\n", None),
    ],
)
def test_front(hits, text, line):
    assert hits("view.tsx", text) == ([line] if line else [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("module.py", "# Nobody listens.  # words: allow\n"),
        ("module.py", '"""One.\n\nNobody listens.\n"""  # words: allow\n'),
        ("page.md", "Nobody listens. <!-- words: allow -->\n"),
        ("view.ts", "f('nobody listens');  // words: allow\n"),
    ],
)
def test_a_marker_allows_a_line(hits, name, text):
    assert hits(name, text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("module.py", "x = 1\ny = 2  # words: allow\n"),
        ("page.md", "One.\nTwo. <!-- words: allow -->\n"),
        ("view.ts", "f();\ng();  // words: allow\n"),
    ],
)
def test_a_marker_that_allows_nothing_is_rejected(hits, name, text):
    assert hits(name, text) == ["2: this marker allows nothing; remove it"]


def test_the_list_is_valid_and_covers_the_repository():
    phrases = check_words.phrases_of((check_words.ROOT / "tools" / "words.toml").read_text())
    assert all(phrase.instead for phrase in phrases)
    names = {str(path.relative_to(check_words.ROOT)) for path in check_words.sources()}
    assert {"src/skyband/errors.py", "tools/audit.py", "front/src/main.tsx", "README.md", "docs/README.md"} <= names


def test_hits_are_printed_and_fail(capsys, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("It goes on.\n")
    monkeypatch.setattr(check_words, "sources", lambda: [page])
    assert check_words.main() == 1
    assert capsys.readouterr().err == f"{page}:1: 'goes on': continue\n"
    page.write_text("It continues.\n")
    assert check_words.main() == 0


def test_make_check_runs_it():
    makefile = (check_words.ROOT / "Makefile").read_text()
    recipe = makefile.split("\ncheck:")[1].split("\n\n")[0]
    assert "tools/check_words.py" in recipe
