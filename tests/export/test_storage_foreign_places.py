"""Root's export into a directory where others can write: whatever they put there costs themselves at most."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import conf_files
import pytest
import stored_jobs
from attackers import SECRET, relinking, secret_of_root, theirs
from memory import peak_kib

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")

import pyarrow as pa
import pyarrow.parquet as pq
from exported_site import JUNE_S, MAY_S, Site, ids, names_of, read

from arcacct.database.access import writing
from arcacct.errors import InputError
from arcacct.export.dataset import TABLES, Partition, part_name, position_path, with_digest
from arcacct.export.storage import LocalStore
from arcacct.export.writer import Exported

pytestmark = pytest.mark.campaign

MONTH = Partition("SITE", 2026, 6, "ce.example.org")
NOTE = position_path(MONTH.site, MONTH.ce)
_COMMAND = "import sys; from arcacct.cli.main import main; main(sys.argv[1:])"
_MOST_KIB = 500_000
"""An export of a few jobs has 150,000 at most, the attacks made gigabytes of it."""
_PATIENCE_S = 600
"""What hangs, hangs permanently."""


def command(site: Site) -> list[str]:
    conf = conf_files.write(pathlib.Path(site.here.controldir).parent)
    return [sys.executable, "-c", _COMMAND, "--config", conf, "export", "--site", MONTH.site, str(site.dataset)]


def exported(site: Site) -> tuple[int, str, list[str]]:
    """Exit code, what was said, and the complaints of an export as root runs it every night."""
    done = subprocess.run(command(site), check=False, capture_output=True, text=True, timeout=_PATIENCE_S)
    return done.returncode, done.stdout, done.stderr.splitlines()


def pipe(path: pathlib.Path) -> None:
    os.mkfifo(path)


def sparse(path: pathlib.Path) -> None:
    path.touch()
    os.truncate(path, 6 << 30)


def brackets(path: pathlib.Path) -> None:
    path.write_text("[" * 200_000)


def nested(path: pathlib.Path) -> None:
    path.write_text('{"dataset_version": 1, "life": ' + "[" * 5000 + "]" * 5000 + "}")


def link(path: pathlib.Path) -> None:
    path.symlink_to("/dev/zero")


def directory(path: pathlib.Path) -> None:
    path.mkdir()


def infinite(path: pathlib.Path) -> None:
    path.write_text('{"dataset_version": 1, "finished_log_seq": 1e999, "events_row": 1e999, "life": "x"}')


STRANGE = [pipe, sparse, brackets, nested, link, infinite]


def put(path: pathlib.Path, strange: Callable[[pathlib.Path], None]) -> None:
    path.unlink()
    strange(path)


@pytest.mark.parametrize("strange", STRANGE)
def test_the_note_of_the_last_export_can_be_anything(site, strange) -> None:
    """Then all months are looked at, what changed is written, and the note is right again."""
    site.export()
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    put(site.dataset / NOTE, strange)

    assert peak_kib(*command(site)) < _MOST_KIB
    assert names_of(site) == ids(1, 2, 3, 9, 4, 5, 6)
    assert (site.dataset / NOTE).is_file()
    assert not (site.dataset / NOTE).is_symlink()
    before = site.files()
    assert site.export().written == ()
    assert site.files() == before


def test_a_note_that_cannot_be_replaced_is_named(site) -> None:
    """With 65: each export looks at every month until it is removed."""
    site.export()
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    put(site.dataset / NOTE, directory)

    code, said, complaints = exported(site)
    assert (code, "1 month " in said, len(complaints), NOTE in complaints[0]) == (65, True, 1, True)
    assert names_of(site) == ids(1, 2, 3, 9, 4, 5, 6)


@pytest.mark.parametrize("strange", [*STRANGE, directory])
def test_a_manifest_can_be_anything(site, strange) -> None:
    """Its month is named and left as it is, the others are written, and without it the month is written, too."""
    site.export()
    for number, end_s in ((8, MAY_S + 1), (9, JUNE_S + 1)):
        site.add(stored_jobs.job(number, end_s=end_s))
    put(site.manifest(6), strange)

    assert peak_kib(*command(site), exit_code=65) < _MOST_KIB
    done = site.export()
    assert (done.written, done.unchanged) == ((), 2)
    assert [MONTH.manifest in problem for problem in done.problems] == [True]
    with suppress(IsADirectoryError):
        site.manifest(6).unlink()
    with suppress(FileNotFoundError):
        site.manifest(6).rmdir()
    assert site.export().problems == ()
    assert names_of(site) == ids(1, 8, 2, 3, 9, 4, 5, 6)


@pytest.mark.parametrize("target", ["/", "..", "/etc"])
@pytest.mark.parametrize(
    "name",
    ["manifests/v1/site=SITE/year=2026/month=06", MONTH.folder("events"), "attributes/v1/site=SITE/year=2026/month=06"],
)
def test_a_link_in_the_dataset_costs_its_month(site, name, target) -> None:
    """It leads nowhere, and nothing is written behind it."""
    site.export()
    for number, end_s in ((8, MAY_S + 1), (9, JUNE_S + 1)):
        site.add(stored_jobs.job(number, end_s=end_s))
    (site.dataset / name).rename(site.dataset / "kept")
    (site.dataset / name).symlink_to(target)

    done = site.export()
    assert ([one.month for one in done.written], [name in problem for problem in done.problems]) == ([5], [True])
    (site.dataset / name).unlink()
    (site.dataset / "kept").rename(site.dataset / name)
    assert site.export().problems == ()
    assert names_of(site) == ids(1, 8, 2, 3, 9, 4, 5, 6)


def test_a_link_elsewhere_in_the_dataset_is_not_looked_at(site) -> None:
    """What stands in the place of another CE's files is that one's."""
    site.export()
    (site.dataset / "manifests/v1/site=SITE/year=2026/month=06/ce=other.json").symlink_to("/etc/passwd")
    (site.dataset / "manifests/v1/site=OTHER").symlink_to("/")
    (site.dataset / "jobs/v1/site=SITE/year=2025").symlink_to("..")
    assert site.export() == Exported((), 0, 0, 3, ())


def test_manifests_of_months_in_which_no_job_can_have_ended_are_not_looked_at(site) -> None:
    """There can be a hundred thousand of them; a job with such an end keeps its month."""
    site.add(stored_jobs.job(9, end_s=32_503_680_000))
    site.export()
    for year in (1, 1969, 2999, 9999):
        bogus = site.dataset / MONTH._replace(year=year).manifest
        bogus.parent.mkdir(parents=True)
        bogus.write_text("{")
    assert (site.dataset / MONTH._replace(year=3000, month=1).manifest).exists()
    assert site.export() == Exported((), 0, 0, 4, ())


def changed(**values: object) -> Callable[[pa.Table], pa.Table]:
    """Columns of jobs with other values, each an array of pyarrow."""

    def change(table: pa.Table) -> pa.Table:
        for name, value in values.items():
            table = table.set_column(table.schema.get_field_index(name), name, value)
        return table

    return change


def of_one_text(table: pa.Table) -> pa.Table:
    """A dictionary of one text of 64 MB, to which each of many rows refers: 256 GB of text in a few kB."""
    one = table.slice(0, 1)
    many = pa.concat_tables([one] * 4096).combine_chunks()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4096, pa.int32()), pa.array(["x" * (64 << 20)]))
    return changed(job_name=text)(many)


def of_a_long_text(table: pa.Table) -> pa.Table:
    return changed(job_name=pa.array(["y" * (700 << 20), "z"]))(table)


def rewritten(site: Site, change: Callable[[pa.Table], pa.Table], table: str = "jobs", **how: object) -> None:
    """The part of June, by somebody who can write Parquet and manifests."""
    whole = json.loads(site.manifest(6).read_text())
    part = whole["tables"][table]
    path = site.dataset / MONTH.part(table, part["file"])
    found = change(pq.ParquetFile(path).read())
    path.unlink()
    new = path.with_name("new")
    pq.write_table(found, new, **{"compression": "zstd", "store_schema": False, **how})
    data = new.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    new.rename(path.with_name(part_name(sha256)))
    part |= {"file": part_name(sha256), "sha256": sha256, "bytes": len(data), "rows": found.num_rows}
    if not found.num_rows:
        part |= {"end_min_s": None, "end_max_s": None}
    site.manifest(6).write_bytes(with_digest(whole))


PARTS = {
    "a text for a number": (changed(wall_s=pa.array(["1", "2"])), {}),
    "a large text": (changed(job_name=pa.array(["a", "b"], pa.large_string())), {"store_schema": True}),
    "bytes": (changed(job_name=pa.array([b"\xff", b"b"])), {}),
    "a structure": (changed(vo=pa.array([{"a": [1]}, None])), {}),
    "no time": (changed(end_time=pa.array([None, None], pa.int64())), {}),
    "another month": (changed(end_time=pa.array([1, 2])), {}),
    "another order": (lambda table: table.take(pa.array([1, 0])), {}),
    "one job twice": (lambda table: table.take(pa.array([0, 0])), {}),
    "no name": (changed(job_id=pa.array([None, None], pa.string())), {}),
    "no number": (lambda table: table.drop_columns(["record_id"]), {}),
    "one text for all": (of_one_text, {"dictionary_pagesize_limit": 1 << 30}),
    "a text of 700 MB": (of_a_long_text, {"use_dictionary": False}),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_with_pruned_jobs_can_be_anything(site, kind) -> None:
    """It is read once more, since what was pruned is in it alone; then its month stays, named, and the others go on."""
    site.export()
    site.prune(JUNE_S + 1)
    change, how = PARTS[kind]
    rewritten(site, change, **how)
    before = site.manifest(6).read_bytes()
    for number, end_s in ((8, JUNE_S + 2), (9, JUNE_S + 60 * 86_400)):
        site.add(stored_jobs.job(number, end_s=end_s))

    if how:
        assert peak_kib(*command(site), exit_code=65) < 2 * _MOST_KIB
    limits = resource.getrlimit(resource.RLIMIT_AS)
    (problem,) = site.export().problems
    assert ("month=06" in problem, "pruned" in problem) == (True, True)
    assert (site.manifest(6).read_bytes(), resource.getrlimit(resource.RLIMIT_AS)) == (before, limits)
    assert (site.dataset / MONTH._replace(month=8).manifest).exists()


@pytest.mark.parametrize("places", [(1, 0), (0, 0)])
def test_pruned_jobs_in_another_order_are_not_believed(site, places) -> None:
    """Also where nothing next to the jobs tells it."""
    site.export()
    site.prune(JUNE_S + 10)
    for table in TABLES[1:]:
        rewritten(site, lambda rows: rows.slice(0, 0), table)
    rewritten(site, lambda rows: rows.take(pa.array(places)))
    site.add(stored_jobs.job(8, end_s=JUNE_S + 20))
    (problem,) = site.export().problems
    assert "in another place than it was" in problem


@pytest.mark.parametrize("what", ["missing", "another content", "a pipe", "more rows", "very many rows"])
def test_a_part_with_pruned_jobs_that_is_not_the_one_of_the_manifest(site, what) -> None:
    """The same; jobs of it are never mixed with what another part has."""
    site.export()
    site.prune(JUNE_S + 1)
    whole = json.loads(site.manifest(6).read_text())
    part = site.dataset / MONTH.part("jobs", whole["tables"]["jobs"]["file"])
    if what == "missing":
        part.unlink()
    elif what == "another content":
        part.write_bytes(part.read_bytes().replace(b"STORED", b"stored"))
    elif what == "a pipe":
        put(part, pipe)
    else:
        whole["tables"]["jobs"]["rows"] = 3 if what == "more rows" else 10**9
        site.manifest(6).write_bytes(with_digest(whole))
    site.add(stored_jobs.job(8, end_s=JUNE_S + 2))

    (problem,) = site.export().problems
    assert "pruned" in problem


def test_long_texts_and_many_rows_of_pruned_jobs_are_kept(site) -> None:
    """What a job can really have is no attack."""
    site.sql("DELETE FROM JobExtraInfo WHERE RecordID = 3")
    with writing(site.con, site.here):
        site.con.executemany(
            "INSERT INTO JobExtraInfo (RecordID, InfoKey, InfoValue) VALUES (3, ?, ?)",
            [(f"key{number}", "v" * 900) for number in range(5000)],
        )
    site.sql("UPDATE AAR SET LocalJobID = ? WHERE RecordID = 3", "x" * 100_000)
    site.export()
    before = read(LocalStore(str(site.dataset)))
    site.prune(JUNE_S + 1)
    site.sql("UPDATE AAR SET CPUCount = 77 WHERE RecordID = 4")

    assert site.export().problems == ()
    after = read(LocalStore(str(site.dataset)))
    assert [row for row in after["attributes"] if row["record_id"] == 3] == [
        row for row in before["attributes"] if row["record_id"] == 3
    ]
    assert after["jobs"][2]["local_job_id"] == "x" * 100_000


def test_a_new_file_that_another_user_removes_costs_itself(tmp_path, monkeypatch) -> None:
    """Between its last byte and its name: an error of that file, and not of the whole directory."""

    def removed(_fd: int) -> None:
        for one in tmp_path.rglob("*.json"):
            one.unlink()

    monkeypatch.setattr("os.fsync", removed)

    with pytest.raises(InputError, match=r"month\.json: No such file or directory"):
        LocalStore(str(tmp_path)).put("manifests/month.json", io.BytesIO(b"{}"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom users attack")
def test_links_that_another_user_puts_there_lead_root_nowhere(site, public_dir) -> None:
    """Each file that root's export puts there becomes a link to a secret, over and over."""
    secret = secret_of_root(public_dir / "of_root")
    before = secret.stat(), secret.read_text()
    site.dataset = theirs(public_dir / "dataset")
    folder = site.dataset
    for name in os.path.dirname(MONTH.manifest).split("/"):
        folder = theirs(folder / name)
    met = set()
    with relinking(folder, secret):
        for number in range(60):
            site.add(stored_jobs.job(100 + number, end_s=JUNE_S + number))
            done = site.export()
            met.add(bool(done.problems))
            assert SECRET not in "".join(done.problems)
    assert (secret.stat(), secret.read_text()) == before
    assert True in met
    for one in site.dataset.rglob("*"):
        assert one.is_symlink() or one.is_dir() or SECRET.encode() not in one.read_bytes()
