"""Breaks of a module, a line at a time: what a test should notice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS = {
    "<=": "<", ">=": ">", "==": "!=", "!=": "==", "is not": "is", "not in": "in", "<": "<=", ">": ">=",
    "is": "is not", "in": "not in",
}  # fmt: skip
_SUMS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}
_SQL = (
    (r"<=", "<"),
    (r">=", ">"),
    (r"(?<![<>])= (?!excluded\.)", "<> "),
    (r"<>", "="),
    (r"(?<![<>=])<(?![<>=])", "<="),
    (r"(?<![<>=])>(?![<>=])", ">="),
    (r"\bAND\b", "OR"),
    (r"\bOR\b(?! REPLACE| IGNORE| ROLLBACK)", "AND"),
    (r"\bNOT (?=EXISTS|IN\b|NULL)", ""),
    (r"\bmax\(", "min("),
    (r"\bmin\(", "max("),
    (r"\bDESC\b", "ASC"),
    (r"\bLEFT JOIN\b", "JOIN"),
)
_NEVER_RUN = ("TYPE_CHECKING = ", "if TYPE_CHECKING:", "__slots__ = ")
_IS_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|FROM|JOIN|SET|VALUES)\b")


class Break(NamedTuple):
    """One place of a module, and what stands there instead."""

    module: str
    line: int
    start: int
    """In bytes of the file."""
    end: int
    instead: str

    def applied(self, source: bytes) -> bytes:
        """The module with the break."""
        return source[: self.start] + self.instead.encode() + source[self.end :]

    def described(self, source: bytes) -> str:
        """As in `mutations_explained.txt`: the module, the line as it is, and as it was broken; no number."""
        first = source.rfind(b"\n", 0, self.start) + 1
        after = source.find(b"\n", self.end)
        broken = self.applied(source)
        there, here = source[first:after], broken[first : after + len(broken) - len(source)]
        return f"{self.module}: {_on_one_line(there)} -> {_on_one_line(here)}"


def _on_one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


class Places:
    """Where the nodes of a module stand, in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Of its first byte."""
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """After its last byte."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        """As it stands there."""
        return self.source[self.start(node) : self.end(node)].decode()

    def between(self, left: ast.expr, right: ast.expr, word: str) -> tuple[int, int] | None:
        """Where an operator stands between two operands; brackets and comments may stand there too."""
        begin = self.end(left)
        found = re.search(rf"(?<![\w<>=!]){re.escape(word)}(?![\w=])", self.source[begin : self.start(right)].decode())
        if found is None:
            return None
        return begin + found.start(), begin + found.end()


def breaks_of(module: str, source: bytes) -> list[Break]:
    """Every break of a module, in the order of its lines."""
    tree = ast.parse(source)
    places = Places(source)
    left_alone = {id(below) for node in ast.walk(tree) for part in _unbroken(node) for below in ast.walk(part)}
    found = {
        Break(module, line, start, end, instead)
        for node in ast.walk(tree)
        if id(node) not in left_alone
        for line, start, end, instead in _breaks(node, places)
    }
    return sorted(found, key=lambda one: (one.start, one.end, one.instead))


def _unbroken(node: ast.AST) -> Iterator[ast.AST]:
    """What runs never, or is for readers: annotations, docstrings, imports for types."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield node.annotation
    elif isinstance(node, ast.FunctionDef) and node.returns is not None:
        yield node.returns
    elif isinstance(node, ast.Raise):
        # How a message words it, and how much of a value it shows, is no one's promise.
        yield from (below for below in ast.walk(node) if isinstance(below, ast.JoinedStr))
    elif isinstance(node, ast.Assert) or ast.unparse(node).startswith(_NEVER_RUN):
        # What is asserted is for the type checker: no user meets it.
        yield node
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node


def _breaks(node: ast.AST, places: Places) -> Iterator[tuple[int, int, int, str]]:
    if isinstance(node, ast.expr):
        for start, end, instead in _of_expression(node, places):
            yield node.lineno, start, end, instead
    if isinstance(node, ast.stmt):
        for start, end, instead in _of_statement(node, places):
            yield node.lineno, start, end, instead


def _of_expression(node: ast.expr, places: Places) -> Iterator[tuple[int, int, str]]:
    if isinstance(node, ast.Compare):
        for left, right in zip((node.left, *node.comparators), node.comparators, strict=False):
            for word, instead in _COMPARISONS.items():
                if where := places.between(left, right, word):
                    yield *where, instead
                    break
    elif isinstance(node, ast.BoolOp):
        word, instead = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            if where := places.between(left, right, word):
                yield *where, instead
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield places.start(node), places.end(node), f"({places.text(node.operand)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        word, instead = _SUMS[type(node.op)]
        if where := places.between(node.left, node.right, word):
            yield *where, instead
    elif isinstance(node, ast.IfExp) and not _is_turned(node.test):
        yield places.start(node.test), places.end(node.test), f"not ({places.text(node.test)})"
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, places)


def _is_turned(test: ast.expr) -> bool:
    """Whether a condition is broken by its operator already."""
    return (isinstance(test, ast.Compare) and len(test.ops) == 1) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _of_constant(node: ast.Constant, places: Places) -> Iterator[tuple[int, int, str]]:
    start, end = places.start(node), places.end(node)
    if isinstance(node.value, bool):
        yield start, end, str(not node.value)
    elif isinstance(node.value, int):
        yield start, end, str(node.value + 1)
    elif isinstance(node.value, str) and _IS_SQL.search(node.value):
        text = places.source[start:end].decode()
        for pattern, instead in _SQL:
            for match in re.finditer(pattern, text):
                before, after = len(text[: match.start()].encode()), len(text[: match.end()].encode())
                yield start + before, start + after, instead


def _of_statement(node: ast.stmt, places: Places) -> Iterator[tuple[int, int, str]]:
    start, end = places.start(node), places.end(node)
    if isinstance(node, ast.If | ast.While) and not _is_turned(node.test):
        yield places.start(node.test), places.end(node.test), f"not ({places.text(node.test)})"
    elif isinstance(node, ast.Expr | ast.Raise | ast.Delete):
        yield start, end, "pass"
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) not in ("None", "False"):
        yield start, end, "return None"
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        text = places.text(node)
        yield start, end, text.replace("+=", "-=", 1) if "+=" in text else text.replace("-=", "+=", 1)
    elif isinstance(node, ast.Continue):
        yield start, end, "break"
    elif isinstance(node, ast.Break):
        yield start, end, "continue"


def explained(text: str) -> dict[str, str]:
    """What no one can notice, as `Break.described` has it, with the reason: that stands below it, indented."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if line.startswith("    "):
            found[last] = f"{found[last]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            last = line
            found[last] = ""
    return found
