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


def closure(start: str) -> dict[str, set[str]]:
    """Each module of the package that `start` leads to, with the names it imports from outside of the package."""
    paths = sources()
    outside: dict[str, set[str]] = {}
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module in outside:
            continue
        names = imports_of(paths[module])
        ours = {name for name in names if name.partition(".")[0] == "arcacct"}
        outside[module] = {name.partition(".")[0] for name in names - ours}
        waiting += [_module(name, paths) for name in ours]
        # A module's packages run before it.
        waiting += [package for package in paths if module.startswith(f"{package}.")]
    return outside


def _module(name: str, paths: dict[str, pathlib.Path]) -> str:
    # `from package import name`: a module if there is one, else something in the package.
    return name if name in paths else name.rpartition(".")[0]


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
