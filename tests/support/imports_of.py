"""What a module of the package imports when it runs, read from its source."""

from __future__ import annotations

import ast
import importlib.util
import pathlib
from collections.abc import Iterator


def sources() -> dict[str, pathlib.Path]:
    """Every module of the package with its file, without importing any but the package itself."""
    spec = importlib.util.find_spec("arcacct")
    assert spec is not None
    assert spec.origin is not None
    root = pathlib.Path(spec.origin).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: pathlib.Path) -> set[str]:
    """Full names of what a file imports when it runs, inside functions too; not what only a type checker sees."""
    return set(_imported([ast.parse(path.read_text(encoding="utf-8"))]))


def _imported(body: list[ast.AST]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            for _, value in ast.iter_fields(node):
                if (
                    isinstance(value, list)
                    and value
                    and isinstance(value[0], ast.stmt | ast.ExceptHandler | ast.match_case)
                ):
                    yield from _imported(value)
