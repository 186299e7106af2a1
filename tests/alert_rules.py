"""A small evaluator of the alert rules in deploy/, over scrapes of a run."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

RULES = Path(__file__).parents[1] / "deploy" / "prometheus" / "rules.yml"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SELECTOR = r"(?P<name>[a-z_]+)(?:\{[^}]*\})?"


def rules():
    """The alerts by name."""
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def samples(text):
    """The values of a scrape by series: the name, and its labels as they are written."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            found[series] = float(value)
    return found


class Scrapes:
    """Scrapes of one stream at given times, in seconds."""

    def __init__(self, stream):
        self._label, self._taken = f'{{stream="{stream}"}}', []

    def add(self, at, text):
        self._taken.append((at, samples(text)))

    def holds(self, expression):
        """Whether an expression selects the stream now, as an alert does before its `for`."""
        return any(all(self._compares(part) for part in some.split(" and ")) for some in expression.split(" or "))

    def _compares(self, text):
        left, operator, right = re.fullmatch(r"(.+?) (==|>=|<=|>|<) (.+)", text.strip()).groups()
        one, other = self._number(left), self._number(right)
        if one is None or other is None:
            return False
        return {"==": one == other, ">": one > other, "<": one < other, ">=": one >= other, "<=": one <= other}[
            operator
        ]

    def _number(self, text):
        """The value of a product of numbers, functions and series; None if a series is missing."""
        product = 1.0
        for part in text.split(" * "):
            value = self._value(part.strip().removeprefix("(").removesuffix(")") if " offset " in part else part)
            if value is None:
                return None
            product *= value
        return product

    def _value(self, text):
        text = text.strip()
        if re.fullmatch(r"[\d.e]+", text):
            return float(text)
        if found := re.fullmatch(rf"(?P<function>rate|increase|deriv)\({_SELECTOR}\[(?P<range>\w+)\]\)", text):
            values = self._within(found["name"], _seconds(found["range"]))
            if len(values) < 2:
                return None
            (first, low), (last, high) = values[0], values[-1]
            return high - low if found["function"] == "increase" else (high - low) / (last - first)
        found = re.fullmatch(rf"{_SELECTOR}(?: offset (?P<offset>\w+))?", text)
        assert found, f"the evaluator does not know {text!r}"
        until = self._taken[-1][0] - (_seconds(found["offset"]) if found["offset"] else 0)
        values = [value for at, value in self._series(found["name"]) if at <= until]
        return values[-1] if values else None

    def _within(self, name, seconds):
        return [(at, value) for at, value in self._series(name) if at >= self._taken[-1][0] - seconds]

    def _series(self, name):
        return [(at, found[name + self._label]) for at, found in self._taken if name + self._label in found]


def _seconds(text):
    return int(text[:-1]) * UNITS[text[-1]]
