"""What the reference takes from the program word for word, each as the Markdown of one part of a page."""

from __future__ import annotations

import re
from importlib import import_module

import manual
import sql_contract
from generated import code, plain, table

from arcacct.cli.metrics import METRICS
from arcacct.database.incarnation import MEANING
from arcacct.database.schema import ACCOUNTING, PUBLISHING
from arcacct.export.dataset import columns
from arcacct.queries import portal
from arcacct.records.batch_systems import BATCH_SYSTEMS
from arcacct.records.enrichment import PRECEDENCE, SOURCES
from arcacct.records.states import BOUNDS
from arcacct.sources.features.check import RULES, Requirement


def views() -> str:
    """The list of all views, then a section for each: its columns, with what the comments of the schema say."""
    kinds = {view: kind for kind in (ACCOUNTING, PUBLISHING) for view in sql_contract.documented(kind)}
    listed = [(f"[{view}](#{view})", f"`{kind.folder}.db`") for view, kind in kinds.items()]
    parts = [table(("view", "database"), listed)]
    for view, kind in kinds.items():
        columns = [(code(one.name), plain(one.meaning)) for one in sql_contract.documented(kind)[view]]
        parts.append(f"## {view}\n\n{table(('column', 'what it is; unit; where it is from'), columns)}")
    return "\n".join(parts)


def precedence() -> str:
    """Who may tell which value, and what the words for the sources stand for."""
    rows = [(", ".join(map(code, row.fields)), " > ".join(row.order), row.reason) for row in PRECEDENCE]
    words = "\n".join(f"* `{source}`: {meaning}" for source, meaning in SOURCES.items())
    return f"{table(('what', 'the strongest first', 'why'), rows)}\n{words}\n"


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
            f"### {found['name']}\n\n{found['severity'].capitalize()}, when this holds for {found['since']}:\n\n"
            f"```text\n{found['expr']}\n```\n\n{plain(found['todo'])}\n"
        )
    return "\n".join(parts)


def doubts() -> str:
    """What may be wrong between the two databases."""
    return "".join(f"* {plain(text)}.\n" for text in MEANING.values())


def units() -> str:
    """The services of etc/, each with its timer."""
    rows = []
    for file in sorted((manual.ROOT / "etc").glob("*.service")):
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
    """The columns of each table of the dataset."""
    parts = []
    for name, of in columns().items():
        rows = [(code(one.name), code(one.type), one.unit, plain(one.description)) for one in of]
        parts.append(f"## {name}\n\n{table(('column', 'type', 'unit', 'what it is'), rows)}")
    return "\n".join(parts)


def causes() -> str:
    """Why a portal and the database differ, and what to do."""
    return table(("cause", "what to do"), [(code(cause), plain(todo)) for cause, todo in portal.TODO.items()])


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
