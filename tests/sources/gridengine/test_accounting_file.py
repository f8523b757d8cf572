"""Reading lines of Grid Engine's accounting files, of every age and encoding."""

from __future__ import annotations

import json

import pytest
from gridengine_files import COLON, JSON_90, JSON_91, changed_json, colon, json_line, ran, records

from arcacct.sources.gridengine.accounting_file import record
from arcacct.sources.gridengine.record import Record, key

US = 1_000_000
UGE_TAIL = "NONE:NONE:4194304:2097152:submit.example.org:/home/alice:qsub -l cpu=24:00:00 job.sh"
START = 1_795_168_170


def fields(found: Record | None, *names: str) -> tuple[object, ...]:
    assert found is not None
    return tuple(getattr(found, name) for name in names)


def uge(tail: str, *, category: str = "-l h_rt=60") -> bytes:
    """A line of Univa Grid Engine: times in milliseconds, then further fields."""
    times = {name: START * 1000 + number for number, name in enumerate(("submission_time", "start_time", "end_time"))}
    line = colon(category=category, ru_wallclock="20365.78", maxvmem="8388608.000000", **times)
    return line.rstrip() + b":" + tail.encode() + b"\n"


def test_the_real_file_has_all_its_records() -> None:
    """45 records are read from the file of a real qmaster, its header is not one of them."""
    assert len(records(COLON)) == 45


@pytest.mark.parametrize("path", [JSON_90, JSON_91], ids=["9.0", "9.1"])
def test_all_encodings_are_the_same_records(path) -> None:
    """JSON says the same as the colon format, and knows each record by the same key."""
    both = list(zip(records(COLON), records(path), strict=True))

    assert [key(one) for one, _ in both] == [key(other) for _, other in both]
    for one, other in both:
        more = ("submit_cmd_line", "wallclock_s", "maxrss_bytes", "ioops")
        assert one == other._replace(**dict.fromkeys(more))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(b":".join(ran(7, 1, 2, 3).split(b":")[:43]), (7, None, None, None), id="43: 6.0"),
        pytest.param(ran(7, 1, 2, 3, arid=4, ar_submission_time=START), (7, None, 4, START * US), id="45: 6.2"),
        pytest.param(
            ran(7, 1, 2, 3, category="-l cpu=24:00:00 -q a,b"),
            (7, "-l cpu=24:00:00 -q a,b", None, None),
            id="47: colons",
        ),
        pytest.param(
            b":".join(ran(7, 1, 2, 3, category="-l a=1:2").split(b":")[:-2]),
            (7, "-l a=1:2", None, None),
            id="6.0, colons",
        ),
        pytest.param(ran(7, 1, 2, 3).rstrip() + b":NONE\n", (7, None, None, None), id="46: with a job class"),
        pytest.param(
            ran(7, 1, 2, 3, category=":".join("abcdefghijk")),
            (7, "a:b:c:d:e:f:g:h:i:j:k", None, None),
            id="55 by colons",
        ),
        pytest.param(ran(7, 1, 2, 3, category=""), (7, None, None, None), id="empty category"),
    ],
)
def test_every_colon_dialect(line, expected) -> None:
    """The category is found between what is counted from the left and what is counted from the right."""
    assert fields(record(line), "job_number", "category", "arid", "ar_submission_time_us") == expected


@pytest.mark.parametrize(
    ("tail", "measured"),
    [
        pytest.param(UGE_TAIL, (None, None, None), id="52"),
        pytest.param(f"{UGE_TAIL}:20365.5", (20365.5, None, None), id="53"),
        pytest.param(f"{UGE_TAIL}:20365.5:12", (20365.5, 12, None), id="54"),
        pytest.param(f"{UGE_TAIL}:20365.5:12:0,1", (20365.5, 12, "0,1"), id="55"),
    ],
)
def test_univa_lines(tail, measured) -> None:
    """Univa's further fields are found although category and command have colons; its times are milliseconds."""
    found = record(uge(tail, category="-l cpu=24:00:00"))

    assert fields(found, "wallclock_s", "ioops", "bound_cores") == measured
    assert fields(found, "category", "submit_host", "cwd") == ("-l cpu=24:00:00", "submit.example.org", "/home/alice")
    assert fields(found, "submit_cmd_line", "maxrss_bytes", "maxpss_bytes") == (
        "qsub -l cpu=24:00:00 job.sh",
        4194304,
        2097152,
    )
    assert fields(found, "submission_time_us", "end_time_us", "ru_wallclock_s") == (
        START * US,
        START * US + 2000,
        20365.78,
    )


ALTAIR_TAIL = (
    f"{UGE_TAIL}:20365.5:12:0,1:gpu=wn1=(0 3):/dev/nvidia0:wn1=0,3:NONE:0:0:1048576:2097152:0"
    ":NONE:NONE:0:NONE:gpu=2:NONE:gpu.q:NONE:gpu=2"
)


@pytest.mark.parametrize("category", ["-l gpu=2", "-l cpu=24:00:00,gpu=2"])
@pytest.mark.parametrize("hosts", [pytest.param("wn1", id="74"), pytest.param("wn1:2,wn2:2", id="74 and colons")])
def test_lines_of_altair(category, hosts) -> None:
    """Of the longest lines all fields are in their places, whatever colons there are before and behind."""
    found = record(uge(f"{ALTAIR_TAIL}:{hosts}", category=category))

    assert fields(found, "category", "submit_cmd_line", "wallclock_s", "ioops", "bound_cores") == (
        category,
        "qsub -l cpu=24:00:00 job.sh",
        20365.5,
        12,
        "0,1",
    )
    assert found is not None
    assert {
        ("", "resource_map", "gpu=wn1=(0 3)"),
        ("", "devices", "/dev/nvidia0"),
        ("", "gpus", "wn1=0,3"),
        ("", "max_usage_in_bytes", 1048576),
    } <= set(found.custom)
    named = {name: str(value) for _group, name, value in found.custom}
    assert named["hard_resources" if ":" in hosts else "exec_host_list"].endswith(hosts)


def test_a_command_that_ends_in_numbers() -> None:
    """A time at the end of a command is not taken for the clock time of the job, nor one of no decimals overlooked."""
    long = f"{UGE_TAIL.replace(' job.sh', '')}:20365:12{ALTAIR_TAIL.partition(':20365.5:12')[2]}:wn1"

    found = [record(uge(tail)) for tail in (UGE_TAIL.replace(" job.sh", ""), long)]

    assert fields(found[0], "submit_cmd_line", "wallclock_s") == ("qsub -l cpu=24:00:00", None)
    assert fields(found[1], "submit_cmd_line", "wallclock_s", "ioops") == ("qsub -l cpu=24:00:00", 20365, 12)


@pytest.mark.parametrize("length", [43, *range(45, 75)])
def test_lines_that_end_anywhere(length) -> None:
    """The fields that a version has are told by what they look like, how many there may be."""
    line = uge(
        f"NONE:NONE:4194304:2097152:submit.example.org:/home/alice:qsub job.sh{ALTAIR_TAIL[len(UGE_TAIL) :]}:wn1"
    )
    known: dict[int, tuple[str, object]] = {
        46: ("job_class", "fast"),
        47: ("deleted_by", "root@master"),
        48: ("maxrss_bytes", 4194304),
        49: ("maxpss_bytes", 2097152),
        50: ("submit_host", "submit.example.org"),
        51: ("cwd", "/home/alice"),
        52: ("submit_cmd_line", "qsub job.sh"),
        53: ("wallclock_s", 20365.5),
        54: ("ioops", 12),
        55: ("bound_cores", "0,1"),
    }
    parts = line.rstrip().replace(b":NONE:NONE:4194304", b":fast:root@master:4194304").split(b":")
    assert len(parts) == 74
    found = record(b":".join(parts[:length]))

    assert fields(found, "category", "maxvmem_bytes", "slots") == ("-l h_rt=60", 8388608, 1)
    for needed, (name, value) in known.items():
        assert fields(found, name) == ((value if length >= needed else None),), name
    assert found is not None
    assert len(found.custom) == sum(length > place for place in (55, 56, 57, 61, 62, 66, 68, 70, 72, 73))


def test_a_deleted_job_of_univa() -> None:
    """qdel_info says who deleted a job."""
    assert fields(record(uge(UGE_TAIL.replace("NONE:NONE", "NONE:root@master"))), "deleted_by") == ("root@master",)


@pytest.mark.parametrize("line", [b"", b"\n", b"x\n", b"#\n", b"# Version: 9.1.0\n", b"\r\n", b"\0\0\0\0\n"], ids=repr)
def test_lines_without_a_record(line) -> None:
    """Comments, empty lines and lines of one character are none of our business."""
    assert record(line) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b"all.q:wn1:users\n", "3 fields", id="torn early"),
        pytest.param(ran(7, 1, 2, 3)[:-15], "42 fields", id="torn late"),
        pytest.param(ran(7, 1, 2, 3).replace(b":7:", b":seven:"), "job_number .* 'seven'", id="no number"),
        pytest.param(ran(7, 1, 2, 3, failed="nan"), "failed .* 'nan'", id="not a number"),
        pytest.param(ran(7, 1, 2, 3, exit_status="1_000"), "exit_status", id="Python's underscore"),
        pytest.param(ran(7, 1, 2, 3, slots=-1), "out of range", id="negative slots"),
        pytest.param(ran("7.5", 1, 2, 3), "not a number of a job", id="a fraction of a job"),
        pytest.param(changed_json(json_line(), job_number=7.5), "job_number: 7.5", id="a fraction of a job in JSON"),
        pytest.param(ran(10**30, 1, 2, 3), "out of range", id="too large for the database"),
        pytest.param(ran(7, *(10**22,) * 3), "out of range", id="after the year 9999"),
        pytest.param(ran(7, 1, 2, 10**15), "times of different units", id="an end in other units than the start"),
        pytest.param(ran(7, 1, 2, 3, ar_submission_time="1.5"), "a known version", id="arid for a task's name"),
        pytest.param(b"{}\n", "usage is missing", id="empty object"),
        pytest.param(b'{"job_number":1\n', "not JSON", id="torn JSON"),
        pytest.param(b"[" * 100_000 + b"\n", "1 field;", id="not even an object"),
        pytest.param(b'{"usage":' + b"[" * 100_000 + b"\n", "not JSON", id="nested too deeply"),
        pytest.param(changed_json(json_line(), job_number="1"), "job_number: '1' is not a number", id="number as text"),
        pytest.param(changed_json(json_line(), failed=None), "failed: it is missing", id="no failed"),
        pytest.param(changed_json(json_line(), slots=True), "slots: True is not a number", id="truth as number"),
        pytest.param(changed_json(json_line(), usage={"eusage": {}}), "usage.rusage is missing", id="no rusage"),
        pytest.param(json_line().replace(b'"cpu":11.443165', b'"cpu":NaN'), "NaN", id="NaN"),
    ],
)
def test_bad_lines_say_what_is_wrong(line, reason) -> None:
    """A line that cannot be used is refused with a reason, and never taken for another."""
    with pytest.raises(ValueError, match=reason):
        record(line)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (ran(7, 1, 2, 3, cpu="nan"), "cpu_s", None),
        (ran(7, 1, 2, 3, mem="1_000"), "mem_gib_s", None),
        (ran(7, 1, 2, 3, io=""), "io_gib", None),
        (ran(7, 1, 2, 3, ru_utime="1e999"), "ru_utime_s", 0),
        (ran(7, 1, 2, 3, ru_minflt="many"), "ru_minflt", None),
    ],
)
def test_an_odd_value_costs_itself(line, name, value) -> None:
    """What was measured and is no number is unknown, and counted; the rest of the line is read."""
    unusable: set[str] = set()
    found = record(line, unusable)

    assert fields(found, name, "job_number", "slots") == (value, 7, 1)
    assert unusable == {name}


@pytest.mark.parametrize(
    ("line", "field", "unusable"),
    [
        (changed_json(json_line(), owner=7), "owner", "owner"),
        (changed_json(json_line(), department=["a"]), "department", "department"),
        (changed_json(json_line(), priority="high"), "priority", "priority"),
        (changed_json(json_line(), priority=10**12), "priority", "priority"),
        (changed_json(json_line(), arid=10**30), "arid", "arid"),
        (changed_json(json_line(), ar_submission_time=-5), "ar_submission_time_us", "ar_submission_time_us"),
        (ran(7, 1, 2, 3, priority=10**12), "priority", "priority"),
        (ran(7, 1, 2, 3, arid=10**30), "arid", "arid"),
    ],
)
def test_what_accounting_does_not_need_decides_nothing(line, field, unusable) -> None:
    """Of another type, or larger than it can be: it is unknown, and counted."""
    counts: set[str] = set()
    found = record(line, counts)

    assert found is not None
    assert (getattr(found, field), counts) == (None, {unusable})


@pytest.mark.parametrize("value", [b"1e999", b'"much"', b"true", b"[1]", b'"1.2X"'])
@pytest.mark.parametrize("name", ["cpu", "maxvmem"])
def test_an_odd_value_of_json_costs_itself(name, value) -> None:
    line = json.loads(json_line())
    line["usage"]["eusage"][name] = "@"
    unusable: set[str] = set()
    found = record(json.dumps(line).encode().replace(b'"@"', value), unusable)

    assert fields(found, {"cpu": "cpu_s", "maxvmem": "maxvmem_bytes"}[name], "job_number") == (None, 1)
    assert unusable == {name}


def test_zeros_that_a_crash_left_before_a_line() -> None:
    """A line is read behind the zeros that a file system put where the file's end was."""
    assert fields(record(b"\0" * 4096 + ran(7, 1, 2, 3)), "qname", "job_number") == ("all.q", 7)


def test_bytes_that_are_not_utf8() -> None:
    """A name with bytes that are not UTF-8 is kept, with these bytes written out."""
    assert fields(record(ran(7, 1, 2, 3).replace(b":job:", b":j\xf8b\xc3\xb8:")), "job_name") == ("j\\xf8bø",)


@pytest.mark.parametrize("name", [r"\ud800", r"\u0000", r"\UDFFF".lower()], ids=repr)
def test_json_texts_that_no_database_takes(name) -> None:
    """Half a surrogate pair and NUL become text that can be stored."""
    (text,) = fields(record(json_line().replace(b'"okcpu"', b'"a' + name.encode() + b'"')), "job_name")

    assert isinstance(text, str)
    assert text.encode().startswith(b"a\\")
    assert "\0" not in text


def test_what_means_nothing_is_unknown() -> None:
    """NONE, empty texts and 0 reservations are unknown, not values."""
    found = record(ran(7, 1, 2, 3, project="NONE", granted_pe="", category="NONE", arid=0))

    assert fields(found, "project", "granted_pe", "category", "arid", "pe_taskid") == (None,) * 5


@pytest.mark.parametrize("name", ["pe_taskid", "pe_task_id"])
def test_both_spellings_of_the_task(name) -> None:
    """The task of a parallel job is read under the name of the program and under that of its manual."""
    line = changed_json(json_line(), **{"pe_taskid": None, name: "1.wn2"})

    assert fields(record(line), "pe_taskid") == ("1.wn2",)


def test_custom_usage_is_kept() -> None:
    """Usage that the site added and fields that are new to us are kept with their values."""
    usage = json.loads(json_line())["usage"]
    usage |= {"gpu": {"nvidia.0.util": 87.5, "model": "A100", "used": True, "none": None}, "power": {"power-1": 3}}
    found = record(changed_json(json_line(), usage=usage, binding="linear:2", tags=["a"]))

    assert fields(found, "custom") == (
        (
            ("", "binding", "linear:2"),
            ("", "tags", '["a"]'),
            ("gpu", "model", "A100"),
            ("gpu", "nvidia.0.util", 87.5),
            ("gpu", "used", 1),
            ("power", "power-1", 3),
        ),
    )


def test_fields_that_other_versions_have() -> None:
    """The job class of a JSON line is in its column; what is no text there is kept as the site's own."""
    found = record(changed_json(json_line(), job_class="fast", cwd="/home/alice", bound_cores=4))

    assert fields(found, "job_class", "cwd", "bound_cores", "custom") == (
        "fast",
        "/home/alice",
        None,
        (("", "bound_cores", 4),),
    )


def test_usage_as_the_manual_page_describes_it() -> None:
    """What stands next to usage, as arrays of objects, is read as what stands inside it."""
    usage = json.loads(json_line())["usage"]
    rusage = [{name: value} for name, value in usage["rusage"].items()]
    line = changed_json(json_line(), usage=[], rusage=rusage, eusage=[usage["eusage"]], gpu=[{"util": 5}])

    found = record(line)

    assert found is not None
    assert found._replace(custom=()) == record(json_line())
    assert found.custom == (("gpu", "util", 5),)


def test_a_counter_that_fell_below_zero() -> None:
    """A value of 2**64 does not cost the record."""
    assert fields(record(ran(7, 1, 2, 3, maxvmem=2**64)), "maxvmem_bytes") == (2.0**64,)


CASES = COLON.parent.parent / "cases"


def test_colons_in_the_name_of_a_job() -> None:
    """The name is put together: number and account, and the times behind them, show where it ends."""
    (found,) = records(CASES / "g1.acc")

    assert fields(found, "job_number", "job_name", "account", "owner") == (44, "run:case:0042:post", "sge", "ada")
    assert found.end_time_us - found.start_time_us == 194 * US


@pytest.mark.parametrize("name", ["a:b", "1:2", ":", "x:7:sge", "a:b:1:2:3"])
def test_any_colons_in_a_name(name: str) -> None:
    plain, odd = record(ran(7, START, START, START + 5)), record(ran(7, START, START, START + 5, job_name=name))

    assert plain is not None
    assert odd == plain._replace(job_name=name)


def test_colons_in_a_name_and_in_a_category() -> None:
    found = record(ran(7, START, START, START + 5, job_name="a:b", category="-l cpu=24:00:00"))

    assert fields(found, "job_number", "job_name", "category") == (7, "a:b", "-l cpu=24:00:00")


def test_a_start_that_is_not_known() -> None:
    """0 and -1: as long before the end as the wall clock says. What has no wall clock never started."""
    found = {one.job_number: one for name in ("g3", "g8") for one in records(CASES / f"{name}.acc")}

    assert {number: one.end_time_us - one.start_time_us for number, one in found.items()} == {
        31: 100_333_000, 32: 0, 33: 100 * US, 34: -10 * US, 35: 100 * US, 36: 100 * US, 41: 100 * US, 42: 100 * US,
        43: 100 * US,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.2G", 1.2 * 2**30), ("3.332MB", 3.332 * 2**20), ("512k", 512_000.0), ("17", 17.0), ("0.5T", 2**39)],
)
def test_sizes_with_units(text: str, size: float) -> None:
    """As qacct prints them."""
    line = json.loads(json_line(1))
    line["usage"]["eusage"]["maxvmem"] = text
    found = record(json.dumps(line).encode())

    assert found is not None
    assert found.maxvmem_bytes == pytest.approx(size)
