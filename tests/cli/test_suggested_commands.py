"""What messages tell people to type: the commands exist, with these options and so many arguments."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer

import skyband
from skyband.cli.main import app

ROOT = typer.main.get_command(app)
HINT = re.compile(r"(?<![\w./-])skyband ([a-z]+)((?: [^\s`]+)*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHERS = {"--packages", "--jars", "--jobs", "--into", "--level"}  # of Spark, and of skyband.precompile


def texts():
    """All texts in the source but docstrings of modules; what is filled in is a §."""
    for path in sorted(Path(skyband.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield path.name, "".join(part.value if isinstance(part, ast.Constant) else "§" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.name, node.value


def options_of(command):
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def wrong(text):
    """What is wrong with the commands that a text names; nothing if all is well."""
    for found in HINT.finditer(text):
        words = found[0].split()[1:]
        command = ROOT.commands.get(words.pop(0))  # "skyband demo" is one, "skyband folder" is not
        if hasattr(command, "commands"):
            name = words.pop(0).strip(".,;:)") if words else ""
            command = command.commands.get(name)
            if command is None and name and name != "§":
                yield f"{found[0]}: no such command"
        if command is not None:
            yield from (f"{found[0]}: {problem}" for problem in wrong_words(command, words))


def wrong_words(command, words):
    places = sum(parameter.param_type_name == "argument" for parameter in command.params)
    options = {name: parameter for parameter in command.params for name in parameter.opts}
    while words and (words[0].startswith("-") or "§" in words[0]):
        word = words.pop(0).strip(".,;:)")
        if word.startswith("-"):
            if word not in options_of(command):
                yield f"no option {word}"
            elif word in options and not options[word].is_flag and words:
                words.pop(0)
        elif (places := places - 1) < 0:
            yield f"takes no argument {word}"


def test_commands_in_messages_are_real():
    assert [(name, problem) for name, text in texts() for problem in wrong(text)] == []


def test_options_in_messages_are_real():
    known = {"--help", "--version", *OTHERS}
    waiting = [ROOT]
    while waiting:
        command = waiting.pop()
        known |= options_of(command)
        waiting += command.commands.values() if hasattr(command, "commands") else []
    found = {(name, option) for name, text in texts() for option in OPTION.findall(text)}
    assert {(name, option) for name, option in found if option not in known} == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Look with skyband ctl list §.", "takes no argument"),
        ("Look with `skyband ctl list --path §`", "no option --path"),
        ("skyband ctl remove §", "no such command"),
        ("skyband ctl list --file §", None),
        ("skyband run § --once", None),
        ("skyband explain says which", None),
    ],
)
def test_what_is_wrong_is_found(text, said):
    problems = list(wrong(text))
    assert problems == [] if said is None else said in problems[0]
