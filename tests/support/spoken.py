"""What the program says, read from its source: messages with ``*`` in the place of each value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import manual

from arcacct.database import durable
from arcacct.database.location import PSEUDONYMS, REPORTS
from arcacct.health.doctor import CHECKS
from arcacct.sources.features.reader import VARIABLES

_NAMES = {"state.name", "target.name", "name"}
"""What a target is called by in the sources; in the manual ``TARGET``."""


def template(node: ast.expr) -> set[str]:
    """The forms that a text of the source takes; empty for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "*" for part in node.values]
        return {re.sub(r"\*+", "*", "".join(map(str, parts)))}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return {left + right for left in template(node.left) for right in template(node.right)}
    if isinstance(node, ast.IfExp):
        return template(node.body) | template(node.orelse)
    return set()


def _nodes(files: Iterable[str]) -> Iterator[ast.AST]:
    for file in files:
        yield from ast.walk(ast.parse((manual.ROOT / "arcacct" / file).read_text(encoding="utf-8")))


def _sentences(node: ast.expr) -> set[str]:
    return {text for text in template(node) if " " in text}


def _calls(files: Iterable[str], *names: str) -> Iterator[ast.expr]:
    """The first argument of each call of these functions."""
    for node in _nodes(files):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(names):
            yield node.args[0]


def subjects() -> set[str]:
    """Of the checks of `arcacct status`, and of `arcacct metrics`."""
    return {
        "TARGET" if ast.unparse(one) in _NAMES else text.replace("*", "TARGET")
        for one in _calls(("health/facts.py", "health/checks.py", "cli/metrics.py"), "Check", "advised")
        for text in template(one) or {"TARGET"}
    }


def things() -> set[str]:
    """What `arcacct doctor` has verdicts of."""
    files = [f"health/{name}.py" for name in ("doctor", "doctor_checks", "doctor_host")]
    named = {text for one in _calls(files, "Check", "advised") for text in template(one)}
    return {text.strip("* ") for text in named if text.strip("* ")} | {one.name for one in CHECKS}


_ACCEPTANCE = ("targets/verdicts.py", *(f"targets/{kind}/acceptance.py" for kind in ("apel", "auditor", "sgas")))


def repairs() -> set[str]:
    """What is noted when a record is sent with another value."""
    found = {text for one in _calls(_ACCEPTANCE, "notes.append") for text in _sentences(one)}
    return found | {text for one in _returned(_ACCEPTANCE, "_benchmark_note") for text in _sentences(one)}


def refusals() -> set[str]:
    """Why a record, or a sum, is not sent to a target that would refuse it."""
    found = set()
    for node in _nodes(_ACCEPTANCE):
        if isinstance(node, ast.FunctionDef) and node.name != "_benchmark_note":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return | ast.Assign) and inner.value is not None:
                    found |= _sentences(inner.value)
    verdicts = [
        one for one in _nodes(_ACCEPTANCE) if isinstance(one, ast.Call) and "Acceptance" in ast.unparse(one.func)
    ]
    return found | {text for call in verdicts for one in call.args[2:3] for text in _sentences(one)}


def not_sent() -> set[str]:
    """Why `arcacct job why` says that a job was not sent."""
    return {text for one in _returned(("queries/job_history.py",), "_reason") for text in _sentences(one)}


def _returned(files: Iterable[str], function: str) -> Iterator[ast.expr]:
    for node in _nodes(files):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None)


def of_sweeps() -> set[str]:
    """What a sweep complains of."""
    files = ("arex/spool_replay.py", "arex/sweep_context.py")
    return {text for one in _calls(files, "complaints.append") for text in _sentences(one)}


def of_launcher() -> set[str]:
    """What the launcher writes into A-REX's log."""
    launcher = (manual.ROOT / "etc" / "arcacct-hook").read_text(encoding="ascii")
    (usage,) = re.findall(r"^usage='(.*)'$", launcher, re.MULTILINE)
    texts = re.findall(r'(?:complain |^lost=)"([^$].*?|\$(?:usage|job).*?)"(?= *(?:;|$))', launcher, re.MULTILINE)
    said = [text.replace("$usage", usage) for text in texts]
    values = re.compile(r"\$\{?\w+\}?")
    return {f"arcacct-hook: {values.sub('*', text.replace(chr(92) + '`', '`'))}" for text in said}


def of_imports() -> set[str]:
    """Why a record of an import is left out, apart from what its source says of it."""
    found = {text for one in _returned(("records/rejected.py",), "fault_of") for text in _faults(one)}
    table = next(one for one in _nodes(("records/rejected.py",)) if isinstance(one, ast.Dict))
    return found | {text for value in table.values for text in template(value)}


def _faults(node: ast.expr) -> set[str]:
    return _sentences(node.args[0]) if isinstance(node, ast.Call) and node.args else set()


def environment() -> Iterator[set[str]]:
    """Variables that the program looks up by their name."""
    yield {*VARIABLES.values()}
    package = manual.ROOT / "arcacct"
    asking = [path for path in package.rglob("*.py") if "environ" in path.read_text(encoding="utf-8")]
    files = [path.relative_to(package).as_posix() for path in asking]
    for node in _nodes(files):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("environ.get"):
            yield template(node.args[0])
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            yield template(node.slice)
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]).endswith("environ"):
            yield template(node.left)


def beside_databases() -> set[str]:
    """Names of files that are made in the directory of the databases."""
    text = "".join(path.read_text(encoding="utf-8") for path in (manual.ROOT / "arcacct").rglob("*.py"))
    named = re.findall(r"(?:here\.directory, |_beside\(database, )\"([\w.-]+)\"", text)
    return {durable._FILE, PSEUDONYMS, REPORTS, "publishing.locks", *named}
