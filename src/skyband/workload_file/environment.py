"""Environment variables in values, ``${NAME}`` and ``${NAME:-default}``. Secret values are hidden in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from skyband.connectors.secrets import hidden, is_secret
from skyband.workload_file.tree import Loc, spelled

__all__ = ["Environment"]

_USE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Environment:
    """Substitutes variables, and collects secret values to hide them in messages."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._secrets: set[str] = set()

    def fill(self, text: str, loc: Loc) -> str:
        """Substitute the variables in a text. Raises ValueError for a variable without value and default.

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
                    f"{use[0]!r} is not an environment variable; write ${{NAME}} or ${{NAME:-default}}, or $${{ for a "
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
        """Add further secrets to hide."""
        self._secrets.update(secrets)

    @property
    def secrets(self) -> frozenset[str]:
        """All secret values: substituted ones and added ones."""
        return frozenset(self._secrets)

    def hide(self, message: str) -> str:
        """Remove secrets from a message. Short secrets could match any text, so they are hidden only in values.

        >>> environment = Environment({"TOKEN": "abc123"})
        >>> environment.hide(environment.fill("name is ${TOKEN}", ("name",)))
        'name is ***'
        """
        return hidden(message, self._secrets)
