"""
Whether this checkout sends what another one does, byte for byte: ``python tests/bench/compare_messages.py OTHER``.

``OTHER`` is a checkout of arcacct with a ``venv`` in which it is installed. Both publish the same generated histories
and the jobs of real A-REX services to nine targets of every kind: odd values, corrections, deletions and receivers that
refuse some messages among them. Compared are the messages, what a run says, and every row of the ledger.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import random
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
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
NEVER_THE_SAME = ("DBConfig", "MessageBytes")
"""Tables of the ledger that have random numbers, or signatures."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("other", type=pathlib.Path, help="another checkout, with a venv")
    parser.add_argument("--seeds", type=int, default=3, help="how many histories of each source")
    args = parser.parse_args()
    different = 0
    for source in SOURCES:
        for seed in range(1, args.seeds + 1):
            found = [_history(root, source, seed) for root in (HERE.parents[1], args.other.resolve())]
            different += found[0] != found[1]
            print(source, seed, "the same" if found[0] == found[1] else f"DIFFERENT: {found}", flush=True)
    sys.exit(different > 0)


def _history(root: pathlib.Path, source: str, seed: int) -> str:
    """What a checkout sends, in a process of its own: counts and a digest."""
    program = f"import sys; sys.path[:0] = {[str(root), str(HERE), str(HERE.parent / 'support')]}\n"
    program += f"import compare_messages; compare_messages.publish({source!r}, {seed})"
    command = [str(root / "venv/bin/python"), "-c", program]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout.strip()


def publish(source: str, seed: int) -> None:
    """Publish one history in rounds, a day apart; print how much was sent, and a digest of all of it."""
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
        settings = _settings(folder)
        receivers = _Receivers()
        said: list[Any] = []
        for day in range(ROUNDS):
            receivers.refuses = day % 2 == 1
            for plugin in plugins(settings):
                options = target_run.RunOptions(now=True, since=1, make_sender=receivers.sender)
                for one in run.publish(settings, [plugin], options):
                    found = one.summary
                    said.append((one.target, found.sent, found.notes, str(one.error), found.quarantined))
            clock[0] += DAY_S
            with closing(access.open_accounting(here)) as con:
                _change(con, chance)
        with closing(sqlite3.connect(here.publishing_database)) as con:
            ledger = _ledger(con)
        whole = repr((said, receivers.heard, ledger)).replace(name, "")
        for life in {row for row in ledger["Lives"] if row}:
            whole = whole.replace(life, "")
    records = sum(len(one[-2]) for one in receivers.heard)
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    print(json.dumps({"messages": len(receivers.heard), "records": records, "sha256": digest}))


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
    """Receivers that note all messages; while ``refuses`` is set they refuse some, by their bytes."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.refuses = False

    def sender(self, plugin: Any) -> Any:
        """For `RunOptions.make_sender`."""
        from arcacct.publishing.plugin import Answer, Outcome, Sender

        receivers = self

        class OfTarget(Sender):
            destination = plugin.target.url

            def send(self, message: Any) -> Any:
                records, sums = tuple(map(tuple, message.records)), tuple(map(tuple, message.sums))
                head = message.message_format, message.origin, message.seq, message.digest, message.data
                receivers.heard.append((plugin.target.name, *head, records, sums))
                lot = hashlib.sha256(message.data).digest()[0] if receivers.refuses else 255
                if lot < 20:
                    return Answer(Outcome.TRY_LATER, 503, "busy")
                if lot < 60:
                    return Answer(Outcome.RECORDS_REFUSED, 500, "no")
                if not plugin.returns_row_ids:
                    return Answer(Outcome.ACCEPTED, 200, receiver_id="1")
                return Answer(Outcome.ACCEPTED, 200, receiver_rows={one.key: _row(one.key) for one in message.records})

        return OfTarget()


def _row(key: str) -> str:
    return str(int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:3], "big"))


def _change(con: sqlite3.Connection, chance: random.Random) -> None:
    """Change some values of some jobs, as no recorder would, and delete some jobs."""
    from arcacct.records.recorder import escaped

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


def _ledger(con: sqlite3.Connection) -> dict[str, list[str]]:
    """The rows of every table, and of the view that third parties read."""
    tables = con.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1")
    names = [name for (name,) in tables if name not in NEVER_THE_SAME]
    found = {name: sorted(map(repr, con.execute(f"SELECT * FROM {name}"))) for name in [*names, "v1_publications"]}
    found["Lives"] = sorted({str(life) for (life,) in con.execute("SELECT Incarnation FROM Targets")})
    return found


if __name__ == "__main__":
    main()
