"""What is wrong with a dataset: it is named, the rest is answered, and the exit code says so."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil

import pytest
from campaigns import cross, examples
from in_process import said

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

import federation as generator
import hostile_datasets
from broken_datasets import BAD, BROKEN, JOBS, part
from written_partitions import write_partition

from arcacct.export.dataset import TABLES
from arcacct.fleet.dataset import Engine, dataset
from arcacct.fleet.engine import answered

COMPLAINTS = {
    "another version of the dataset": "version 2 of the dataset",
    "a manifest that is cut off": "truncated or damaged",
    "a manifest of another partition": "but is at",
    "a part that is half written": "it is truncated or changed",
    "a part that is not there": "which is missing",
    "a part with other bytes": "it is truncated or changed",
    "a manifest that tells another number of rows": f"has {JOBS} rows, the manifest says {JOBS + 1}",
    "two CEs with one name": "two CEs have the same name",
    "two CEs with one name in one directory": "two CEs have the same name",
    "overlapping exports": "overlapping exports of the same CE",
    "an export that is not finished": "no manifest names its files",
    "links to the root directory": "ce02.example.org.json: a symbolic link, which is not followed",
    "a link to a part": ".parquet: a symbolic link, which is not followed",
    "a pipe in the place of a part": ".parquet: not a file; remove it",
    "a pipe in the place of a manifest": "ce02.example.org.json: not a file; remove it",
    "a manifest of 6 GB": f"{6 << 30} bytes, and arcacct writes at most",
    "a manifest of 200,000 brackets": "not a complete manifest, truncated or damaged",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_what_is_wrong_is_named_and_the_rest_is_answered(broken, tmp_path, capsys) -> None:
    """`verify`, `stats` and `sql` end with 65 and name it; what nothing is wrong with is answered."""
    directories = broken.make(tmp_path)

    verified = said(capsys, "fleet", "verify", *directories)
    asked = said(capsys, "fleet", "stats", *directories, "--by", "year", "--format", "json")
    by_sql = said(capsys, "fleet", "sql", *directories, "SELECT count(*) AS jobs FROM jobs", "--format", "json")

    assert [verified.returncode, asked.returncode, by_sql.returncode] == [65, 65, 65]
    for done in (verified, asked, by_sql):
        assert COMPLAINTS[broken.name] in done.stderr
    (year,), (counted,) = json.loads(asked.stdout), json.loads(by_sql.stdout)
    is_of_both = broken.name.startswith("two CEs")
    assert year["jobs"] == counted["jobs"] == broken.whole_jobs + 2 * JOBS * is_of_both


def write(root: pathlib.Path, *months: int, **told: object) -> None:
    """The same jobs in these months of 2026."""
    for month in months:
        partition = BAD._replace(month=month)
        write_partition(root, partition, {"jobs": generator.jobs_of(partition, JOBS)}, **told)


def test_a_sound_dataset(tmp_path, capsys) -> None:
    """It is said how much there is; that a month lacks is told, and may be right."""
    write(tmp_path, 1, 2, 4)

    done = said(capsys, "fleet", "verify", "--deep", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Site-01, ce02.example.org: nothing of 1 month between 2026-02 and 2026-04" in done.stdout
    assert f"3 partitions, 15 files, jobs for queries: {3 * JOBS}; 0 problems" in done.stdout


def test_other_content_is_found_by_its_digest(tmp_path, capsys) -> None:
    """Bytes that changed in the middle of a file are seen, whatever the footer says; the file is named."""
    write(tmp_path, 1, 2)
    file = part(tmp_path, tmp_path / BAD.manifest)
    content = bytearray(file.read_bytes())
    content[100:110] = bytes(10)
    file.write_bytes(content)

    for options in ([], ["--deep"]):
        done = said(capsys, "fleet", "verify", *options, tmp_path)
        assert done.returncode == 65
        assert f"{file} has other content than was exported" in done.stderr


def test_a_manifest_with_another_digit(tmp_path, capsys) -> None:
    """It is not what was exported, and named by its own digest."""
    write(tmp_path, 1, 2)
    manifest = tmp_path / BAD.manifest
    told = json.loads(manifest.read_text())
    told["tables"]["jobs"]["end_max_s"] -= 1
    manifest.write_text(json.dumps(told))

    done = said(capsys, "fleet", "verify", tmp_path)

    assert done.returncode == 65
    assert f"{manifest}: the manifest is damaged (ValueError: its own digest (sha256) does not match its content)" in (
        done.stderr
    )
    assert f"jobs for queries: {JOBS}; 1 problem" in done.stdout


def test_a_manifest_without_a_digest_misleads_no_question(tmp_path, capsys) -> None:
    """Those of older versions have none: whatever ends it tells, all files of the month are read; verify names it."""
    write(tmp_path, 1, 2)
    manifest = tmp_path / BAD.manifest
    told = json.loads(manifest.read_text())
    begin_s, end_s = BAD.bounds
    told["tables"]["jobs"] |= {"end_min_s": begin_s, "end_max_s": begin_s}
    manifest.write_text(json.dumps({name: value for name, value in told.items() if name != "sha256"}))

    asked = ("fleet", "stats", tmp_path, "--by", "month", "--from", f"{begin_s + 1}", "--to", f"{end_s}")
    done, verified = said(capsys, *asked, "--format", "json"), said(capsys, "fleet", "verify", tmp_path)

    assert (done.returncode, done.stderr, verified.returncode, verified.stderr) == (0, "", 0, "")
    assert [row["jobs"] for row in json.loads(done.stdout)] == [JOBS]
    assert "Site-01, ce02.example.org: 1 manifest without a digest of its own" in verified.stdout


@pytest.mark.parametrize("wrong", ["other content", "another table", "more rows", "a text that is too long"])
def test_an_overlap_that_fails_its_checks_decides_nothing(wrong, tmp_path, capsys) -> None:
    """Another CE's directory with this CE's name, written later: the sound month is read, and the other is named."""
    write(tmp_path / "own", 1, 2)
    write(tmp_path / "foreign", 1, life="f" * 32, written_s=2_000_000_000)
    file = part(tmp_path / "foreign", tmp_path / "foreign" / BAD.manifest)
    if wrong == "other content":
        content = bytearray(file.read_bytes())
        content[100] ^= 1
        file.write_bytes(content)
    else:
        kind = {"another table": "int as text", "more rows": "more rows", "a text that is too long": "long text"}[wrong]
        hostile_datasets.HOSTILE[kind].make(tmp_path / "foreign", BAD)
    both = (tmp_path / "own", tmp_path / "foreign")

    verified = said(capsys, "fleet", "verify", *["--deep"] * (wrong == "a text that is too long"), *both)
    by_stats = said(capsys, "fleet", "stats", *both, "--by", "month,user", "--format", "json")
    sql = "SELECT month, count(job_name) AS jobs FROM jobs GROUP BY month ORDER BY month"
    by_sql = said(capsys, "fleet", "sql", *both, sql, "--format", "json")

    assert (verified.returncode, verified.stderr.count("\n")) == (65, 1)
    assert f"{tmp_path / 'foreign' / BAD.manifest}: " in verified.stderr
    assert f"jobs for queries: {2 * JOBS}; 1 problem" in verified.stdout
    for done in (by_stats, by_sql):
        assert done.returncode == 65
        assert sum(row["jobs"] for row in json.loads(done.stdout)) == 2 * JOBS


_EVERYTHING = " UNION ALL ".join(
    f"SELECT '{table}' AS of, site, ce, year, month, count(*), CAST(sum(hash({table})) AS VARCHAR) FROM {table}"
    " GROUP BY ALL"
    for table in TABLES
)


_PARTITION = r"site=([^/]+)/year=([0-9]+)/month=([0-9]+)/ce=(.+?)(?:\.json$|/)"


def test_no_changed_bit_of_a_dataset_changes_a_figure_silently(federation, tmp_path) -> None:
    """In any file, with its size and times kept: the partition is named and left out, or the answer is what it was."""
    chance, root = random.Random(51), tmp_path / "dataset"
    shutil.copytree(federation.root, root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    whole, problems = everything_in(root)
    assert whole
    assert not problems
    named = 0
    for _number in range(examples(200)):
        path = chance.choice(files)
        data, status = path.read_bytes(), path.stat()
        place = chance.randrange(8 * len(data))
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

        answer, problems = everything_in(root)

        if answer != whole:
            site, year, month, ce = re.search(_PARTITION, f"{path}").groups()
            left = {key: of for key, of in whole.items() if key[1:] != (site, ce, int(year), month)}
            assert (path, answer) == (path, left)
            assert f"/site={site}/year={year}/month={month}/ce={ce}.json: " in problems[0]
            assert len(problems) == 1
        named += len(problems)
        path.write_bytes(data)
    assert named > examples(200) // 2


def everything_in(root: pathlib.Path) -> tuple[dict[tuple[object, ...], object], tuple[str, ...]]:
    """A digest of all rows by table and partition; what is wrong."""

    def ask(engine: Engine) -> dict[tuple[object, ...], object]:
        return {tuple(row[:5]): tuple(row[5:]) for row in engine.rows(_EVERYTHING, {})}

    answer, found = answered("duckdb", dataset([str(root)]), ask)
    return answer, found.problems


def test_a_file_that_no_engine_can_read(tmp_path, capsys) -> None:
    """Columns of zeros with a sound footer stop the engine: the file is found, left out, and the rest is answered."""
    write(tmp_path, 1, 2)
    file = part(tmp_path, tmp_path / BAD.manifest)
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(content[:4] + bytes(len(content) - 4 - footer) + content[-footer:])

    done = said(capsys, "fleet", "stats", tmp_path, "--by", "month,user", "--format", "json")
    by_sql = said(capsys, "fleet", "sql", tmp_path, "SELECT DISTINCT month, user_dn FROM jobs", "--format", "json")
    row_by_row = said(capsys, "fleet", "sql", tmp_path, "SELECT month, user_dn FROM jobs", "--format", "json")

    for one in (done, by_sql):
        assert one.returncode == 65
        assert f"{file} has other content than was exported" in one.stderr
        assert {row["month"][-2:] for row in json.loads(one.stdout)} == {"02"}
    assert row_by_row.returncode == 65
    assert file.name in row_by_row.stderr or "fleet verify --deep" in row_by_row.stderr


UNWRITTEN = [
    {"written_s": 1e999}, {"written_s": -1}, {"written_s": "yesterday"}, {"schema": None}, {"names": "other"},
    {"seen": 5}, {"tables": {}}, {"tables": []}, {"year": "2026"}, {"month": 2}, {"dataset_version": "1"}, None,
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"), cross(12, UNWRITTEN, [("fleet", "stats", "--by", "vo"), ("report", "--fleet")]), ids=str
)
def test_manifests_that_nobody_writes(tmp_path, capsys, change, words) -> None:
    """Any of them is left out by its name, by the report, too; the others answer."""
    write(tmp_path, 1, 2)
    manifest = tmp_path / BAD._replace(month=1).manifest
    told = json.loads(manifest.read_text())
    manifest.write_text("[" * 100_000 if change is None else json.dumps({**told, **change}))

    done = said(capsys, *words, tmp_path)
    assert done.returncode == 65
    assert done.stderr.startswith(f"arcacct: {manifest}: ")
    assert done.stderr.count("\n") == 1


def test_a_directory_named_for_a_site_has_that_site_alone(tmp_path, capsys) -> None:
    """Whoever claims its name or its life elsewhere, later and soundly, decides about nothing."""
    write(tmp_path / "a", 1, 2)
    foreign = BAD._replace(site="Foreign")
    for partition in (BAD, foreign):
        jobs = {"jobs": generator.jobs_of(partition, JOBS // 2)}
        write_partition(tmp_path / "b", partition, jobs, written_s=2_000_000_000)
    asked = ("--by", "site,month", "--format", "json")

    told = said(capsys, "fleet", "stats", f"Site-01={tmp_path / 'a'}", f"Foreign={tmp_path / 'b'}", *asked)
    half_told = said(capsys, "fleet", "stats", f"Site-01={tmp_path / 'a'}", tmp_path / "b", *asked)
    report = said(capsys, "report", "--month", "2026-01", "--fleet", f"Site-01={tmp_path / 'a'}", "--format", "json")
    mistyped = said(capsys, "fleet", "verify", f"Site-1={tmp_path / 'a'}")

    of_foreign, *own = [row["jobs"] for row in json.loads(told.stdout)]
    assert (told.returncode, of_foreign, own) == (65, JOBS // 2, [JOBS, JOBS])
    left_out = f"{tmp_path / 'b'}/manifests/v1/site=Site-01: left out, because this directory was not named for Site-01"
    for done in (told, half_told):
        assert left_out in done.stderr
    assert [row["jobs"] for row in json.loads(half_told.stdout) if row["site"] == "Site-01"] == [JOBS, JOBS]
    assert (report.returncode, report.stderr) == (0, "")
    assert mistyped.returncode == 65
    assert f"{tmp_path / 'a'}: it has no month of Site-1; correct the name of the site" in mistyped.stderr


def test_a_site_that_was_renamed(tmp_path, capsys) -> None:
    """The same database exported under two names of its site counts once, as it was exported last."""
    write(tmp_path, 1)
    renamed = BAD._replace(site="New-Name")
    write_partition(tmp_path, renamed, {"jobs": generator.jobs_of(renamed, JOBS)}, written_s=2_000_000_000)

    done = said(capsys, "fleet", "stats", tmp_path, "--by", "site", "--format", "json")

    assert done.returncode == 65
    assert "overlapping exports of the same CE" in done.stderr
    assert [(row["site"], row["jobs"]) for row in json.loads(done.stdout)] == [("New-Name", JOBS)]


def test_one_name_at_two_sites(tmp_path, capsys) -> None:
    """Both CEs count, and it is said."""
    write(tmp_path, 1)
    elsewhere = BAD._replace(site="Elsewhere")
    write_partition(tmp_path, elsewhere, {"jobs": generator.jobs_of(elsewhere, JOBS)}, life="f" * 32)

    done = said(capsys, "fleet", "stats", tmp_path, "--by", "site", "--format", "json")

    assert done.returncode == 65
    assert "ce02.example.org: CEs of the sites Elsewhere, Site-01 have this name" in done.stderr
    assert [row["jobs"] for row in json.loads(done.stdout)] == [JOBS, JOBS]


def test_another_version_beside_it(tmp_path, capsys) -> None:
    """A later layout in the same directory is named, and this one is answered."""
    write(tmp_path, 1)
    (tmp_path / "manifests/v2/site=Site-01").mkdir(parents=True)
    (tmp_path / "manifests/v2/site=Site-01/all.json").write_text("{}")

    done = said(capsys, "fleet", "stats", tmp_path, "--by", "ce", "--format", "json")

    assert done.returncode == 65
    assert "manifests/v2: a dataset of another version" in done.stderr
    assert len(json.loads(done.stdout)) == 1


def test_jobs_of_two_ces_that_apel_takes_for_one(tmp_path, capsys) -> None:
    """CEs of one site with one batch system: `verify` counts the colliding ids, and names the option that helps."""
    write(tmp_path, 1, 2)
    jobs = generator.jobs_of(BAD, JOBS)
    write_partition(tmp_path, BAD._replace(ce="ce03.example.org"), {"jobs": jobs}, life="f" * 32)
    # The same at another site is another site's.
    write_partition(tmp_path, BAD._replace(site="Site-09", ce="ce04.example.org"), {"jobs": jobs}, life="e" * 32)

    done = said(capsys, "fleet", "verify", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    (told,) = [line for line in done.stdout.splitlines() if "localid_prefix" in line]
    assert told.startswith(
        f"Site-01, 2026-01: {JOBS} ids of the batch system with the same end at ce02.example.org and ce03.example.org"
    )
