"""Detect secrets in options and server addresses, and mask them in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "HIDDEN",
    "SHORT",
    "SecretsRule",
    "has_literal_secret",
    "hidden",
    "is_secret",
    "secrets_of",
    "secrets_of_file",
    "secrets_within",
    "shown_address",
    "shown_options",
]

HIDDEN = "***"
SHORT = 3  # secrets up to this length are not masked, because they match by chance
_SECRET = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|authorization|(private|access|api|account|shared|sas).?key|\bsas\b"
    r"|jaas|keystore\.key|_auth$",
    re.IGNORECASE,
)
# Matches up to the last @, so that a password with an unescaped @ is masked too.
_PASSWORD = re.compile(r"^([A-Za-z][\w+.:-]*://[^:/@?#]*:|(?![^@]*://)[^:/@?#\s=]*:)(.*)(?=@)", re.DOTALL)
_URI = re.compile(r"\s*[A-Za-z][\w+.:-]*://")
_PARAMETER = re.compile(r"(?P<before>[?&])(?P<name>[^=&#?]*)(?P<equals>=)(?P<value>[^&#]*)")
# libpq's `name = value`, or an option of JAAS. A value in quotes can contain anything. An unquoted value extends to the
# next parameter name of libpq, so that an unquoted password with a space is masked too.
_KEYWORD = re.compile(
    r"""(?P<before>^|[\s;])(?P<name>[\w.%+-]+)(?P<equals>\s*=\s*)
        (?P<value>(?:'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)|).*?)
        (?=\s+(?:application_name|channel_binding|client_encoding|connect_timeout|dbname|fallback_application_name|gss\w+
            |host|hostaddr|keepalives\w*|krbsrvname|load_balance_hosts|options|passfile|password|port|replication
            |require\w+|requirepeer|service|serviceName|ssl\w+|target_session_attrs|tcp_user_timeout|user|username
            )\s*=|;?\s*$)""",
    re.DOTALL | re.VERBOSE,
)
_PIECES = re.compile(r"""[\s@:/?\#,&;='"\\]+""")
_ADDRESSES = ("url", "dsn", "path", "host", "servers", "registry", "master", "checkpoint")


class SecretsRule(NamedTuple):
    """How to pass secrets to a connector without writing them in a workload file."""

    instead: str  # the hint in messages
    allows_default: bool = False  # whether the default of a variable may contain a secret


def is_secret(key: str) -> bool:
    """Whether a key, or a variable's name, denotes a secret.

    >>> is_secret("fs.s3a.secret.key"), is_secret("DB_PASSWORD"), is_secret("port")
    (True, True, False)
    """
    return _SECRET.search(key) is not None


def hidden(message: str, secrets: Iterable[str]) -> str:
    """Mask secrets in a message.

    >>> hidden("no login for alice with hunter2", {"hunter2"})
    'no login for alice with ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        for shown in {secret, repr(secret)[1:-1]}:
            if len(shown) > SHORT:
                message = message.replace(shown, HIDDEN)
    return message


def shown_address(url: str) -> str:
    """Mask secrets in an address.

    >>> shown_address("postgresql://me:hunter2@db:5432/sales?sslmode=require&password=hunter2")
    'postgresql://me:***@db:5432/sales?sslmode=require&password=***'
    >>> shown_address("host=db user=me password = 'hunter 2' dbname=sales")
    'host=db user=me password = *** dbname=sales'
    """
    # Parameters first: an @ in a parameter's password does not precede the host.
    shown = _parameter(url).sub(_without_value, url)
    return _PASSWORD.sub(rf"\1{HIDDEN}", shown)


def _parameter(text: str) -> re.Pattern[str]:
    return _PARAMETER if _URI.match(text) else _KEYWORD


def _without_value(found: re.Match[str]) -> str:
    if not is_secret(unquote(found["name"])):
        return found[0]
    return f"{found['before']}{found['name']}{found['equals']}{HIDDEN}"


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Mask secret values in options.

    >>> shown_options({"sslmode": "require", "password": "hunter2"})
    {'sslmode': 'require', 'password': '***'}
    """
    return {name: HIDDEN if is_secret(name) else value for name, value in options.items()}


def secrets_of(url: str | None, options: Mapping[str, Any]) -> set[str]:
    """Return the secrets in an address and its options, in encoded and decoded form.

    >>> sorted(secrets_of("redis://:a%2Fb@host", {"password": "c"}))
    ['a%2Fb', 'a/b', 'c']
    """
    texts = [url] if url is not None else []
    found = {str(value) for name, value in options.items() if is_secret(name)}
    texts += [str(value) for value in options.values()]
    found |= {secret for text in texts for secret in secrets_within(text)}
    return {one for secret in found for one in _as_written(secret) if one}


def secrets_within(text: str) -> list[str]:
    """Return the secrets in a text: the password of an address, and values of secret parameters.

    >>> secrets_within("host=db password='hunter 2' user=me"), secrets_within("redis://:hunter2@host?db=1")
    (["'hunter 2'"], ['hunter2'])
    """
    parameter = _parameter(text)
    found = [one["value"] for one in parameter.finditer(text) if is_secret(unquote(one["name"]))]
    password = _PASSWORD.match(parameter.sub(_without_value, text))
    return [*found, *([password[2]] if password is not None else [])]


def secrets_of_file(raw: Any) -> set[str]:
    """Return the secrets in the addresses and options of a workload file, including substituted variables.

    >>> sorted(secrets_of_file({"sinks": [{"url": "redis://:hunter2@host"}]}))
    ['hunter2']
    """
    top = raw if isinstance(raw, dict) else {}
    streams, sinks = top.get("streams"), top.get("sinks")
    sections = [top.get("engine"), *(streams.values() if isinstance(streams, dict) else ())]
    found: set[str] = set()
    for section in [*sections, *(sinks if isinstance(sinks, list) else ())]:
        for key, value in section.items() if isinstance(section, dict) else ():
            if isinstance(value, dict) and key in ("options", "settings"):
                found |= secrets_of(None, {str(name): one for name, one in value.items()})
            elif key in _ADDRESSES or is_secret(str(key)):
                for one in value if isinstance(value, list) else [value]:
                    found |= secrets_of(str(one), {key: one} if is_secret(str(key)) else {})
    return found


def _as_written(secret: str) -> set[str]:
    """Return the forms of a secret that can appear in a message: raw, unquoted, decoded, encoded, and parts.

    A server that splits an address at the wrong place reports a part.
    """
    plain = re.sub(r"\\(.)", r"\1", secret[1:-1]) if secret[:1] in ("'", '"') and secret[:1] == secret[-1:] else secret
    forms = {secret, plain, unquote(secret), unquote(plain), quote(unquote(plain), safe="")}
    pieces = {piece for form in forms for piece in _PIECES.split(form) if len(piece) > SHORT}
    return forms | (pieces if len(secret) > SHORT else set())


def has_literal_secret(written: str) -> bool:
    """Whether an address, as written in the file, contains a literal secret.

    >>> has_literal_secret("postgresql://me:hunter2@db/sales"), has_literal_secret("postgresql://me:${PW}@db/sales")
    (True, False)
    >>> has_literal_secret("${URL}"), has_literal_secret("${URL:-redis://:hunter2@host}")
    (False, True)
    """
    filled = re.sub(r"\$\{[A-Za-z_]\w*\}", "\0", written)
    filled = re.sub(r"\$\{[A-Za-z_]\w*:-(.*?)\}", r"\1", filled, flags=re.DOTALL)
    return any(part.strip("'\"") and "\0" not in part for part in secrets_within(filled))
