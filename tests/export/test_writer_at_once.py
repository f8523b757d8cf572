"""What else happens while an export waits for its place: exports into others, prunes, restores, forgotten names."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest
import stored_jobs

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")

from exported_site import JULY_S, JUNE_S, MAY_S, Site, ids, names_of, read

from arcacct.database import upkeep
from arcacct.database.access import open_accounting, open_publishing
from arcacct.errors import StoreBusy
from arcacct.export.storage import LocalStore
from arcacct.publishing.locks import publishing_lock
from arcacct.records import pseudonymise

_PATIENCE_S = 300
_HANGING = """
    import sys
    from arcacct.config.paths import places
    from arcacct.export.writer import ExportOptions, export
    from arcacct.export.storage import LocalStore
    controldir, dataset, call = sys.argv[1:]

    def hanging(*arguments):
        print(call, flush=True)
        sys.stdin.readline()
        return whole(*arguments)

    store = LocalStore(dataset)
    whole = getattr(store, call)
    setattr(store, call, hanging)
    options = ExportOptions("SITE", "ce.example.org", "plain")
    print(export(places(None, controldir), store, options, patience_s=0.1).problems)
"""


@contextmanager
def hanging(site: Site, call: str) -> Iterator[subprocess.Popen[str]]:
    """An export of the site, by another process, into a place that does not answer a call."""
    command = [sys.executable, "-c", textwrap.dedent(_HANGING), site.here.controldir, str(site.dataset), call]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{call}\n"
        try:
            yield process
        finally:
            process.kill()


def alone(site: Site) -> None:
    """Wait until no one reads the database to publish or to export."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with publishing_lock(site.here.publishing_lock):
                return
        except StoreBusy:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.campaign
@pytest.mark.parametrize("call", ["listing", "read", "open", "put"])
def test_a_place_that_hangs_keeps_nobody_else_waiting(site, tmp_path, call) -> None:
    """Exports into other places, prunes and restores go on; a second export into the same place does not."""
    copies = upkeep.backups(site.here, str(tmp_path / "copies"))
    site.export()
    site.prune(MAY_S + 5)
    site.add(stored_jobs.job(9, end_s=MAY_S + 20), stored_jobs.job(10, end_s=JUNE_S + 20))
    site.con.close()
    with hanging(site, call):
        (tmp_path / "link").symlink_to(site.dataset)
        for same in (site.dataset, tmp_path / "link", f"{site.dataset}/"):
            with pytest.raises(StoreBusy, match="exports into the same place"):
                site.export(LocalStore(str(same)))
        assert len(site.export(LocalStore(str(tmp_path / "other"))).written) == 3
        alone(site)
        upkeep.restore(site.here, next(copy.path for copy in copies if "accounting" in copy.path), patience_s=5)
    site.con = open_accounting(site.here)


def test_another_database_that_was_put_there_meanwhile_is_not_mixed_in(site, tmp_path) -> None:
    """The export ends (75), and the next one makes all of it right."""
    copies = upkeep.backups(site.here, str(tmp_path / "copies"))
    site.export()
    for number, end_s in ((9, MAY_S + 20), (10, JUNE_S + 20)):
        site.add(stored_jobs.job(number, end_s=end_s))
    site.con.close()
    with hanging(site, "put") as process:
        alone(site)
        upkeep.restore(site.here, next(copy.path for copy in copies if "accounting" in copy.path), patience_s=5)
        _out, said = process.communicate("\n" * 100)
    assert "StoreBusy" in said
    assert "it was replaced by another database" in said
    site.con = open_accounting(site.here)
    assert site.export().problems == ()
    assert names_of(site) == ids(1, 2, 3, 4, 5, 6)


class Meanwhile(LocalStore):
    """A place that takes so long for its first file that something else happens before."""

    def __init__(self, root: pathlib.Path, what: Callable[[], object]) -> None:
        super().__init__(str(root))
        self._what = what

    def put(self, path, file) -> None:
        what, self._what = self._what, lambda: None
        what()
        super().put(path, file)


def test_nothing_is_pruned_while_a_place_takes_as_long_as_places_do(site) -> None:
    """What was never exported would be in the archive alone."""

    def prune() -> None:
        with pytest.raises(StoreBusy), publishing_lock(site.here.publishing_lock):
            pass

    assert len(site.export(Meanwhile(site.dataset, prune)).written) == 3
    with publishing_lock(site.here.publishing_lock):
        pass


@pytest.mark.parametrize("before", [MAY_S + 5, JUNE_S + 1, JUNE_S + 5])
def test_jobs_that_are_pruned_between_two_months_stay(site, before) -> None:
    """Those of the month that is read next are taken from the part that they are in, each once."""
    site.export()
    for number, end_s in ((9, MAY_S + 20), (10, JUNE_S + 20), (11, JULY_S + 20)):
        site.add(stored_jobs.job(number, end_s=end_s))

    def prune() -> None:
        alone(site)
        site.prune(before)

    assert site.export(Meanwhile(site.dataset, prune), patience_s=0.1).problems == ()
    everything = ids(1, 2, 9, 3, 4, 10, 5, 11, 6)
    assert names_of(site) == everything
    site.export()
    assert names_of(site) == everything
    children = read(LocalStore(str(site.dataset)))["attributes"]
    assert len([row for row in children if row["name"] == "jobname"]) == 9


def test_names_that_are_forgotten_between_two_months_are_in_no_file(site) -> None:
    """Also of jobs that are in an archive, in the month that is written next."""
    site.export()
    site.prune(JUNE_S + 1)
    for number, end_s in ((9, MAY_S + 20), (10, JUNE_S + 20)):
        site.add(stored_jobs.job(number, end_s=end_s))

    def forget() -> None:
        with closing(open_publishing(site.here)) as publishing:
            pseudonymise.pseudonymise(
                site.here, site.con, publishing, pseudonymise.Scope(1_782_864_000), alone=nullcontext
            )

    site.export(Meanwhile(site.dataset, forget))
    users = {row["record_id"]: row["user_dn"] for row in read(LocalStore(str(site.dataset)))["jobs"]}
    assert [users[number].startswith("pseudonym-") for number in (3, 4)] == [True, True]
    site.export()
    texts = b"".join(path.read_bytes() for path in site.dataset.rglob("part-*") if "month=07" not in str(path))
    users = {row["record_id"]: row["user_dn"] for row in read(LocalStore(str(site.dataset)))["jobs"]}
    assert [users[number].startswith("pseudonym-") for number in (1, 2, 3, 4, 5)] == [True] * 4 + [False]
    assert len([path for path in site.dataset.rglob("part-*") if "month=07" not in str(path)]) == 10
    assert texts
