"""``${NAME}`` and ``${NAME:-default}`` in values: filled in from the environment, kept out of messages if secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from skyband.connectors.secrets import hidden, is_secret
from skyband.workload_file.tree import Loc, spelled

__all__ = ["Environment"]

_USE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Environment:
    """Fills in variables, and remembers the secret ones so that no message shows them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._secrets: set[str] = set()

    def fill(self, text: str, loc: Loc) -> str:
        """The text with its variables filled in; ValueError for one that has no value and no default.

        >>> Environment({"PORT": "9999"}).fill("${HOST:-localhost}:${PORT} $${PORT}", ("host",))
        'localhost:9999 ${PORT}'
        """
        missing = []

        def value(use: re.Match[str]) -> str:
            if use[1] is None:
                return "${"
            named = _NAME.fullmatch(use[1])
            if named is None or not use[2]:
                raise ValueError(
                    f"{use[0]!r} names no environment variable; write ${{NAME}} or ${{NAME:-default}}, and $${{ for a "
                    "literal ${."
                )
            name, default = named[1], named[2]
            found = self._variables.get(name)
            if default is not None and not found:
                return default
            if found is None:
                missing.append(name)
                return ""
            if is_secret(spelled(loc)) or is_secret(name):
                self._secrets.add(found)
            return found

        filled = _USE.sub(value, text)
        if missing:
            names = list(dict.fromkeys(missing))
            first = names[0]
            raise ValueError(
                f"{text!r} needs the environment variable{'s' if len(names) > 1 else ''} {', '.join(names)}, which "
                f"{'are' if len(names) > 1 else 'is'} not set; export {first}=…, or write ${{{first}:-default}}."
            )
        return filled

    def know(self, secrets: Iterable[str]) -> None:
        """Further secrets, which no message may show."""
        self._secrets.update(secrets)

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values that have been filled in, and those that are known besides."""
        return frozenset(self._secrets)

    def hide(self, message: str) -> str:
        """The message without secrets; short ones may be anywhere by chance, and are hidden where values are shown.

        >>> environment = Environment({"TOKEN": "abc123"})
        >>> environment.hide(environment.fill("name is ${TOKEN}", ("name",)))
        'name is ***'
        """
        return hidden(message, self._secrets)
