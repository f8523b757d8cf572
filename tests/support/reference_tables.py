"""What the reference takes from the program word for word, each as the Markdown of one part of a page."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module

import commands_page
import manual
import sql_contract
from generated import code, plain, table
from imports_of import sources

from arcacct.cli.main import FORMER
from arcacct.cli.metrics import METRICS
from arcacct.cli.options import FormerOption
from arcacct.database.incarnation import MEANING
from arcacct.database.schema import ACCOUNTING, PUBLISHING
from arcacct.export.dataset import columns
from arcacct.queries import portal
from arcacct.records.batch_systems import BATCH_SYSTEMS
from arcacct.records.enrichment import PRECEDENCE, SOURCES
from arcacct.records.states import BOUNDS
from arcacct.sources.features.check import RULES, Requirement
from arcacct.sources.features.reader import JOB_KEYS, MACHINE_KEYS


def views() -> str:
    """
    Return a section for each view: its columns, with their comments in the schema.

    One row has neighbours with the same meaning, and a time with its text (``x`` and ``x_iso``).
    """
    parts = []
    for kind in (ACCOUNTING, PUBLISHING):
        for view, of in sql_contract.documented(kind).items():
            rows: list[tuple[str, ...]] = []
            for one in of:
                before = rows[-1] if rows else ("", "")
                name, meaning = code(one.name), plain(one.meaning)
                if meaning == before[1] or re.fullmatch(rf"{one.name.removesuffix('_iso')} as text(, UTC)?", meaning):
                    rows[-1] = (f"{before[0]}, {name}", before[1])
                else:
                    rows.append((name, meaning))
            parts.append(f"## {view}\n\n{table(('column', 'what it is; unit; where it is from'), rows)}")
    return "\n".join(parts)


def precedence() -> str:
    """Who may tell which value, and what the words for the sources stand for."""
    ordinary = " > ".join(PRECEDENCE[0].order)
    rows = [
        (", ".join(map(code, row.fields)), " > ".join(row.order).replace(ordinary, "*records*"), row.reason)
        for row in PRECEDENCE
    ]
    words = "\n".join(f"* `{source}`: {meaning}" for source, meaning in SOURCES.items())
    return f"{table(('what', 'the strongest first', 'why'), rows)}\n*records* is {ordinary}.\n\n{words}\n"


def bounds() -> str:
    """What the values of a job cannot exceed, by the reason for which it is held then."""
    rows = [(code(reason), plain(bound), plain(source)) for reason, (bound, source) in BOUNDS.items()]
    return table(("reason", "bound", "source"), rows)


_RULE = re.compile(
    r"""\ +-\ alert:\ (?P<name>\w+)\n
        \ +expr:\ '(?P<expr>.*)'\n
        \ +for:\ (?P<since>\w+)\n
        \ +labels:\n\ +severity:\ (?P<severity>\w+)\n
        \ +annotations:\n
        \ +summary:\ '(?P<summary>.*)'\n
        \ +description:\ '(?P<todo>.*)'\n""",
    re.VERBOSE,
)


def metrics() -> str:
    """Every metric of `arcacct metrics` with its labels, in the order of its table."""
    rows = [(code(f"{name}{{{','.join(labels)}}}" if labels else name), plain(text)) for name, text, labels in METRICS]
    return table(("metric", "meaning"), rows)


def alerts() -> str:
    """Every rule of etc/arcacct.rules.yaml."""
    text = (manual.ROOT / "etc" / "arcacct.rules.yaml").read_text(encoding="utf-8")
    rules = list(_RULE.finditer(text))
    assert len(rules) == text.count("- alert:")
    parts = []
    for rule in rules:
        found = {name: value.replace("''", "'") for name, value in rule.groupdict().items()}
        parts.append(
            f"### {found['name']}\n\n{found['severity'].capitalize()}, after {found['since']}:\n\n"
            f"```text\n{found['expr']}\n```\n\n{plain(found['todo'])}\n"
        )
    return "\n".join(parts)


def doubts() -> str:
    """What may be wrong between the two databases."""
    return "".join(f"* {plain(text)}.\n" for text in MEANING.values())


def units() -> str:
    """The services of etc/systemd/, each with its timer."""
    rows = []
    for file in sorted((manual.ROOT / "etc" / "systemd").glob("*.service")):
        service, timer = file.read_text(encoding="ascii"), file.with_suffix(".timer")
        set_in = dict(re.findall(r"^(\w+)=(.+?)(?: \\)?$", service, re.MULTILINE))
        # What the shell puts in: one word in quotes, or files.
        command = re.sub(r"^/bin/sh -c 'exec (.*)\"\$\$\(.*\)\"'$", r"\1TIME", set_in["ExecStart"])
        command = re.sub(r"^/bin/sh -c 'exec (.*)\$\$\(.*\)'$", r"\1FILE...", command)
        when = _when(timer.read_text(encoding="ascii")) if timer.exists() else "all the time"
        about = plain(set_in["Description"].removeprefix("arcacct: "))
        rows.append((code(file.stem), about, when, code(command.removeprefix("/opt/arcacct/bin/"))))
    return table(("unit", "what it does", "when", "command"), rows)


def _when(timer: str) -> str:
    found = dict(re.findall(r"^(On\w+)=(.+)$", timer, re.MULTILINE))
    if "OnCalendar" in found:
        return code(found["OnCalendar"])
    return f"{found['OnBootSec']} after the boot, then every {found['OnUnitInactiveSec']}"


def dataset() -> str:
    """The columns of each table of the dataset, with a description if the view has another one or none."""
    views = sql_contract.documented(ACCOUNTING)
    parts = []
    for name, of in columns().items():
        view = VIEW_OF_TABLE[name]
        meanings = {one.name: one.meaning for one in views[view]}
        rows: list[tuple[str, ...]] = []
        for one in of:
            alike = one.description in meanings.get(one.name, "")
            unit = one.unit.replace("s since 1970-01-01T00:00:00Z", "s since 1970")
            row = (code(one.name), code(one.type), unit, "" if alike else plain(one.description))
            if rows and rows[-1][1:] == row[1:]:
                rows[-1] = (f"{rows[-1][0]}, {row[0]}", *row[1:])
            else:
                rows.append(row)
        text = f"A column without a description is that of [{view}](views.md#{view})."
        parts.append(f"## {name}\n\n{table(('column', 'type', 'unit', 'what it is'), rows)}\n{text}\n")
    return "\n".join(parts)


VIEW_OF_TABLE = {
    "jobs": "v1_jobs",
    "events": "v1_job_events",
    "transfers": "v1_transfers",
    "attributes": "v1_job_attributes",
    "accelerators": "v1_job_telemetry",
}
"""The view with the columns of each table of the dataset."""


def causes() -> str:
    """Why a portal and the database differ, and what to do."""
    return table(("cause", "what to do"), [(code(cause), plain(todo)) for cause, todo in portal.TODO.items()])


def keys() -> str:
    """The keys of machine and job features."""
    rows = [(whose, code(key.name), plain(key.meaning)) for whose, some in KEYS.items() for key in some]
    return table(("features of", "key", "meaning"), rows)


KEYS = {"a machine": MACHINE_KEYS, "a job": JOB_KEYS}
"""By whose they are."""


def former() -> str:
    """The spellings that work in this release only, and what to write."""
    old: dict[str, list[str]] = {}
    for words, one in FORMER.items():
        if one.new is not None:
            old.setdefault(one.new, []).append(words)
    for ctx in commands_page.contexts():
        for one in ctx.command.params:
            if isinstance(one, FormerOption):
                old.setdefault(one.new, []).append(f"{ctx.command_path.removeprefix('arcacct ')} {one.opts[-1]}")
    return table(("old", "new"), [(", ".join(map(code, names)), plain(new)) for new, names in old.items()])


def rules() -> str:
    """The rules of `arcacct features check`."""
    rows = []
    for number, one in RULES.items():
        # One that no look can judge is never broken.
        never = one.unseen and one.judge is Requirement._field_defaults["judge"]
        rows.append((str(number), plain(one.title), "" if never else code(one.verdict), plain(one.unseen)))
    return table(("number", "rule", "when broken", "when `unseen`"), rows)


def fields() -> str:
    """What is read of each batch system that has one table of fields."""
    parts = []
    for name, system in BATCH_SYSTEMS.items():
        found = getattr(import_module(f"arcacct.sources.{name}.importer"), "SOURCE", None)
        if found is not None:
            rows = [(code(one.name), code(one.to), "needed" if one.is_needed else "", one.unit) for one in found.fields]
            parts.append(f"## {system.title}\n\n{table(('field', 'goes to', '', 'unit'), rows)}")
    return "\n".join(parts)


def imports() -> str:
    """
    Return what each folder of the package may import, from the contracts of import-linter.

    A layer may import those below it. In the lowest layers, names with ``:`` between them may import each other.
    """
    text = (manual.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    exceptions = {one["modules"][0]: one["ignore_imports"] for one in contracts if one["type"] == "independence"}
    folders = [layer.split(" | ") for layer in layers if ":" not in layer and layer != "__main__"]
    rows = []
    for number, names in enumerate(folders):
        below = [code(name) for lower in folders[number + 1 :] for name in lower]
        for name in names:
            rows.append((code(name), _first_sentence(name), ", ".join((*below, "shared modules"))))
            if lines := exceptions.get(f"arcacct.{name}.*"):
                rows.append(
                    (code(f"{name}/*"), "each folder in it", f"the same; of `{name}` only {_siblings(name, lines)}")
                )
    shared = [code(name) for layer in layers if ":" in layer for name in layer.split(" : ")]
    lowest = " and ".join(map(code, layers[-1].split(" : ")))
    rows.append(("shared modules", ", ".join(shared), f"each other; {lowest} only each other"))
    return table(("folder", "content", "may import"), rows)


def _first_sentence(name: str) -> str:
    tree = ast.parse(sources()[f"arcacct.{name}"].read_text(encoding="utf-8"))
    return plain(" ".join((ast.get_docstring(tree) or "").split()).partition(". ")[0].rstrip("."))


def _siblings(folder: str, lines: list[str]) -> str:
    """Return what each line `arcacct.FOLDER.WHO -> arcacct.NAME` allows; WHO is ``**`` for every folder."""
    pairs = [
        [side.removeprefix("arcacct.").removesuffix(".*").split(".") for side in one.split(" -> ")] for one in lines
    ]
    allowed = [("/".join(who[1:]), what[1 if what[0] == folder else 0]) for who, what in pairs]
    every = ", ".join(code(name) for who, name in allowed if who == "**")
    return every + "".join(f"; {code(who)} also {code(name)}" for who, name in allowed if who != "**")
