"""Months of a CE in a dataset: what is in them, when they are written again, and that no one ever misreads them."""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import closing, nullcontext

import conf_files
import pytest
import stored_jobs
from campaigns import cross

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")

import pyarrow.parquet as pq
from exported_site import JULY_S, JUNE_S, MAY_S, Site, ids, manifests, names_of, read
from in_process import said
from pyarrow.fs import FileSystem

from arcacct.cli.main import main
from arcacct.database.access import open_publishing, read_accounting, writing
from arcacct.database.schema import incarnation, new_incarnation
from arcacct.errors import StoreBusy, StoreError, UsageError
from arcacct.export import jobs, writer
from arcacct.export.dataset import MANIFESTS, TABLES, UNIT, Partition, columns, with_digest
from arcacct.export.storage import LocalStore, open_store
from arcacct.export.writer import Exported
from arcacct.publishing.locks import exporter
from arcacct.records import pseudonymise
from arcacct.records.model import Transfer
from arcacct.records.pseudonyms import site_names


def test_a_dataset_has_what_the_views_have(site) -> None:
    """Every value of every view, with its type and unit, events by time; a job that continues is not in it."""
    site.sql("INSERT INTO JobEvents VALUES (3, 'SUBMIT', '2026-06-09 00:00:00')")
    site.add(stored_jobs.job(7, status="in-progress"))
    site.con.execute("INSERT INTO Clusters (ID, Name) VALUES (1, 'cluster')")
    site.con.execute(
        "INSERT INTO JobAccelerators VALUES (3, 'sonar', 'cluster', 2, NULL, 1.5, NULL, NULL),"
        " (4, 'sacct', 'c', 2, 7200, NULL, NULL, 7)"
    )
    site.con.execute("INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples) VALUES (3, 1, 3, 1)")

    done = site.export()
    assert [partition.month for partition in done.written] == [5, 6, 7]
    assert (done.jobs, done.unchanged, done.problems) == (6, 0, ())
    store = LocalStore(str(site.dataset))
    rows = read(store)
    for table, view in VIEWS.items():
        assert sorted(repr(tuple(row.values())) for row in rows[table]) == as_viewed(site, table, view)
    assert [row["event"] for row in rows["events"] if row["record_id"] == 3] == ["SUBMIT", "ACCEPTED", "FINISHED"]
    assert [
        (row["record_id"], row["cluster"], row["gpu_count"], row["gpu_allocated_s"], row["gpu_busy_s"], row["energy_j"])
        for row in rows["accelerators"]
    ] == [(3, "cluster", 2, None, 1.5, None), (4, "c", 2, 7200, None, 7)]
    manifest = manifests(store)[0]
    with store.open(manifest.partition.part("jobs", manifest.tables["jobs"].file)) as file:
        schema = pq.read_schema(file)
    assert (str(schema.field("memory_kib").type), schema.field("memory_kib").metadata[UNIT]) == ("int64", b"KiB")
    assert (manifest.life, manifest.finished_log_seq, manifest.names) == (incarnation(site.con), 6, "plain")


def test_repeating_it_changes_nothing(site) -> None:
    """No file is written, replaced or removed, whoever repeats it, also after a job that only started."""
    site.export()
    before = site.files()

    assert site.export() == Exported((), 0, 0, 3, ())
    assert site.files() == before
    site.add(stored_jobs.job(7, status="in-progress"))
    assert site.export().written == ()
    (site.dataset / "exports/v1/site=SITE/ce=ce.example.org.json").unlink()
    assert site.export().written == ()
    after = site.files()
    assert {path: after[path] for path in before if path.startswith(TABLES)} == {
        path: before[path] for path in before if path.startswith(TABLES)
    }
    assert [path for path in before if path.startswith("manifests") and after[path] != before[path]] == []


@pytest.mark.parametrize(
    ("change", "months"),
    [
        pytest.param(lambda site: site.add(stored_jobs.job(9, end_s=JUNE_S + 1)), [6], id="a job more"),
        pytest.param(
            lambda site: site.sql(f"UPDATE AAR SET EndTime = {JULY_S} WHERE RecordID = 1"), [5, 7], id="another end"
        ),
        pytest.param(
            lambda site: site.sql("UPDATE JobExtraInfo SET InfoValue = 'x' WHERE RecordID = 3"), [6], id="a child"
        ),
        pytest.param(
            lambda site: site.sql("INSERT INTO JobEvents VALUES (5, 'DELETED', '2026-07-30 00:00:00')"),
            [7],
            id="a late event",
        ),
        pytest.param(lambda site: site.forget(1), [5], id="deleted"),
        pytest.param(lambda site: site.forget(1, 2), [5], id="all of a month deleted"),
        pytest.param(
            lambda site: site.sql(
                "INSERT INTO JobAccelerators VALUES (4, 'sonar', 'cluster', 2, NULL, NULL, NULL, NULL)"
            ),
            [6],
            id="telemetry",
        ),
    ],
)
def test_only_months_that_changed_are_written(site, change, months) -> None:
    """Whatever changes, and the others keep their files; then the dataset is what a new one would be."""
    site.con.execute("INSERT INTO Clusters (ID, Name) VALUES (1, 'cluster')")
    site.export()
    before = site.files()
    change(site)

    assert [partition.month for partition in site.export().written] == months
    after = site.files()
    others = [
        path for path in before if path.startswith(TABLES) and not any(f"={month:02d}/" in path for month in months)
    ]
    assert {path: after[path] for path in others} == {path: before[path] for path in others}
    anew = LocalStore(str(site.dataset) + "-anew")
    site.export(anew)
    assert read(LocalStore(str(site.dataset))) == read(anew)
    assert site.export().written == ()


def test_a_note_with_a_changed_digit_hides_no_change(site) -> None:
    """What comes after it in the log would never be written: the note has a digest, and without it counts as none."""
    site.export()
    note = site.dataset / "exports/v1/site=SITE/ce=ce.example.org.json"
    whole = json.loads(note.read_text())
    site.sql("UPDATE AAR SET UsedWalltime = UsedWalltime + 1 WHERE RecordID = 1")
    seq = whole["finished_log_seq"]
    note.write_text(note.read_text().replace(f": {seq}", f": {seq + 1}"))

    assert [partition.month for partition in site.export().written] == [5]
    site.sql("UPDATE AAR SET UsedWalltime = UsedWalltime + 1 WHERE RecordID = 1")
    older = {name: value for name, value in json.loads(note.read_text()).items() if name != "sha256"}
    note.write_text(json.dumps(older | {"finished_log_seq": seq + 2}))
    assert [partition.month for partition in site.export().written] == [5]


def test_a_manifest_of_an_older_version_gets_a_digest(site) -> None:
    """By the next export, which compares its month with the database; its parts stay what they are."""
    site.export()
    before, manifest = site.files(), site.manifest(6)
    whole = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({name: value for name, value in whole.items() if name != "sha256"}))

    assert [partition.month for partition in site.export().written] == [6]
    assert all(one.has_digest for one in manifests(LocalStore(str(site.dataset))))
    assert {path: of for path, of in site.files().items() if path.startswith(TABLES)} == {
        path: of for path, of in before.items() if path.startswith(TABLES)
    }
    assert site.export().written == ()


def test_parts_stay_for_a_generation(site) -> None:
    """Who started with the manifest of before can read on; with the next change its parts go."""
    site.export()
    store = LocalStore(str(site.dataset))
    part = manifests(store)[0].partition.folder("jobs")
    generations = [set(store.listing(part).files)]
    for number in (11, 12):
        site.add(stored_jobs.job(number, end_s=MAY_S))
        site.export()
        generations.append(set(store.listing(part).files))

    assert [len(files) for files in generations] == [1, 2, 2]
    assert generations[0] < generations[1]
    assert not generations[0] & generations[2]


def test_pruned_jobs_stay_and_deleted_ones_go(site) -> None:
    """A month that is half in the archive has all its jobs with their children, in order, whatever changes in it."""
    site.export()
    before = read(LocalStore(str(site.dataset)))
    site.prune(JUNE_S + 5)

    assert site.con.execute("SELECT count(*) FROM AAR").fetchone() == (3,)
    site.export()
    assert read(LocalStore(str(site.dataset))) == before
    assert site.export().written == ()
    site.add(stored_jobs.job(13, end_s=JUNE_S + 2))
    site.forget(4)
    assert [partition.month for partition in site.export().written] == [6]
    assert names_of(site) == ids(1, 2, 3, 13, 5, 6)
    children = read(LocalStore(str(site.dataset)))["attributes"]
    assert [row["value"] for row in children if row["name"] == "jobname"] == [f"job {n}" for n in (1, 2, 3, 13, 5, 6)]


def test_names_hashed_and_withheld(site) -> None:
    """Nothing that names a user is in any file: hashed the same user is the same, with the key of the site."""
    moved = Transfer("https://me:pw@se.example.org/user/User%201/f?x=1", 1, MAY_S - 9, MAY_S - 8, "output")
    site.add(stored_jobs.job(1, end_s=MAY_S)._replace(transfers=(moved,)))
    site.export()
    plain = read(LocalStore(str(site.dataset)))
    users = [row["user_dn"] for row in plain["jobs"]]
    assert "https://se.example.org/user/User%201/f" in {row["url"] for row in plain["transfers"]}
    assert "me:pw" not in repr(plain)
    names = site_names(site.here)

    assert len(site.export(names="hashed").written) == 3
    rows = read(LocalStore(str(site.dataset)))
    assert [row["user_dn"] for row in rows["jobs"]] == [names.of(user) for user in users]
    assert {row["url"] for row in rows["transfers"]} == {"https://se.example.org"}
    assert {row["value"] for row in rows["attributes"] if row["name"] == "mainfqan"} == {"/atlas/Role=production"}
    assert not any(word in repr(rows) for word in ("User", "job 1", "me:pw"))
    assert len(site.export(names="withheld").written) == 3
    rows = read(LocalStore(str(site.dataset)))
    assert not any(word in repr(rows) for word in ("User", "pseudonym", "job 1"))
    assert [row["vo"] for row in rows["jobs"]] == ["atlas"] * 6
    site.export()
    assert [row["user_dn"] for row in read(LocalStore(str(site.dataset)))["jobs"]] == users


def named_files(site: Site) -> set[str]:
    """The parts that manifests name."""
    return {
        found.partition.part(table, part.file)
        for found in manifests(LocalStore(str(site.dataset)))
        for table, part in found.tables.items()
    }


def parts_of(site: Site) -> set[str]:
    return {path for path in site.files() if path.startswith(TABLES)}


def test_names_that_are_to_go_are_in_no_file_that_is_left(site) -> None:
    """The former parts have them, so they do not wait for a day; what is no part of ours is not touched."""
    site.export()
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    site.export()
    assert parts_of(site) > named_files(site)
    theirs = site.dataset / Partition("SITE", 2026, 6, "ce.example.org").folder("jobs") / "notes.txt"
    theirs.write_text("")

    site.export(names="hashed")
    assert parts_of(site) == named_files(site) | {str(theirs.relative_to(site.dataset))}


def test_former_parts_go_after_a_day(site) -> None:
    """A month that no longer changes is there once, also when the export that replaced it was killed before the end."""
    site.export()
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    site.export()
    half = (
        site.dataset
        / Partition("SITE", 2026, 6, "ce.example.org").folder("events")
        / f".new-0123-part-{'1' * 16}.parquet"
    )
    half.write_bytes(b"PAR1")
    assert site.export().written == ()
    assert parts_of(site) > named_files(site)

    manifest = site.manifest(6)
    whole = json.loads(manifest.read_text())
    manifest.write_bytes(with_digest(whole | {"written_s": whole["written_s"] - 100_000}))
    assert site.export().written == ()
    assert parts_of(site) == named_files(site)
    assert names_of(site) == ids(1, 2, 3, 9, 4, 5, 6)


@pytest.mark.parametrize("pruned_before", [MAY_S + 5, MAY_S + 11])
def test_forgotten_names_are_forgotten_in_the_dataset(site, pruned_before) -> None:
    """Though the log says nothing of it, and also of jobs that are in an archive, if only some or all of a month."""
    site.export()
    site.prune(pruned_before)
    site.export()
    with closing(open_publishing(site.here)) as publishing:
        pseudonymise.pseudonymise(site.here, site.con, publishing, pseudonymise.Scope(1_780_272_000), alone=nullcontext)

    assert [partition.month for partition in site.export().written] == [5]
    users = [row["user_dn"] for row in read(LocalStore(str(site.dataset)))["jobs"]]
    assert [user.startswith("pseudonym-") for user in users] == [True, True, False, False, False, False]
    assert len([path for path in parts_of(site) if "month=05" in path]) == len(TABLES)
    assert site.export().written == ()


class Killed(BaseException):
    """The process ends here."""


class Dying(LocalStore):
    """Ends at the n-th change of the dataset: before it, in the middle of a file, or right after it."""

    def __init__(self, root: str, changes: int) -> None:
        super().__init__(root)
        self._left = changes

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed

    def put(self, path, file) -> None:
        self._step()
        if self._left == 0:
            # What a kill in the middle leaves: half of it under another name.
            whole = pathlib.Path(self._root, path)
            half = whole.with_name(f".new-0123456789abcdef-{whole.name}")
            half.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(file.read()[:50])
            raise Killed
        super().put(path, file)

    def remove(self, path) -> None:
        self._step()
        super().remove(path)


@pytest.mark.campaign
def test_an_export_killed_anywhere_is_never_misread(site, tmp_path) -> None:
    """After each of its steps every month is as it was or as it is, and the next export makes all of it right."""
    site.export()
    store = LocalStore(str(site.dataset))
    old = {manifest.partition: manifest.tables["jobs"] for manifest in manifests(store)}
    site.sql("UPDATE AAR SET EndTime = ? WHERE RecordID = 1", JUNE_S + 1)
    site.add(stored_jobs.job(8, end_s=JULY_S + 5))
    start = tmp_path / "start"
    shutil.copytree(site.dataset, start)
    site.export()
    new = {manifest.partition: manifest.tables["jobs"] for manifest in manifests(store)}
    expected = read(store)
    assert all(new[partition] != part for partition, part in old.items())

    for changes in range(1, 1000):
        shutil.rmtree(site.dataset)
        shutil.copytree(start, site.dataset)
        try:
            site.export(Dying(str(site.dataset), changes))
        except Killed:
            read(store)
            found = {manifest.partition: manifest.tables["jobs"] for manifest in manifests(store)}
            assert all(part in (old[partition], new[partition]) for partition, part in found.items())
            site.export()
            assert read(store) == expected
            assert not [path for path in store.listing(MANIFESTS).files if ".new-" in path]
        else:
            break
    assert changes > 15


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.campaign
def test_a_process_that_is_killed_leaves_a_dataset_to_continue_with(site) -> None:
    """By SIGKILL, as the kernel does it, at any of its steps: what stands is never half, and the last one ends it."""
    code = """
        import os, signal, sys
        from arcacct.config.paths import places
        from arcacct.export.writer import ExportOptions, export
        from arcacct.export.storage import LocalStore
        controldir, dataset, steps = sys.argv[1:]
        here, left = places(None, controldir), int(steps)
        def step(event, _values):
            global left
            if event in ("open", "os.mkdir", "os.rename", "os.listdir", "shutil.rmtree"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        store = LocalStore(dataset)
        sys.addaudithook(step)
        export(here, store, ExportOptions("SITE", "ce.example.org", "plain"))
    """
    whole = {5: ids(1, 2), 6: ids(3, 4), 7: ids(5, 6)}
    done = 0
    for steps in range(2, 2000, 61):
        ended = run_python(code, site.here.controldir, str(site.dataset), str(steps))
        found = names_of(site)
        months = [month for month, names in whole.items() if names[0] in found]
        assert found == [name for month in months for name in whole[month]]
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        done += 1
    assert done > 4
    assert found == ids(1, 2, 3, 4, 5, 6)
    site.export()
    assert not [path for path in site.files() if ".new-" in path]


def test_a_disk_that_is_full_is_named(site) -> None:
    """With the place that is full, which is that of the temporary files, and the dataset stays as it was."""
    site.export()
    before = site.files()
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    code = """
        import resource, sys
        from arcacct.cli.main import main
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        main(sys.argv[1:])
    """
    conf = pathlib.Path(site.here.controldir, "arc.conf")
    conf.write_text(f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={site.here.controldir}\n")
    full = run_python(code, "--config", str(conf), "export", "--site", "SITE", str(site.dataset))

    assert (full.returncode, full.stderr.count("\n")) == (74, 1), full.stderr
    assert "File too large" in full.stderr
    assert "TMPDIR" in full.stderr
    assert site.files() == before


def damaged_by(change):
    """What happens to one file."""

    def damage(site: Site) -> None:
        manifest = site.manifest(6)
        whole = json.loads(manifest.read_text())
        part = site.dataset / Partition("SITE", 2026, 6, "ce.example.org").part("jobs", whole["tables"]["jobs"]["file"])
        change(manifest, part, whole)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            damaged_by(lambda manifest, _part, whole: manifest.write_text(json.dumps(whole | {"dataset_version": 9}))),
            "version 9 of the dataset",
            id="version",
        ),
        pytest.param(
            damaged_by(lambda manifest, _part, whole: manifest.write_bytes(with_digest(whole | {"life": "other"}))),
            "written from another accounting database",
            id="another CE of this name",
        ),
        pytest.param(
            damaged_by(lambda manifest, _part, _whole: manifest.write_bytes(b"")), "truncated or damaged", id="manifest"
        ),
    ],
)
def test_differences_are_named_and_the_rest_continues(site, damage, message) -> None:
    """It stays as it is; the other months are exported, and without the manifest the month is written again."""
    site.export()
    damage(site)
    site.add(stored_jobs.job(9, end_s=JULY_S))
    before = site.manifest(6).read_bytes()

    done = site.export()
    assert [partition.month for partition in done.written] == [7]
    assert len(done.problems) == 1
    assert message in done.problems[0]
    assert site.export().problems == done.problems
    assert site.manifest(6).read_bytes() == before
    site.manifest(6).unlink()
    assert site.export().problems == ()
    assert names_of(site) == ids(1, 2, 3, 4, 5, 9, 6)


@pytest.mark.parametrize(
    "damage",
    [
        damaged_by(lambda _manifest, part, _whole: part.unlink()),
        damaged_by(lambda _manifest, part, _whole: part.write_bytes(b"PAR1")),
        damaged_by(lambda _manifest, part, _whole: shutil.rmtree(part.parent)),
    ],
    ids=["no part", "half a part", "no directory"],
)
def test_a_lost_part_is_written_again(site, damage) -> None:
    """As a power cut on a strict file system leaves it: the next export has the month whole, and says nothing."""
    site.export()
    damage(site)

    done = site.export()
    assert ([partition.month for partition in done.written], done.problems) == ([6], ())
    assert names_of(site) == ids(1, 2, 3, 4, 5, 6)
    assert site.export().written == ()


def test_a_lost_part_with_pruned_jobs_is_named(site) -> None:
    """An export cannot write what is in an archive alone."""
    site.export()
    site.prune(JUNE_S + 1)
    damaged_by(lambda _manifest, part, _whole: part.unlink())(site)

    (problem,) = site.export().problems
    assert "No such file" in problem


def test_a_month_that_could_not_be_written_is_written_once_it_can(site) -> None:
    """What changed in it meanwhile is not lost when somebody puts the manifest back."""
    site.export()
    kept = site.manifest(6).read_bytes()
    site.manifest(6).write_bytes(b"")
    for record, cores in ((3, 3), (5, 5)):
        site.sql("UPDATE AAR SET CPUCount = ? WHERE RecordID = ?", cores, record)
        assert len(site.export().problems) == 1
    site.manifest(6).write_bytes(kept)

    assert [partition.month for partition in site.export().written] == [6]
    found = {row["record_id"]: row["core_count"] for row in read(LocalStore(str(site.dataset)))["jobs"]}
    assert (found[3], found[5]) == (3, 5)


def test_without_a_manifest_a_month_is_written_whatever_stands_there(site) -> None:
    """That is the way out of a part that is damaged, also of one that has the right name and size."""
    site.export()
    (name,) = [path for path in named_files(site) if path.startswith("jobs") and "month=06" in path]
    part = site.dataset / name
    part.write_bytes(part.read_bytes().replace(b"PAR1", b"XXXX"))

    site.manifest(6).unlink()
    assert [partition.month for partition in site.export().written] == [6]
    assert names_of(site) == ids(1, 2, 3, 4, 5, 6)


def test_a_part_with_pruned_jobs_that_is_damaged_is_not_replaced(site) -> None:
    """It has jobs that are nowhere else in reach: the month stays, and is named."""
    site.export()
    site.prune(JUNE_S + 1)
    manifest = manifests(LocalStore(str(site.dataset)))[1]
    part = site.dataset / manifest.partition.part("events", manifest.tables["events"].file)
    part.write_bytes(b"x" * manifest.tables["events"].bytes)

    done = site.export()
    assert len(done.problems) == 1
    assert "pruned jobs are only in it" in done.problems[0]
    assert json.loads(site.manifest(6).read_text())["tables"]["jobs"]["rows"] == 2


def test_a_database_that_was_restored_continues(site) -> None:
    """Its life is another one, of the same line: nothing is foreign, and jobs that came back are there once."""
    site.export()
    with writing(site.con, site.here):
        new_incarnation(site.con)

    done = site.export()
    assert done.problems == ()
    assert names_of(site) == ids(1, 2, 3, 4, 5, 6)
    assert {manifest.life for manifest in manifests(LocalStore(str(site.dataset)))} == {incarnation(site.con)}


def as_viewed(site: Site, table: str, view: str) -> list[str]:
    """The rows of a view in the dataset's columns; of numbers what is one there, of texts whatever can be read."""
    of_table = columns()[table][1:]
    listed = ", ".join(f"{view}.{column.name}" for column in of_table)
    with closing(read_accounting(site.here)) as con:
        found = con.execute(
            f"SELECT RecordID, {listed} FROM {view} JOIN AAR ON JobID = {view}.job_id WHERE EndTime > 0"
        ).fetchall()

    def fitting(value: object, kind: str) -> object:
        if value is None or kind == "double":
            return value
        if kind == "int64":
            return int(value) if isinstance(value, int | float) and abs(value) <= 2**63 else None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    return sorted(
        repr((record_id, *(fitting(value, column.type) for value, column in zip(values, of_table, strict=True))))
        for record_id, *values in found
    )


# The values as told: `v1_jobs` shows no usage of a job that does not count.
VIEWS = {"jobs": "JobValues", "events": "v1_job_events", "transfers": "v1_transfers", "attributes": "v1_job_attributes"}
HOSTILE = (
    "x'ff41'", "CAST(x'ff' AS TEXT)", "'a' || char(0) || 'b'", "-9223372036854775808", "1e300", "1.5", "''",
    "'%25%0A%27'",
)  # fmt: skip


@pytest.mark.parametrize(("value", "names"), cross(len(HOSTILE), [*HOSTILE], ["plain", "hashed", "withheld"]))
def test_values_of_other_types_do_not_end_it(site, value, names) -> None:
    """SQLite keeps whatever it is given: what is no number is NULL in a column of numbers, and texts are readable."""
    for table, texts in (
        ("AAR", ("LocalJobID", "UsedMemory", "NodeCount", "UsedScratch", "UsedCPUUserTime", "StageInVolume")),
        ("JobExtraInfo", ("InfoValue",)),
        ("AuthTokenAttributes", ("AttrValue",)),
        ("RunTimeEnvironments", ("RTEName",)),
        ("DataTransfers", ("URL", "FileSize", "TransferEnd")),
        ("JobEvents", ("EventTime",)),
    ):
        site.sql(f"UPDATE {table} SET {', '.join(f'{one} = {value}' for one in texts)} WHERE RecordID IN (1, 4)")
    site.sql(f"UPDATE AAR SET JobID = {value} WHERE RecordID = 4")

    assert site.export(names=names).jobs == 6
    rows = read(LocalStore(str(site.dataset)))
    assert sorted(row["record_id"] for row in rows["jobs"]) == [1, 2, 3, 4, 5, 6]
    for table, view in VIEWS.items() if names == "plain" else ():
        assert sorted(repr(tuple(row.values())) for row in rows[table]) == as_viewed(site, table, view)


def test_a_file_is_replaced_at_once(tmp_path) -> None:
    """Who reads while it is written reads the former one, and may go on to."""
    store = LocalStore(str(tmp_path))
    path = Partition("SITE", 2026, 6, "ce").manifest
    store.put(path, io.BytesIO(b"old"))
    reader = (tmp_path / path).open("rb")

    class Source(io.BytesIO):
        def read(self, _most: int | None = -1, /) -> bytes:
            assert store.read(path) == b"old"
            return super().read(1)

    store.put(path, Source(b"new"))
    with reader:
        assert (reader.read(), store.read(path), list(store.listing(MANIFESTS).files)) == (b"old", b"new", [path])


def test_one_export_at_a_time(site) -> None:
    """A second one is told so, and that nothing is lost (75)."""
    store = LocalStore(str(site.dataset))
    with exporter(site.here, store.place), pytest.raises(StoreBusy, match="another arcacct exports"):
        site.export()


def test_a_month_that_loses_a_job_meanwhile_is_read_again(site, monkeypatch) -> None:
    """A job that moves within a month while it is read would be in it twice, or not at all."""
    read_pages = jobs.pages
    moves = iter([JUNE_S + 7])

    def pages(con, partition):
        yield from read_pages(con, partition)
        for end in moves:
            site.sql("UPDATE AAR SET EndTime = ? WHERE RecordID = 2", end)

    monkeypatch.setattr(writer, "pages", pages)
    site.export()
    assert names_of(site) == ids(1, 3, 4, 2, 5, 6)


def test_into_memory(site) -> None:
    """Any file system of fsspec will do."""
    pytest.importorskip("fsspec", reason="the extra `parquet` is not installed")
    url = f"memory://{site.here.controldir}"
    site.export(open_store(url))
    site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
    assert [partition.month for partition in site.export(open_store(url)).written] == [6]

    assert [row["job_id"] for row in read(open_store(url))["jobs"]] == ids(1, 2, 3, 9, 4, 5, 6)
    assert site.export(open_store(url)).written == ()


@pytest.mark.campaign
def test_into_s3(site, monkeypatch) -> None:
    """A bucket is a place as any other, and the keys stay in the environment."""
    moto = pytest.importorskip("moto.server", reason="moto, flask or flask-cors is not installed")
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        settings = {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "very secret", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        url = f"s3://accounting/wlcg?scheme=http&endpoint_override={host}:{port}"

        FileSystem.from_uri(f"{url}&allow_bucket_creation=true")[0].create_dir("accounting")
        assert len(site.export(open_store(url)).written) == 3
        site.add(stored_jobs.job(9, end_s=JUNE_S + 1))
        assert [partition.month for partition in site.export(open_store(url)).written] == [6]
        assert [row["job_id"] for row in read(open_store(url))["jobs"]] == ids(1, 2, 3, 9, 4, 5, 6)
        with pytest.raises(StoreError, match=r"s3://nowhere/wlcg/.*does not exist"):
            site.export(open_store(url.replace("accounting", "nowhere")))
    finally:
        server.stop()


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/x", "s3://secret@bucket/x", "s3://bucket/x?secret_key=secret", "sftp://me:secret@host/x",
        "abfs://container:secret@account.dfs.core.windows.net/x",
    ],
)  # fmt: skip
def test_no_secret_in_a_url(url) -> None:
    """Every user of the host sees what programs are called with."""
    with pytest.raises(UsageError) as error:
        open_store(url)
    assert "secret" not in str(error.value).replace("AWS_SECRET", "")


@pytest.mark.parametrize("place", ["", "s3://", "foo://bar/x"])
def test_what_is_no_place_is_refused(place) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError):
        open_store(place)


def test_the_command(site, tmp_path, capsys) -> None:
    """Site and CE are those of the configuration; what cannot be exported is told on stderr, with 65."""
    conf = conf_files.write(tmp_path, conf_files.DIRECTORY)

    def run(*words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as raised:
            main(["--config", conf, "export", *words, str(site.dataset)])
        return raised.value.code, *capsys.readouterr()

    code, out, _err = run()
    assert (code, out.split(",")[:2]) == (0, ["3 months of ce.example.org written", " 6 jobs"])
    assert run()[:2] == (0, "nothing to write: 3 months of ce.example.org unchanged\n")
    assert (site.dataset / "jobs/v1/site=EXAMPLE-SITE/year=2026/month=05/ce=ce.example.org").is_dir()
    (site.dataset / "manifests/v1/site=EXAMPLE-SITE/year=2026/month=05/ce=ce.example.org.json").write_text("{")
    code, out, err = run()
    assert (code, "2 months" in out, err.count("\n")) == (65, True, 1)
    assert "month=05" in err
    assert run("--site", "../x")[0] == 65
    conf_files.write(tmp_path, "")
    code, _out, err = run()
    assert (code, "--site" in err) == (64, True)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/proc/none", "/proc/none: No such file or directory; name a directory that this user may create"),
        ("{file}", "file: Not a directory; name a directory that this user may create"),
    ],
)
def test_a_directory_that_cannot_be_is_an_error_with_advice(site, tmp_path, capsys, place, words) -> None:
    """No dataset can be made there: what is wrong with the path, and what to name."""
    conf = conf_files.write(tmp_path, conf_files.DIRECTORY)
    (tmp_path / "file").write_text("")
    done = said(capsys, "--config", conf, "export", place.format(file=tmp_path / "file"))
    assert done.returncode == 74
    assert words in done.stderr
    assert site.files() == {}
