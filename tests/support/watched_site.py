"""A site that has everything, for the questions whether all is well."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from contextlib import closing
from typing import NamedTuple

import arex_corpus
import pytest
from corpus_fixtures import Asked
from installed import arcacct
from prometheus_client.parser import text_string_to_metric_families

from arcacct.config.paths import Places
from arcacct.config.review import STATES
from arcacct.database.access import open_accounting, open_publishing, writing
from arcacct.database.incarnation import highest_seq
from arcacct.database.schema import incarnation
from arcacct.errors import ArcacctError
from arcacct.files.directories import resource
from arcacct.health import facts
from arcacct.publishing import cursors
from arcacct.sandbox.authority import Authority, create

DAY_S = 86400
BLOCK = "arex/jura/sgas:s"
TARGET = f"[{BLOCK}]\ntargeturl=https://sgas.example.org/sgas\n"
Samples = dict[tuple[str, ...], float]
"""Values of metrics, by name and values of the labels."""


class WatchedSite(NamedTuple):
    """Its configuration, its databases, and what the monitoring says of them."""

    conf: pathlib.Path
    here: Places
    authority: Authority

    def certificate(self, days: float) -> None:
        """Give the host a certificate that ends so many days from now."""
        now = int(time.time())
        made = self.authority.issue(
            "ce.example.org",
            not_before=now - 30 * DAY_S,
            not_after=now + int(days * DAY_S) + 600,
            directory=str(self.conf.parent / f"host{days}"),
            rsa_key=False,
        )
        self.conf.write_text(
            f"[common]\nhostname=ce.example.org\nx509_host_cert={made.cert_path}\nx509_host_key={made.key_path}\n"
            f"x509_cert_dir={self.authority.ca_dir}\n[lrms]\nlrms=fork\n[arex]\ncontroldir={self.here.controldir}\n"
            f"{self.callouts()}"
        )

    def callouts(self) -> str:
        """Lines for a launcher that is there."""
        launcher = self.conf.parent / "arcacct-hook"
        shutil.copy(resource("etc", "arcacct-hook"), launcher)
        options = "timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"
        return "".join(f"statecallout={state} {options} {launcher} %C %I %S\n" for state in STATES)

    def configure(self, ours: str) -> None:
        """Write arcacct.conf."""
        (self.conf.parent / "arcacct.conf").write_text(ours)

    def published(self, *, seconds_ago: int, behind: int = 0, error: ArcacctError | None = None) -> None:
        """The target's last good run was then; ``behind`` records came since, and the last run may have failed."""
        with closing(open_accounting(self.here)) as con, closing(open_publishing(self.here)) as book:
            seq = highest_seq(con) - behind
            cursors.set_cursor(book, cursors.Cursor(BLOCK, incarnation(con), seq, 0, None))
            cursors.finish_run(book, BLOCK, error=None, last_end_time=None)
            with book:
                book.execute("UPDATE Targets SET LastSuccess = ?", (int(time.time()) - seconds_ago,))
            if error is not None:
                cursors.finish_run(book, BLOCK, error=error, last_end_time=None)

    def status(self) -> dict[str, facts.Check]:
        """What `status` says of each thing that is not well, as JSON has it."""
        done = arcacct("--config", self.conf, "status", "--format", "json")
        checks = [facts.Check(one["subject"], one["severity"], one["text"]) for one in json.loads(done.stdout)]
        assert done.returncode == facts.worst(checks)
        return {check.subject: check for check in checks if check.severity}

    def metrics(self, code: int = 0) -> Samples:
        """What `metrics --output` writes, as Prometheus' own parser reads it."""
        output = self.conf.parent / "arcacct.prom"
        done = arcacct("--config", self.conf, "metrics", "--output", output)
        assert done.returncode == code, done.stderr
        return samples(output.read_text())

    def update(self, statement: str, *values: object) -> None:
        """Make the accounting database look as the test needs it."""
        with closing(open_accounting(self.here)) as con, writing(con, self.here):
            con.execute(statement, values)


def samples(text: str) -> Samples:
    """The text format of Prometheus, by its own parser."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def watched(conf: pathlib.Path, here: Places, authority: Authority) -> WatchedSite:
    """A site with one target, swept and published just now; its jobs ended half a day ago."""
    made = WatchedSite(conf, here, authority)
    made.certificate(90)
    made.configure(TARGET)
    # The corpus' jobs end in its future, as its site's clock had it: bring them to yesterday.
    made.update("UPDATE AAR SET EndTime = ? WHERE EndTime > 0", int(time.time()) - DAY_S // 2)
    made.update("UPDATE JobEvents SET EventTime = datetime('now', '-1 day')")
    made.update("INSERT OR REPLACE INTO DBConfig VALUES ('ARCACCT_LAST_SWEEP', ?)", str(int(time.time()) - 60))
    made.update("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_ENDS_BY_SWEEP'")
    made.published(seconds_ago=60)
    return made


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> Authority:
    """A throw-away certificate authority."""
    return create(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture
def site(ours: Asked, authority: Authority) -> WatchedSite:
    """A site with one target that has everything, swept and published just now."""
    return watched(ours.conf, arex_corpus.place(ours.control), authority)
