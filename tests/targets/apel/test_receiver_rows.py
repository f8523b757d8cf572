"""Rows of the receiver's own tables: exactly those of ours are taken back, whatever names there are in the export."""

from __future__ import annotations

import csv
import os
import pathlib
import time

import in_process
import pytest
from campaigns import cross
from publishing_site import CARS, SUMMARIES, Job, Site
from receiver_rows import FOREIGN, NAMES, batch, export, exported, put

from arcacct.errors import FiguresHeld
from arcacct.sandbox import apel as at_apel
from arcacct.sandbox.apel import JOBS, NORMALISED_SUMMARIES
from arcacct.times import month_bounds, month_of

SUMMARY_ROWS = at_apel.SUMMARIES
DATA = pathlib.Path(__file__).parents[2] / "data" / "receivers"
THIS = month_of(int(time.time()))
LAST = month_of(month_bounds(*THIS)[0] - 1)


@pytest.fixture
def site(memory, empty_box):
    """Three jobs of the last month are at APEL as a summary."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*(Job(f"j{number}", month_bounds(*LAST)[0] + number) for number in range(3)))
    return site


def row_of(site: Site, **values: object) -> dict[str, object]:
    """The row of the summary, with other values."""
    (row,) = site.box.apel.summaries.values()
    return {**row, **values}


def jobs_of(table) -> dict[str, int]:
    """The jobs of all rows, by user and SubmitHost."""
    found: dict[str, int] = {}
    for row in table.values():
        name = f"{row['GlobalUserName']} {row['SubmitHost']}"
        found[name] = found.get(name, 0) + row["NumberOfJobs"]
    return found


def again(site: Site, *files: object):
    """Republish the month with these files."""
    return site.republish(*month_bounds(*LAST), receiver_rows=[str(file) for file in files])


def said(outcome) -> str:
    """The notes of a run."""
    return "\n".join(outcome.summary.notes)


def written(path: pathlib.Path, text: str | bytes) -> pathlib.Path:
    """A file with this content."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def as_csv(path: pathlib.Path, names, rows) -> pathlib.Path:
    """The same table as pandas and phpMyAdmin write it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *(["" if cell is None else cell for cell in row] for row in rows)])
    return path


@pytest.mark.parametrize(("name", "kind"), cross(len(NAMES), NAMES, ["tsv", "csv"]))
def test_a_row_is_zeroed_under_the_name_it_has(site, name, kind) -> None:
    """And no key appears at APEL that was not there."""
    apel = site.box.apel
    mine = row_of(site)
    put(apel, SUMMARY_ROWS, {**mine, "GlobalUserName": name, "NumberOfJobs": 7})
    before = jobs_of(apel.summaries)
    table = exported([*apel.summaries.values()])
    path = as_csv(site.path / "r.csv", *table) if kind == "csv" else written(site.path / "r.tsv", batch(*table))

    outcome = again(site, path)

    assert outcome.error is None
    assert before == {f"{mine['GlobalUserName']} {mine['SubmitHost']}": 3, f"{name} {mine['SubmitHost']}": 7}
    # The database keeps each name as it was spelt first.
    after = {key.lower(): jobs for key, jobs in jobs_of(apel.summaries).items()}
    assert after == {key.lower(): 0 if jobs == 7 else 3 for key, jobs in before.items()}
    assert not apel.rejected


@pytest.mark.parametrize("file", ["rows-escaped.tsv", "rows-line-separators.tsv"])
def test_the_clients_own_output_is_read(memory, empty_box, file) -> None:
    """Names with escapes, and a line separator in a row of another CE."""
    site = Site(memory, empty_box, SUMMARIES.replace("=SITE", "=DEMO-SUMMARIES"))
    site.send(Job("j", month_bounds(*LAST)[0]))
    year, month = LAST
    text = (DATA / file).read_text(encoding="utf-8").replace("\t11\t2026\t", f"\t{month}\t{year}\t")

    outcome = again(site, written(site.path / "rows.tsv", text))

    assert outcome.error is None
    zeroed = {row["GlobalUserName"] for row in empty_box.apel.summaries.values() if not row["NumberOfJobs"]}
    assert zeroed == ({r"/cn=ana mar\xc3\xada"} if "escaped" in file else {"/cn=old1", "/cn=old2"})


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_rows_of_other_ces_never_stop_ours(site, kind) -> None:
    """Names of any kind between rows of ours, and values that no message of ours has."""
    apel = site.box.apel
    old = [row_of(site, GlobalUserName=f"/CN=old{number}", NumberOfJobs=1) for number in range(len(FOREIGN) + 1)]
    other = {"SubmitHost": "https://other.ce.org/arex", "ServiceLevelType": "custom", "Month": 13, "NodeCount": None}
    rows = [old[0]]
    for name, mine in zip(FOREIGN, old[1:], strict=True):
        rows += [row_of(site, GlobalUserName=name, **other), mine]
    for row in old:
        put(apel, SUMMARY_ROWS, row)
    table = exported(rows)

    outcome = again(
        site, as_csv(site.path / "r.csv", *table) if kind == "csv" else written(site.path / "r.tsv", batch(*table))
    )

    assert outcome.error is None
    assert f"{len(FOREIGN)} rows of SubmitHost https://other.ce.org/arex ignored" in said(outcome)
    assert sum(jobs_of(apel.summaries).values()) == 3
    assert len(apel.summaries) == 1 + len(old)


def test_damaged_rows_of_other_ces_never_stop_ours(site) -> None:
    """Bytes that are not UTF-8, escapes that the client does not write, missing cells; they are counted."""
    put(site.box.apel, SUMMARY_ROWS, row_of(site, GlobalUserName="/CN=old"))
    names, (_mine, old) = exported([*site.box.apel.summaries.values()])
    header, row = batch(names, [old]).encode().splitlines(keepends=True)
    other = row.replace(b"ce.example.org", b"other.ce.org")
    assert other != row
    damaged = [other.replace(b"/CN=old", b"/CN=\xd6"), other.replace(b"/CN=old", rb"/CN=\xC3"), b"a\tb\n", b"\n"]
    damaged.append(row.replace(b"ce.example.org", rb"ce\.example.org"))

    outcome = again(site, written(site.path / "rows.tsv", b"".join([header, *damaged, row])))

    assert outcome.error is None
    assert sum(jobs_of(site.box.apel.summaries).values()) == 3
    assert "2 rows of SubmitHost https://other.ce.org:443/arex" in said(outcome)
    assert f"2 rows that cannot be read ignored: no cell is a SubmitHost of this CE; the first is {site.path}" in str(
        outcome.summary.notes
    )


def test_hosts_of_others_are_printed_in_letters(capsys, site) -> None:
    """Also bytes that are no text, and what would steer a terminal or look like a line of ours."""
    table = batch(*exported([row_of(site, SubmitHost="https://x\x1b[2J\narcacct: done")]))
    path = written(site.path / "rows.tsv", table.encode().replace(b"https://x", b"https://\xd6"))

    done = in_process.said(
        *(capsys, "--config", site.path / "arc.conf", "republish", "--from", "2026-01-01", "--to", "2026-02-01"),
        *("--target", "apel:a", "--receiver-rows", path, "--plan"),
    )

    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "of SubmitHost" in line]
    assert line.isprintable()
    assert r"https://\udcd6\x1b[2J\n" in line
    assert "arcacct: done ignored" in line


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("NumberOfJobs", "many", "'many' is not a number"),
        ("NumberOfJobs", "\u0663", "is not a number"),
        ("Month", "NULL", "it is unknown"),
        ("Processors", "1.5", "'1.5' is not a number"),
        ("ServiceLevel", "1e3", "'1e3' is not a number with three decimals"),
        ("GlobalUserName", r"/CN=\xC3", r"\x is not an escape of `mysql --batch`; export without --raw"),
        ("GlobalUserName", "a\tb", "cells instead of"),
        ("GlobalUserName", "a\nb", "cells instead of"),
    ],
)
def test_a_row_of_ours_that_cannot_be_read_stops_all(site, column, value, says) -> None:
    """File, line and column; nothing is sent, not even for the rows before it."""
    apel = site.box.apel
    put(apel, SUMMARY_ROWS, row_of(site, GlobalUserName="/CN=old"))
    names, rows = exported([*apel.summaries.values()])
    cells = dict(zip(names, ["" if cell is None else cell for cell in rows[1]], strict=True))
    line = "\t".join({**cells, column: value}.values()) + "\n"
    path = written(site.path / "rows.tsv", batch(names, rows) + line)
    sent = len(apel.received)

    error = str(again(site, path).error)

    # A line end within a value makes two lines of it; the host is in the second.
    assert error.startswith(f"{path}, line {5 if chr(10) in value else 4}")
    assert says in error
    assert "instead of" in says or f", column {column}: " in error
    assert len(apel.received) == sent


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("EndTime", "yesterday", "'yesterday' is not a time such as 2026-11-03 07:00:10"),
        ("EndTime", "99999999999999999999", "is not a time"),
        ("EndTime", "2026-11-03 07:00:10+02:00", "is not a time"),
        ("EndTime", "2026-11-03 07:00:10.5", "is not a time"),
        ("LocalJobId", "NULL", "it is unknown"),
        ("NodeCount", "1" * 200_000, f"'{'1' * 80}...' is not a number"),
        ("GlobalUserName", r"/CN=\\xC3\\xB6", r"\\xC3 has the escapes of `mysql --batch`"),
    ],
)
def test_a_record_of_a_job_that_cannot_be_read_stops_all(site, column, value, says) -> None:
    """Also in CSV."""
    own = {"LocalJobId": "7", "EndTime": month_bounds(*LAST)[0], "WallDuration": 0}
    names, (cells,) = exported([row_of(site) | own])
    cells[names.index(column)] = value

    error = str(again(site, as_csv(site.path / "rows.csv", names, [cells])).error)

    assert error.startswith(f"{site.path}/rows.csv, line 2, column {column}: ")
    assert says in error


@pytest.mark.parametrize(
    ("name", "table"),
    cross(
        6, ["/CN=\u00d6z", " /CN=blank", "/CN=a\tb", "/CN=a\u2028b", "/CN=" + "x" * 252, "a%%b"], [SUMMARY_ROWS, JOBS]
    ),
)
def test_a_name_that_no_message_can_have_is_left_to_the_administrator(site, name, table) -> None:
    """Written in another way it would be another key, which does not exist."""
    apel = site.box.apel
    own = {"LocalJobId": "7", "EndTime": month_bounds(*LAST)[0], "WallDuration": 5, "CpuDuration": 5}
    row = row_of(site, GlobalUserName=name)
    path = written(site.path / "rows.tsv", batch(*exported([{**own, **row} if table == JOBS else row])))
    before = jobs_of(apel.summaries)

    outcome = again(site, path)

    assert outcome.error is None
    assert (
        "1 row of this CE not cancelled: a name in it cannot be sent, so only the receiver's administrator can"
        f" delete it; the first is {path}, line 2, column GlobalUserName: "
    ) in said(outcome)
    assert jobs_of(apel.summaries) == before
    assert "zeros" not in said(outcome)
    assert not apel.job_records


@pytest.mark.parametrize(
    ("names", "kind"),
    cross(
        7,
        [
            {"VO": "atlas", "VOGroup": "None", "VORole": "None"},
            {"VO": "None", "VOGroup": "None", "VORole": "None"},
            {"VO": "atlas", "VOGroup": "atlas", "VORole": "pilot"},
            {"VO": "other", "VOGroup": "/atlas/x", "VORole": "Role=production"},
            {"InfrastructureType": "local", "ServiceLevelType": "si2k", "ServiceLevel": 2500.5},
            {"NodeCount": 0, "Processors": 64, "GlobalUserName": "None"},
            {"GlobalUserName": r"/CN=\xC3\x96z", "LocalJobId": r"7\t"},
        ],
        ["urs", "individual", "summaries"],
    ),
)
def test_a_job_is_zeroed_in_the_group_that_it_is_in(memory, empty_box, kind, names) -> None:
    """With the names of the row: the summariser keeps the sum of a group whose last job has moved to another one."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={kind}"))
    apel = empty_box.apel
    (job,) = [Job("j", month_bounds(*LAST)[0])]
    site.send(job)
    donor = Site(_folder(memory / "donor"), empty_box, CARS.replace("=urs", "=individual"))
    donor.send(job._replace(job_id="k"))
    row = next(row for row in apel.job_records.values() if row["LocalJobId"] == "4k") | {"LocalJobId": "4old"} | names
    put(apel, JOBS, {**row, "WallDuration": 5000, "CpuDuration": 5000})
    groups = apel.hybrid

    outcome = again(site, *[path for path in export(apel, site.path) if path.endswith("jobs.tsv")])

    assert outcome.error is None
    assert not apel.rejected
    assert apel.hybrid.keys() == groups.keys()
    assert sum(row["WallDuration"] for row in apel.hybrid.values()) == 100
    assert "zeros sent for 2 records that the receiver has and we do not publish" in said(outcome)
    left = [row["LocalJobId"] for row in apel.job_records.values() if row["WallDuration"]]
    assert left == ([] if kind == "summaries" else ["4j"])
    # In a month of sums APEL may show a sum of the same names instead of a record.
    assert too_many(site) == ("number of jobs unknown" if kind == "summaries" else "2 jobs too many")


@pytest.mark.parametrize("wall_s", [5000, 0], ids=["usage", "zeros"])
def test_zeros_for_a_row_are_counted_and_sent_again(memory, empty_box, wall_s) -> None:
    """APEL counts a record with zeros as a job, and may load an older message once more."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", "=individual"))
    apel = empty_box.apel
    site.send(Job("j", month_bounds(*LAST)[0]))
    (row,) = apel.job_records.values()
    other = row | {"LocalJobId": "4other", "WallDuration": wall_s, "CpuDuration": wall_s}
    put(apel, JOBS, other)
    assert too_many(site) == ""

    assert again(site, *[path for path in export(apel, site.path) if path.endswith("jobs.tsv")]).error is None
    assert too_many(site) == "1 job too many"
    assert apel.totals()["SITE", *LAST].jobs == 2
    put(apel, JOBS, other | {"WallDuration": 5000})
    assert site.republish(*month_bounds(*LAST)).error is None
    assert apel.totals()["SITE", *LAST].wall_s == 100


def test_zeros_for_a_row_belong_to_the_job_of_that_id_and_end(memory, empty_box) -> None:
    """Only a lost ledger knew the former name of the site: the job counts under both, once with zeros."""
    cars = SUMMARIES.replace("=summaries", "=individual")
    site = Site(memory, empty_box, cars)
    job = Job("j", month_bounds(*LAST)[0])
    site.send(job)
    site.configure(cars.replace("=SITE", "=OTHER"))
    lose_ledger(site)

    rows = [path for path in export(empty_box.apel, site.path) if path.endswith("jobs.tsv")]
    assert again(site, *rows).error is None
    assert site.publish(accept_lower=(LAST,)).error is None
    assert too_many(site) == "1 or more jobs too many"
    assert site.ledger("SELECT count(*), count(DISTINCT JobID) FROM SentRecords") == [(2, 1)]


def test_rows_of_a_month_on_hold_are_left_and_counted(memory, empty_box) -> None:
    """Zeros would lower the month: they are sent once an operator has accepted it, with the same file again."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(Job("j", month_bounds(*LAST)[0]))
    put(empty_box.apel, SUMMARY_ROWS, {**row_of(site), "GlobalUserName": "/CN=former"})
    rows = export(empty_box.apel, site.path)
    lose_ledger(site)
    site.sql(f"UPDATE DBConfig SET KeyValue = '{month_bounds(*LAST)[0] + 1}' WHERE KeyName = 'ARCACCT_CREATED'")

    outcome = again(site, *rows)
    assert isinstance(outcome.error, FiguresHeld)
    assert "2 rows of months on hold not changed at the receiver" in said(outcome)
    assert sum(jobs_of(empty_box.apel.summaries).values()) == 2
    assert site.publish(since=1, accept_lower=(LAST,)).error is None
    outcome = again(site, *rows)
    assert outcome.error is None
    assert "on hold" not in said(outcome)
    assert sum(jobs_of(empty_box.apel.summaries).values()) == 1


def test_zeros_for_a_row_keep_its_names(memory, empty_box) -> None:
    """Of a job that is deleted here, after the ledger was lost: zeros under other names would leave its usage."""
    site = Site(memory, empty_box, CARS)
    empty_box.apel.summarises_each_message = False
    job = Job("j", month_bounds(*LAST)[0])
    site.send(job)
    empty_box.apel.summarise()
    site.sql(f"DELETE FROM AAR WHERE JobID = '{job.job_id}'")
    lose_ledger(site)

    rows = [path for path in export(empty_box.apel, site.path) if path.endswith("jobs.tsv")]
    assert again(site, *rows).error is None
    empty_box.apel.summarise()
    assert [row["WallDuration"] for row in empty_box.apel.hybrid.values()] == [0]


def lose_ledger(site: Site) -> None:
    """publishing.db is gone."""
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{site.settings.places.publishing_database}{suffix}").unlink(missing_ok=True)


def too_many(site: Site) -> str:
    """What `arcacct verify` says of the number of jobs in the last month."""
    with site.verified(LAST) as report:
        answer, _sync = [one.answer for one in report.sources if one.name.split()[0] == "apel:a"]
    assert answer.startswith(("yes", "usage yes"))
    return answer.partition(", ")[2]


def _folder(path: pathlib.Path) -> pathlib.Path:
    path.mkdir()
    return path


def test_benchmarks_of_any_kind_are_taken_back(site) -> None:
    """Summaries of former programs have types and values that ours never have."""
    apel = site.box.apel
    odd = [("custom", 1.0), ("None", 0.0), ("hs06", 10.5), ("HEPscore23", 12.125), ("HEPSPEC", 9999999.999)]
    mine = row_of(site)
    for kind, value in odd:
        put(apel, SUMMARY_ROWS, {**mine, "ServiceLevelType": kind, "ServiceLevel": value})
    before = apel.summaries.keys()

    assert again(site, *export(apel, site.path)).error is None

    assert apel.summaries.keys() == before
    assert sum(jobs_of(apel.summaries).values()) == 3


def test_a_benchmark_that_normalised_summaries_cannot_name_is_left(memory, empty_box) -> None:
    """Of sums with normalised times."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", "=normalised-v04"))
    site.send(Job("j", month_bounds(*LAST)[0]))
    apel = empty_box.apel
    (row,) = apel.normalised_summaries.values()
    for kind in ("None", "custom", "si2k"):
        put(apel, NORMALISED_SUMMARIES, {**row, "ServiceLevelType": kind})

    outcome = again(site, *export(apel, site.path))

    assert outcome.error is None
    assert not apel.rejected
    jobs = {row["ServiceLevelType"].lower(): row["NumberOfJobs"] for row in apel.normalised_summaries.values()}
    assert jobs == {"hepspec": 1, "none": 0, "custom": 1, "si2k": 0}
    assert "column ServiceLevelType: 'custom'" in said(outcome)


def test_windows_line_ends_are_no_part_of_a_value(site) -> None:
    """If every line has one; a single one belongs to the last cell."""
    apel = site.box.apel
    put(apel, SUMMARY_ROWS, row_of(site, GlobalUserName="/CN=old"))
    names, rows = exported([*apel.summaries.values()])
    last = names.index("GlobalUserName")
    moved = [[*row[:last], *row[last + 1 :], row[last]] for row in [names, *rows]]
    text = batch(moved[0], moved[1:])

    one = again(site, written(site.path / "one.tsv", text.replace("/CN=old\n", "/CN=old\r\n")))
    assert one.error is None
    assert r"column GlobalUserName: '/CN=old\r'" in said(one)
    assert again(site, written(site.path / "all.tsv", "\ufeff" + text.replace("\n", "\r\n"))).error is None
    assert sum(jobs_of(apel.summaries).values()) == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[:-1], "line 2: it has no end, so the file was truncated; copy it again"),
        (lambda text: text.partition("\n")[2], "the first line must name the columns of VSummaries"),
        (lambda text: text.replace("\tProcessors", "\tNodeCount"), "the first line must name the columns"),
        (lambda text: text.replace("Site\t", "VO\tSite\t", 1), "the first line has the column VO twice"),
        (lambda _text: "", "it is empty: no row matched, or the export failed; leave it out or export again"),
        (lambda _text: "\0", "the first line must name the columns"),
        (lambda text: text.replace("\t", ",").replace("Site,", 'Site,"', 1), "a quote has no end"),
    ],
)
def test_a_file_that_is_no_export_is_refused(site, change, says) -> None:
    """What is wrong, and where."""
    path = written(site.path / "rows.tsv", change(batch(*exported([row_of(site)]))))
    sent = len(site.box.apel.received)

    error = str(again(site, path).error)

    assert error.startswith(str(path))
    assert says in error
    assert len(site.box.apel.received) == sent


def test_what_is_no_file_is_refused_at_once(site) -> None:
    """A pipe without a writer, a device without an end, a directory, a file that is too large or not there."""
    pipe, large = site.path / "pipe", site.path / "large"
    os.mkfifo(pipe)
    written(large, "Site\t")
    os.truncate(large, 64 * 2**20 + 1)
    says = {
        pipe: "a pipe, not a regular file",
        pathlib.Path("/dev/zero"): "a device, not a regular file",
        site.path: "Is a directory",
        large: "larger than 64 MiB; export one month at a time",
        site.path / "nothing": "No such file",
    }
    for path, text in says.items():
        error = str(again(site, path).error)
        assert error.startswith(str(path))
        assert text in error
