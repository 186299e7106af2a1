"""A parser for Spark's expressions, with Spark's precedence of operators.

From tight to loose: ``::``, unary ``-`` and ``+``, ``* / % DIV``, ``+ - ||``, comparisons, one predicate such as
``IS NULL``, ``IN`` or ``LIKE``, ``NOT`` and ``!``, ``AND``, ``OR``. Decision 47 explains why this is not sqlglot's
tree.
"""

from __future__ import annotations

from skyband.expressions import literals
from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.syntax import Call, Cast, ColumnName, Syntax
from skyband.expressions.tokens import Lexeme, tokenize

__all__ = ["parse"]

_BINARY = (
    {"=": "=", "==": "=", "<=>": "<=>", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
    {"+": "+", "-": "-", "||": "||"},
    {"*": "*", "/": "/", "%": "%", "DIV": "div"},
)
_TRUTHS = {"TRUE": True, "FALSE": False}
_RESERVED = {
    "AND",
    "OR",
    "NOT",
    "IS",
    "IN",
    "LIKE",
    "ILIKE",
    "RLIKE",
    "REGEXP",
    "BETWEEN",
    "DIV",
    "WHEN",
    "THEN",
    "ELSE",
}
_RESERVED |= {"END", "AS", "FROM", "ESCAPE", "SELECT"}


def parse(text: str) -> Syntax:
    """Return the syntax tree of an expression.

    >>> parse("a <> 'D'")
    Call(name='<>', args=(ColumnName(name='a'), Literal(value='D', type=DataType(string), unit='')))
    """
    reader = _Parser(text)
    try:
        found = reader.disjunction()
    except RecursionError:
        raise InvalidExpressionError(f"expression {text[:60]!r}… is nested too deeply. It was not compiled.") from None
    if reader.token.kind != "end":
        raise reader.unexpected("the end of the expression")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0

    @property
    def token(self) -> Lexeme:
        return self.tokens[self.at]

    def following(self) -> Lexeme:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def next(self) -> Lexeme:
        self.at += 1
        return self.tokens[self.at - 1]

    def sees(self, *words: str) -> bool:
        return self.token.kind in ("word", "symbol") and self.token.text in words

    def takes(self, *words: str) -> bool:
        if self.sees(*words):
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.takes(word):
            raise self.unexpected(word)

    def unexpected(self, wanted: str) -> InvalidExpressionError:
        found = repr(self.token.written) if self.token.kind != "end" else "the end of the text"
        return InvalidExpressionError(
            f"expression {self.text!r}: expected {wanted} at position {self.token.start + 1}, got {found}. "
            "It was not compiled."
        )

    def disjunction(self) -> Syntax:
        found = self.conjunction()
        while self.takes("OR"):
            found = Call("or", (found, self.conjunction()))
        return found

    def conjunction(self) -> Syntax:
        found = self.negation()
        while self.takes("AND"):
            found = Call("and", (found, self.negation()))
        return found

    def negation(self) -> Syntax:
        if self.takes("NOT", "!"):
            return Call("not", (self.negation(),))
        return self.predicate(self.value())

    def predicate(self, value: Syntax) -> Syntax:
        if self.takes("IS"):
            negated = self.takes("NOT")
            return _negated(self.tested(value), negated)
        negated = self.takes("NOT")
        if self.takes("BETWEEN"):
            low = self.value()
            self.expect("AND")
            found: Syntax = Call("between", (value, low, self.value()))
        elif self.takes("IN"):
            self.expect("(")
            found = Call("in", (value, *self.list_until_bracket()))
        elif self.sees("LIKE", "ILIKE"):
            found = self.like(self.next().text.lower(), value)
        elif negated:
            raise self.unexpected("BETWEEN, IN, LIKE or ILIKE after NOT")
        else:
            return value
        return _negated(found, negated)

    def tested(self, value: Syntax) -> Syntax:
        if self.takes("NULL"):
            return Call("isnull", (value,))
        if self.takes("UNKNOWN"):
            return Call("isnull", (Call("not", (value,)),))  # the value must be a boolean
        if self.sees(*_TRUTHS):
            return Call("<=>", (value, literals.boolean(_TRUTHS[self.next().text])))
        if self.takes("DISTINCT"):
            self.expect("FROM")
            return Call("not", (Call("<=>", (value, self.value())),))
        raise self.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")

    def like(self, name: str, value: Syntax) -> Syntax:
        pattern, escape = self.value(), literals.string("\\")
        if self.takes("ESCAPE"):
            if self.token.kind != "string" or len(self.token.text) != 1:
                raise self.unexpected("one escape character in quotes")
            escape = literals.string(self.next().text)
        return Call(name, (value, pattern, escape))

    def value(self, level: int = 0) -> Syntax:
        if level == len(_BINARY):
            return self.unary()
        found = self.value(level + 1)
        while self.sees(*_BINARY[level]):
            name = _BINARY[level][self.next().text]
            found = Call(name, (found, self.value(level + 1)))
        return found

    def unary(self) -> Syntax:
        if self.sees("-") and self.following().kind == "number":
            self.at += 1
            return self.casts(literals.number(self.next().text, self.text, negative=True))
        if self.takes("-"):
            return Call("negative", (self.unary(),))
        if self.takes("+"):
            return Call("positive", (self.unary(),))
        return self.casts(self.primary())

    def casts(self, value: Syntax) -> Syntax:
        while self.takes("::"):
            value = Cast(value, literals.read_type(self))
        return value

    def primary(self) -> Syntax:
        token = self.token
        if token.kind == "number":
            return literals.number(self.next().text, self.text)
        if token.kind in ("string", "raw"):
            content = self.next().text
            while self.token.kind in ("string", "raw"):  # adjacent strings are one
                content += self.next().text
            return literals.string(content)
        if self.takes("("):
            found = self.disjunction()
            self.expect(")")
            return found
        if token.kind == "quoted":
            return self.column()
        if token.kind == "word" and token.text not in _RESERVED:
            return self.word()
        reserved = token.kind == "word"
        raise self.unexpected("a value (a column of this name needs backticks)" if reserved else "a value")

    def word(self) -> Syntax:
        following = self.following()
        if self.token.text in ("TRUE", "FALSE"):
            return literals.boolean(self.next().text == "TRUE")
        if self.takes("NULL"):
            return literals.NULL
        if self.takes("CASE"):
            return self.case()
        if following.kind in ("string", "raw") or (self.token.text == "INTERVAL" and following.kind == "number"):
            return literals.typed(self)
        return self.call() if following.text == "(" and following.kind == "symbol" else self.column()

    def column(self) -> Syntax:
        name = self.next()
        if self.sees("."):
            raise InvalidExpressionError(
                f"expression {self.text!r}: {name.written}. at position {name.start + 1} reads a field or a table's "
                "column, which is not supported. Write a column whose name contains a dot in backticks."
            )
        return ColumnName(name.text if name.kind == "quoted" else name.written)

    def call(self) -> Syntax:
        name = self.next().text.lower()
        self.expect("(")
        if name in ("cast", "try_cast"):
            value = self.disjunction()
            self.expect("AS")
            kind = literals.read_type(self)
            self.expect(")")
            return Cast(value, kind, safe=name == "try_cast")
        if name in ("position", "substring", "substr", "trim"):
            return self.special(name)
        args = self.list_until_bracket()
        kind = literals.CAST_FUNCTIONS.get(name)
        return Cast(args[0], kind) if kind is not None and len(args) == 1 else Call(name, args)

    def special(self, name: str) -> Syntax:
        """Functions that may be written with words between their arguments."""
        side = self.next().text if name == "trim" and self.sees("BOTH", "LEADING", "TRAILING") else ""
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, name)
        if side and self.takes("FROM"):
            args = [self.value()]
        else:
            args = [self.value()] if name == "position" else [self.disjunction()]
            if name == "position" and self.takes("IN"):
                args.append(self.value())
            elif name not in ("position", "substr", "substring") and self.takes("FROM"):
                args.append(self.value())
                name = f"{name}:from"  # the characters come first
            elif name in ("substr", "substring") and self.takes("FROM"):
                args.append(self.value())
                if self.takes("FOR"):
                    args.append(self.value())
            elif self.takes(","):
                return Call(name, (*args, *self.list_until_bracket()))
        self.expect(")")
        return Call(name, tuple(args))

    def case(self) -> Syntax:
        key = None if self.sees("WHEN") else self.disjunction()
        parts: list[Syntax] = []
        while self.takes("WHEN"):
            condition = self.disjunction()
            self.expect("THEN")
            parts += [condition if key is None else Call("=", (key, condition)), self.disjunction()]
        if not parts:
            raise self.unexpected("WHEN")
        if self.takes("ELSE"):
            parts.append(self.disjunction())
        self.expect("END")
        return Call("case", tuple(parts))

    def list_until_bracket(self) -> tuple[Syntax, ...]:
        if self.takes(")"):
            return ()
        found = [self.disjunction()]
        while self.takes(","):
            found.append(self.disjunction())
        self.expect(")")
        return tuple(found)


def _negated(value: Syntax, negated: bool) -> Syntax:
    return Call("not", (value,)) if negated else value
