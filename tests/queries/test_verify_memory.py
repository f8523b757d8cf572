"""A month of many jobs takes no more memory than one of few: what there is of each job is on disk."""

from __future__ import annotations

import json
import pathlib
from contextlib import closing

import many_jobs
import pytest
from installed import ARCACCT, arcacct
from memory import peak_kib

from arcacct.config.paths import Places, places
from arcacct.database import incarnation as database_incarnation
from arcacct.database.access import open_publishing, read_accounting
from arcacct.database.schema import incarnation
from arcacct.publishing import cursors, ledger
from arcacct.publishing.sent import digest_of
from arcacct.records import reader

pytestmark = pytest.mark.campaign

NOVEMBER = (1793491200, 1796083200)
SGAS, OTHER = "arex/jura/sgas:s", "arex/jura/sgas:never"
FEW, MANY = 3000, 40_000


def site(folder: pathlib.Path, jobs: int, *, changed: bool) -> pathlib.Path:
    """The configuration of a site with two targets: one was sent all jobs, as they are or otherwise; one nothing."""
    control = folder / "control"
    (control / "finished").mkdir(parents=True)
    conf = folder / "arc.conf"
    conf.write_text(f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={control}\n")
    (folder / "arcacct.conf").write_text(
        "".join(f"[{block}]\ntargeturl=https://sgas.example.org/{block[-1]}\n" for block in (SGAS, OTHER))
    )
    here = places(None, str(control))
    many_jobs.fill(here, jobs, NOVEMBER[0] + 10)
    _deliver(here, b"\1" * 16 if changed else None)
    return conf


def _deliver(here: Places, as_if: bytes | None) -> None:
    with closing(read_accounting(here)) as con, closing(open_publishing(here)) as publishing:
        publishing.execute("PRAGMA synchronous = OFF")
        cursors.set_cursor(
            publishing, cursors.Cursor(SGAS, incarnation(con), database_incarnation.highest_seq(con), 0, None)
        )
        for page in reader.ended_between(con, *NOVEMBER):
            records = tuple(
                ledger.SentRecord(
                    aar.job_id, aar.record_id, 1, aar.end_time, as_if or digest_of()(aar), f"ur-{aar.job_id}", None,
                    ("", "ce"), aar.wall_s,
                )
                for aar in page
            )  # fmt: skip
            message = ledger.Message(0, "ur", "publish", None, "https://x", None, "", len(records), b"b", records)
            (written,) = ledger.record_intent(publishing, SGAS, [message])
            ledger.accepted(publishing, SGAS, written, 200, "ok", None)


@pytest.mark.parametrize("changed", [False, True], ids=["all as sent", "all changed since"])
def test_memory_does_not_grow_with_the_month(tmp_path, changed) -> None:
    """Whether each job agrees, or each differs at one target and was never sent to another."""
    few, many = (site(tmp_path / str(jobs), jobs, changed=changed) for jobs in (FEW, MANY))

    small, large = (peak_kib(ARCACCT, "--config", conf, "verify", "2026-11", exit_code=1) for conf in (few, many))

    assert large < 1.3 * small
    done = arcacct("--config", many, "verify", "2026-11", "--format", "json")
    report = json.loads(done.stdout)
    assert [(one["name"], one["jobs"]) for one in report["sources"]] == [
        ("database", MANY),
        ("control directory", 0),
        ("sgas:s", MANY),
        ("sgas:never", 0),
    ]
    assert [one["agrees"] for one in report["sources"]] == [True, True, not changed, False]
    assert len(report["differences"]) == (2 * MANY if changed else MANY)
    assert done.stdout == json.dumps(report, indent=1) + "\n"
