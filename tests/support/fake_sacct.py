"""A program in sacct's place that prints real rows, under whatever columns and delimiter it is asked for."""

from __future__ import annotations

import json
import pathlib
import sys
from datetime import datetime

from slurm_files import TABLE

from arcacct.sources.slurm.record import TableRow, TableRows, header_of
from arcacct.sources.slurm.sacct import SacctCommand

SCRIPT = """#!{python}
import json, os, sys
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
with open({asked!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
columns, delimiter = options["format"].split(","), options["delimiter"]
def put(values):
    sys.stdout.write(delimiter.join(values) + "\\n")
exec(open({behaviour!r}).read())
put(columns)
for row in json.load(open({rows!r})):
    put([row.get(name, "") for name in columns])
"""


class FakeSacct:
    """A sacct of a site: the real rows of a file, under whatever columns and delimiter it is asked for."""

    def __init__(self, folder: pathlib.Path, path: pathlib.Path = TABLE) -> None:
        self.asked_path = folder / "asked"
        self.behaviour = folder / "behaviour.py"
        self.behaviour.write_text("")
        self.program = folder / "sacct"
        rows = folder / "rows.json"
        rows.write_text(json.dumps(real_rows(path)))
        places = {"asked": str(self.asked_path), "behaviour": str(self.behaviour), "rows": str(rows)}
        self.program.write_text(SCRIPT.format(python=sys.executable, **places))
        self.program.chmod(0o755)

    def command(self, timeout_s: float = 60.0) -> SacctCommand:
        return SacctCommand(str(self.program), timeout_s)

    def asked(self) -> list[tuple[list[str], dict[str, str]]]:
        return [tuple(json.loads(line)) for line in self.asked_path.read_text().splitlines()]

    def windows(self) -> list[tuple[str, str]]:
        return [(words[4].partition("=")[2], words[5].partition("=")[2]) for words, _ in self.asked()]


def real_rows(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a real output, times in seconds, as SLURM_TIME_FORMAT=%s has them."""
    first, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = [one.values for one in TableRows(header_of(first)).of(enumerate(lines, 2)) if isinstance(one, TableRow)]
    for one in found:
        for name in ("Submit", "Start", "End"):
            if one[name][:1].isdigit():
                one[name] = str(int(datetime.fromisoformat(f"{one[name]}Z").timestamp()))
    return found
