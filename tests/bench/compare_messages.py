"""
Whether two checkouts send the same records and sums, byte for byte: ``python tests/bench/compare_messages.py OLD NEW``.

Each is a checkout of arcacct, such as a worktree of an older commit; both run with the interpreter that runs this.
They publish the same generated histories and the jobs of real A-REX services to nine targets of every kind: odd values,
corrections, deletions, and receivers that are busy or refuse some records among them; at last all is sent again.
Compared are each record and sum that a receiver accepts, in the order of their versions; what surrounds them in a
message; what a run says; and the ledger's views. How many share a message may differ. Exits with 1 at a difference.
Both need to have what this file uses of arcacct.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import random
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain, zip_longest
from typing import Any

DAY_S = 86_400
NOW = 1_786_000_000
JOBS, ROUNDS, CHANGES = 700, 5, 60
SOURCES = ("generated", "heavy", "arex", "arex7")
KINDS = {
    "urs": 500,
    "individual": 37,
    "individual-v04": 100,
    "summaries": 50,
    "summaries-v03": 50,
    "normalised-v04": 50,
}
"""Of messages to APEL, with how many records are in one at most."""
SGAS = """\
[arex/jura/sgas:one]
targeturl=https://localhost:1/sgas
settle=0
[arex/jura/sgas:two]
targeturl=https://localhost:2/sgas
urbatchsize=7
sgas_corrections=replace
vofilter=atlas
vofilter=cms
[arcacct/auditor:three]
targeturl=https://localhost:3/
site_id=BENCH
"""
APEL = """\
[arex/jura/apel:{kind}]
targeturl=https://localhost:{port}/
gocdb_name=BENCH {port}
topic=gLite-APEL
apel_messages={kind}
urbatchsize={size}
"""
TEXTS = [
    "", "x" * 300, 'a<b>&"c', "\x1b[1mred", "näme ü", "%%%%", "pkcs7-mime", "null", "None", " lead", "tab\there",
    "/slash/id", "\u202eabc", "y" * 3000, "/atlas/x/Role=NULL/Capability=NULL",
]  # fmt: skip
NAMES = ("jobname", "nodenames", "clienthost", "localuser", "benchmark", "lrms")
LEDGER = (
    (
        "SELECT target, kind, origin, job_id, end_time, receiver_key, is_neutralised, notes FROM v1_publications"
        " WHERE state = 'accepted' AND job_id IS NOT NULL"
    ),
    (
        "SELECT target, kind, origin, sum(record_count) FROM v1_publications"
        " WHERE state = 'accepted' AND job_id IS NULL GROUP BY 1, 2, 3"
    ),
    "SELECT * FROM v1_quarantine",
)
BUSY, REFUSED = 5_000, 65_000
"""A receiver is busy below the one number of a text, and refuses it above the other; see `_lot`."""
SHOWN = 5
"""Differences of a history that are printed."""
_CHILD = "ARCACCT_COMPARED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("old", type=pathlib.Path, help="a checkout")
    parser.add_argument("new", type=pathlib.Path, help="the other one")
    parser.add_argument("--seeds", type=int, default=3, help="how many histories of each source")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES, help="which jobs; default: all")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="write what both sent into files, for diff")
    args = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or pathlib.Path(name)
        folder.mkdir(exist_ok=True)
        for source in args.sources:
            for seed in range(1, args.seeds + 1):
                sent = [
                    _sent(root.resolve(), source, seed, folder / f"{source}-{seed}-{which}.txt")
                    for which, root in (("old", args.old), ("new", args.new))
                ]
                found = [*_differences(*sent)]
                different += len(found)
                told = f"{len(found)} DIFFERENCES" if found else f"the same {len(sent[0])} lines"
                print(source, seed, *found[:SHOWN], told, sep="\n  ", flush=True)
    sys.exit(different > 0)


def _sent(root: pathlib.Path, source: str, seed: int, file: pathlib.Path) -> list[str]:
    """What a checkout sends, found in a process of its own: a line for each thing that is compared."""
    command = [sys.executable, "-P", __file__, str(root), source, str(seed), str(file.absolute())]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0", _CHILD: "1"})
    return file.read_text(encoding="utf-8").splitlines()


def _differences(old: list[str], new: list[str]) -> Iterator[str]:
    """Lines that only one side has, in pairs; each from a little before where it starts to differ."""
    missing, added = ([*(Counter(one) - Counter(other)).elements()] for one, other in ((old, new), (new, old)))
    for pair in zip_longest(missing, added, fillvalue=""):
        begin = next((at for at, (one, other) in enumerate(zip(*pair, strict=False)) if one != other), 0) - 60
        for side, line in zip("-+", pair, strict=True):
            if line:
                yield f"{side} {line[:60]} ... {line[max(60, begin) :][:160]}"


def _publish(root: str, source: str, seed: int, file: str) -> None:
    """Publish one history in rounds, a day apart, and write what is compared into a file."""
    sys.path[:0] = [root, f"{root}/tests/bench", f"{root}/tests/support"]
    import arcacct

    assert arcacct.__file__ == f"{root}/arcacct/__init__.py", arcacct.__file__
    from arcacct.database import access
    from arcacct.publishing import run, target_run
    from arcacct.targets import plugins

    clock = [float(NOW)]
    # Nothing may differ but what the two checkouts do.
    time.time = lambda: clock[0]
    time.time_ns = lambda: int(clock[0] * 1e9)
    secrets.token_hex = lambda size=8: "0" * 2 * size
    with tempfile.TemporaryDirectory() as name:
        folder, chance = pathlib.Path(name), random.Random(seed)
        here = _jobs(folder / "control", source, seed)
        with closing(access.open_accounting(here)) as con:
            (last_end,) = con.execute("SELECT max(EndTime) FROM AAR").fetchone()
        clock[0] = max(clock[0], last_end + 2.0 * DAY_S)
        settings = _settings(folder)
        receivers = _Receivers()
        options = target_run.RunOptions(now=True, since=1, make_sender=receivers.sender)
        for day in range(ROUNDS):
            # A message that found its receiver busy is sent again before any record changes: what was in it depends on
            # its size, which may differ.
            for receivers.is_busy in (True, False) if day % 2 else (False,):
                receivers.round = f"day {day}{' busy' if receivers.is_busy else ''}"
                receivers.refuses = day % 2 == 1
                for plugin in plugins(settings):
                    for one in run.publish(settings, [plugin], options):
                        receivers.finished(one)
            clock[0] += DAY_S
            with closing(access.open_accounting(here)) as con:
                _change(con, chance)
        receivers.round, receivers.refuses = "republish", False
        for plugin in plugins(settings):
            for one in run.republish(settings, [plugin], target_run.Period(0, int(clock[0])), options):
                receivers.finished(one)
        with closing(sqlite3.connect(here.publishing_database)) as con:
            ledger = [f"ledger {row!r}" for row in chain.from_iterable(map(con.execute, LEDGER))]
        lines = [line.replace(name, "") for line in sorted([*receivers.lines, *receivers.around, *ledger])]
    assert receivers.around, "nothing was sent"
    pathlib.Path(file).write_text("\n".join(lines), encoding="utf-8")


def _jobs(control: pathlib.Path, source: str, seed: int) -> Any:
    """A control directory with jobs of a source; its places."""
    if source.startswith("arex"):
        import arex_corpus

        from arcacct.config.paths import places

        if source == "arex":
            arex_corpus.swept(arex_corpus.rebuild(control)).close()
        else:
            arex_corpus.swept7(control.parent).close()
        return places(None, str(control))
    import generate

    generate.DAYS, generate.FIRST_END = 20, NOW - 30 * DAY_S
    return generate.fill(control, JOBS, generate.Look(seed=seed, heavy=source == "heavy"))


def _settings(folder: pathlib.Path) -> Any:
    from arcacct.config.parser import load
    from arcacct.config.settings import settings
    from arcacct.targets import kinds

    files = {"host_cert": folder / "x.pem", "host_key": folder / "x.key", "cert_dir": folder}
    for path in (folder / "x.pem", folder / "x.key"):
        path.touch()
    lines = [f"x509_{name}={path}" for name, path in files.items()]
    (folder / "arc.conf").write_text(
        "\n".join(
            ["[common]", "hostname=ce.example.org", *lines, "[arex]", f"controldir={folder / 'control'}", "[lrms]"]
        )
        + "\nlrms=slurm\nbenchmark=HEPscore23:12.5\n"
    )
    apel = [APEL.format(kind=kind, port=10 + port, size=size) for port, (kind, size) in enumerate(KINDS.items())]
    (folder / "arcacct.conf").write_text(SGAS + "".join(apel))
    conf = load(str(folder / "arc.conf"), {})
    return settings(conf, kinds(conf), database=None)


class _Receivers:
    """Receivers that note what they accept; while ``refuses`` is set they refuse some records, by their text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.around: set[str] = set()
        """What surrounds the records of the messages, however many these are."""
        self.refuses = self.is_busy = False
        self.round = ""
        self._versions = Counter[tuple[str, ...]]()

    def sender(self, plugin: Any) -> Any:
        """For `RunOptions.make_sender`."""
        from arcacct.publishing.answers import Answer, Outcome
        from arcacct.publishing.plugin import Sender

        receivers = self

        class OfTarget(Sender):
            destination = plugin.target.url

            def send(self, message: Any) -> Any:
                text = message.data.decode("utf-8")
                texts = plugin.envelope(message.message_format).cut(text)
                if receivers.is_busy and _lot(texts[0]) < BUSY:
                    return Answer(Outcome.TRY_LATER, 503, "busy")
                if receivers.refuses and any(_lot(one) > REFUSED for one in texts):
                    return Answer(Outcome.RECORDS_REFUSED, 500, "no")
                receivers.accept(plugin, message, text, texts)
                if not plugin.returns_row_ids:
                    return Answer(Outcome.ACCEPTED, 200, receiver_id="1")
                return Answer(Outcome.ACCEPTED, 200, receiver_rows={one.key: _row(one.key) for one in message.records})

        return OfTarget()

    def accept(self, plugin: Any, message: Any, text: str, texts: list[str]) -> None:
        """Note each record and sum with the number of its version, and what surrounds them."""
        envelope = plugin.envelope(message.message_format)
        parts = [*message.records, *message.sums] or [None] * len(texts)
        head = f"{self.round} {plugin.target.name} {message.message_format} {message.origin}"
        self.around.add(f"{head} {len(parts) == len(texts)} {text.replace(envelope.between.join(texts), '...')!r}")
        for part, one in zip(parts, texts, strict=False):
            version = (plugin.target.name, message.message_format, getattr(part, "key", ""))
            self._versions[version] += 1
            self.lines.append(f"{head} {version[2]} version {self._versions[version]}: {one!r}")

    def finished(self, run: Any) -> None:
        """Note what the run of a target says."""
        found = run.summary
        sent = {kind: counts.records for kind, counts in found.sent.items()}
        self.lines.append(f"{self.round} {run.target} said {sent} {found.notes} {run.error} {found.quarantined}")


def _lot(text: str) -> int:
    """A number below 65,536 that a text always has."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:2], "big")


def _row(key: str) -> str:
    return str(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:3], "big"))


def _change(con: sqlite3.Connection, chance: random.Random) -> None:
    """Change some values of some jobs, as no recorder would, and delete some jobs."""
    from arcacct.records.texts import escaped

    ids = [record_id for (record_id,) in con.execute("SELECT RecordID FROM AAR ORDER BY 1")]
    pick = chance.choice
    con.execute("BEGIN IMMEDIATE")
    for _ in range(CHANGES):
        job, text = pick(ids), escaped(pick(TEXTS))
        of_job = f" WHERE RecordID = {job}"
        end_of_other = "SELECT EndTime FROM AAR AS Other WHERE Other.RecordID = ?"
        statement, values = pick(
            [
                ("UPDATE AAR SET UsedWalltime = ?", (pick([0, 5, 2**31, 2**32 - 1, -3, 7.5]),)),
                ("UPDATE AAR SET LocalJobID = ?", (pick([text, "77"]),)),
                ("UPDATE AAR SET EndTime = EndTime + ?", (pick([1, -1, DAY_S, -40 * DAY_S, 10**7]),)),
                ("UPDATE AAR SET NodeCount = ?, CPUCount = ?", (pick([0, 1, 2**15, -1]), pick([0, 1, 70_000]))),
                ("UPDATE AAR SET EndpointID = NULL", ()),
                ("UPDATE AAR SET VOID = ?, UserID = ?", (chance.randrange(1, 5), chance.randrange(1, 9))),
                ("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = ?)", (pick(["failed", "aborted"]),)),
                ("DELETE FROM AAR", ()),
                (f"UPDATE AAR SET LocalJobID = 'same', EndTime = ({end_of_other})", (pick(ids),)),
                ("UPDATE DataTransfers SET URL = ?", (text,)),
                (
                    "UPDATE DataTransfers SET FileSize = ?, TransferEnd = ?",
                    (pick([-1, 2**62, 5]), pick([0, -1, 2**40])),
                ),
                (
                    f"UPDATE JobExtraInfo SET InfoValue = ? WHERE InfoKey = '{pick(NAMES)}' AND RecordID = {job}",
                    (text,),
                ),
                (
                    f"UPDATE AuthTokenAttributes SET AttrValue = ? WHERE AttrKey = 'mainfqan' AND RecordID = {job}",
                    (text,),
                ),
            ]
        )
        with suppress(sqlite3.Error):
            con.execute(
                statement if " WHERE Info" in statement or " WHERE Attr" in statement else f"{statement}{of_job}",
                values,
            )
    con.execute("COMMIT")


if __name__ == "__main__":
    if _CHILD in os.environ:
        _publish(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main()
