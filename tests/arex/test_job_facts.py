"""What the control files of a job say, rule by rule as A-REX reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, NOON_S, STATISTICS, sequence

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts, leading_digits, measurements, parse_instant, parse_transfer
from arcacct.config.paths import JobRules
from arcacct.records.states import StateChange, Usage

BENCHMARK = "HEPSPEC:11.11"


def facts_of(
    *,
    local: bytes | None = LOCAL,
    diag: bytes | None = DIAG,
    statistics: bytes | None = STATISTICS,
    owner: str | None = "ada:atlas",
    failed: bool = False,
    state: str = "FINISHED",
    hashed: bool = False,
    **rules: Any,
) -> StateChange:
    """The facts of a job with these files, by these rules of the site."""
    files = JobFiles("/control", JOB, state)
    files.event_ns = NOON_NS + 999_999_999
    files.local, files.diag, files.statistics, files.owner, files.failed = local, diag, statistics, owner, failed
    files.hashed = hashed
    return job_facts(files, JobRules(BENCHMARK, **rules))


def usage_of(diag: bytes = DIAG, statistics: bytes = STATISTICS) -> Usage:
    """The usage of a finished job."""
    usage = facts_of(diag=diag, statistics=statistics).usage
    assert usage is not None
    return usage


@pytest.mark.parametrize(
    ("line", "field", "wanted"),
    [
        pytest.param(b"localid=4712", "local_job_id", "4712", id="localid"),
        pytest.param(b"interface=org.ogf.glue.emies.activitycreation", "endpoint_type",
                     "org.ogf.glue.emies.activitycreation", id="interface"),
        pytest.param(b"headnode=https://b.example.org/x", "endpoint_url", "https://b.example.org/x", id="headnode"),
        pytest.param(b"queue=long", "queue", "long", id="queue"),
        pytest.param(b"subject=/O=Grid/CN=D'Arcy", "user_dn", "/O=Grid/CN=D'Arcy", id="subject"),
        pytest.param(b"starttime=20261119101431Z", "submit_time", 1795083271, id="starttime"),
        pytest.param(b"starttime=yesterday", "submit_time", 0, id="starttime that is none"),
        pytest.param(b"queue=", "queue", "main", id="empty value is not written"),
        pytest.param(b"queue", "queue", "main", id="no equals sign"),
        pytest.param(b"subject=/CN=a=b", "user_dn", "/CN=a=b", id="split at the first equals sign"),
        pytest.param("subject=/CN=Łukasz".encode(), "user_dn", "/CN=Łukasz", id="UTF-8"),
        pytest.param(b"subject=/CN=\xd8\xe5", "user_dn", "/CN=\\xd8\\xe5", id="not UTF-8"),
        pytest.param(b"queue=a\0b", "queue", "ab", id="zero byte"),
        pytest.param(b"QUEUE=other", "queue", "main", id="keys of .local are as written"),
    ],
)  # fmt: skip
def test_a_line_of_local(line: bytes, field: str, wanted: object) -> None:
    """Each key of .local that accounting reads, the last line of a key, and the values that are hard to read."""
    assert getattr(facts_of(local=LOCAL + line + b"\n"), field) == wanted


@pytest.mark.parametrize(
    ("line", "key", "wanted"),
    [
        pytest.param(b"jobname=%I #1", "jobname", "%I #1", id="jobname"),
        pytest.param(b"lrms=slurm", "lrms", "slurm", id="lrms"),
        pytest.param(b"clientname=[2001:db8::1]:45", "clienthost", "[2001:db8::1]:45", id="clientname is clienthost"),
        pytest.param(b"projectname=p1\nprojectname=p2", "projectname", "p1", id="first project only"),
    ],
)
def test_a_line_of_local_that_is_extra_information(line: bytes, key: str, wanted: str) -> None:
    """Name, batch system, client and project become rows of JobExtraInfo."""
    assert facts_of(local=LOCAL + line + b"\n").extra[key] == wanted


@pytest.mark.parametrize(
    ("voms", "vo", "tokens"),
    [
        pytest.param([], "", [], id="no VO"),
        pytest.param(["/atlas"], "atlas", [("mainfqan", "/atlas")], id="one"),
        pytest.param(
            ["/atlas/Role=production", "/atlas", "/cms"],
            "atlas",
            [("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas"), ("vomsfqan", "/cms")],
            id="the first is the main one",
        ),
        pytest.param(["atlas"], "atlas", [("mainfqan", "atlas")], id="without a slash"),
        pytest.param(
            ["/vo.nordugrid.org/ngi"], "vo.nordugrid.org", [("mainfqan", "/vo.nordugrid.org/ngi")], id="group"
        ),
    ],
)
def test_the_vo_is_the_first_part_of_the_first_fqan(voms: list[str], vo: str, tokens: list[tuple[str, str]]) -> None:
    """The first is mainfqan, the others are vomsfqan, the VO is the name that the first starts with."""
    facts = facts_of(local=sequence([b"queue=main", *(f"voms={fqan}".encode() for fqan in voms)]))

    assert facts.vo == vo
    assert facts.auth_tokens == tokens


@pytest.mark.parametrize("local", [None, b""], ids=["missing", "empty"])
def test_without_local_nothing_is_known(local: bytes | None) -> None:
    """Of a job without .local only id, state and time mean something."""
    facts = facts_of(local=local)

    assert not facts.known
    assert (facts.job_id, facts.state, facts.event_ns // 10**9) == (JOB, "FINISHED", NOON_S)


def test_only_a_finished_job_has_usage() -> None:
    """Before the end no file says what a job used."""
    assert facts_of(state="FINISHING").usage is None


@pytest.mark.parametrize(
    ("lines", "field", "wanted"),
    [
        pytest.param([b"exitcode=7"], "exit_code", 7, id="exit code"),
        pytest.param([], "exit_code", 1, id="no exit code is 1"),
        pytest.param([b"exitcode=-1"], "exit_code", 1, id="a signed exit code is none"),
        pytest.param([b"exitcode=0", b"exitcode=9"], "exit_code", 9, id="the last number wins"),
        pytest.param([b"exitcode=3", b"exitcode=?"], "exit_code", 3, id="what is no number does not win"),
        pytest.param([b"WallTime=61.92s"], "wall_s", 61, id="leading digits of the wall time"),
        pytest.param([b"WallTime=61.92s", b"walltime=7"], "wall_s", 7, id="keys of any case"),
        pytest.param([b"KernelTime=1.96s"], "cpu_kernel_s", 1, id="kernel time"),
        pytest.param([b"UserTime=59.36s"], "cpu_user_s", 59, id="user time"),
        pytest.param([b"UsedScratch=12"], "scratch_bytes", 12, id="scratch"),
        pytest.param([b"MaxResidentMemory=86232kB"], "memory_kib", 86232, id="maximum memory"),
        pytest.param([b"AverageResidentMemory=5kB"], "memory_kib", 5, id="average memory, no maximum"),
        pytest.param([b"MaxResidentMemory=0kB", b"AverageResidentMemory=5kB"], "memory_kib", 5, id="maximum 0 is none"),
        pytest.param([b"MaxResidentMemory=9kB"], "virtual_memory_kib", 9, id="no virtual size: the resident one"),
        pytest.param([b"MaxResidentMemory=9kB", b"MaxTotalMemory=20kB"], "virtual_memory_kib", 20, id="virtual size"),
        pytest.param([b"AverageTotalMemory=20kB"], "virtual_memory_kib", 20, id="average virtual size"),
        pytest.param([b"Processors=8", b"nodename=a"], "core_count", 8, id="processors"),
        pytest.param([b"nodename=a", b"nodename=b", b"nodename=b"], "core_count", 3, id="no processors: nodenames"),
        pytest.param([b"Processors=0", b"nodename=a", b"nodename=a"], "core_count", 2, id="processors 0 is none"),
        pytest.param([], "core_count", 1, id="neither: 1"),
        pytest.param([b"nodename=a", b"nodename=b", b"nodename=b"], "node_count", 2, id="distinct nodes"),
        pytest.param([b"Nodecount=9", b"nodename=a"], "node_count", 1, id="Nodecount is ignored"),
        pytest.param([], "node_count", 1, id="no node: 1"),
        pytest.param([b"runtimeenvironments=A;B;;"], "rtes", ["A", "B"], id="run time environments"),
        pytest.param([b"runtimeenvironments=A;", b"RuntimeEnvironments=B"], "rtes", ["A", "B"], id="of several lines"),
        pytest.param([b"Command exited with non-zero status 7", b"", b"exitcode=7"], "exit_code", 7, id="other lines"),
    ],
)  # fmt: skip
def test_a_rule_of_diag(lines: list[bytes], field: str, wanted: object) -> None:
    """Each rule by which A-REX reads .diag."""
    assert getattr(usage_of(sequence(lines), b""), field) == wanted


@pytest.mark.parametrize("state", ["FINISHING", "FINISHED"])
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        pytest.param(b"LRMSStartTime=20261120111000Z", [("LRMSSTART", 1795173000)], id="start"),
        pytest.param(b"lrmsendtime=20261120111000Z", [("LRMSEND", 1795173000)], id="end"),
        pytest.param(b"LRMSEndTime=later", [], id="a time that is none"),
        pytest.param(b"lrmsendtime", [], id="no value"),
    ],
)
def test_the_batch_systems_times_are_events(state: str, line: bytes, wanted: object) -> None:
    """They are known as soon as .diag has them, before the job has finished."""
    assert facts_of(state=state, diag=sequence([line]), statistics=b"").events == wanted


@pytest.mark.parametrize(
    ("lines", "key", "wanted"),
    [
        pytest.param([b"nodename=b", b"nodename=a", b"nodename=b"], "nodenames", "b:a:b", id="nodes as they come"),
        pytest.param([b"systemsoftware=Linux"], "systemsoftware", "Linux", id="system software"),
        pytest.param([b"wninstance=m1"], "wninstance", "m1", id="instance"),
        pytest.param([b"Benchmark=HEPSPEC:12.26"], "benchmark", "HEPSPEC:12.26", id="benchmark"),
        pytest.param([b"Benchmark=HEPSPEC:12.26", b"benchmark=HEPSPEC:17.5"], "benchmark", "HEPSPEC:12.26",
                     id="of extra values the first wins"),
        pytest.param([], "benchmark", BENCHMARK, id="no benchmark: the default"),
        pytest.param([b"Benchmark="], "benchmark", BENCHMARK, id="an empty benchmark is none"),
    ],
)  # fmt: skip
def test_extra_information_of_diag(lines: list[bytes], key: str, wanted: str) -> None:
    """Nodes, software, instance and benchmark become rows of JobExtraInfo."""
    assert facts_of(diag=sequence(lines)).extra[key] == wanted


@pytest.mark.parametrize(
    ("values", "of_arc_6", "of_arc_7"),
    [
        (["A:1"], "A:1", "A:1"),
        (["A:1", "B:2"], "A:1", "B:2"),
        (["", "B:2"], BENCHMARK, "B:2"),
        (["A:1", ""], "A:1", "A:1"),
        ([""], BENCHMARK, BENCHMARK),
    ],
    ids=["one", "two", "first empty", "last empty", "empty"],
)
def test_which_of_several_benchmarks_counts(values: list[str], of_arc_6: str, of_arc_7: str) -> None:
    """For A-REX 6 the first, for A-REX 7 the last that is not empty; the site's instead of an empty one."""
    diag = DIAG.replace(b"Benchmark=HEPSPEC:12.26\n", b"") + sequence(
        [f"benchmark={value}".encode() for value in values]
    )

    assert facts_of(diag=diag).extra["benchmark"] == of_arc_6
    assert facts_of(diag=diag, hashed=True).extra["benchmark"] == of_arc_7


def test_measurements_are_read_alone() -> None:
    """Names in any case of letters; other values, and what is no number, are not measurements."""
    diag = b"WallTime=5.3s\nusertime=7\nKernelTime=x\nexitcode=1\nwalltime\n"

    assert measurements(diag) == {"wall_s": 5, "cpu_user_s": 7}


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"", "aborted"),
        (b"lifetime=604800\n", "failed"),
        (b"lifetime=604800\nqueue=ma", "failed"),
        (b"queue=ma", "failed"),
    ],
    ids=["not taken", "taken", "taken and cut", "cut"],
)
def test_a_job_that_arex_had_not_taken_is_aborted_if_the_site_says_so(lines: bytes, status: str) -> None:
    """A .local that is cut does not show whether A-REX had taken the job, which is failed then."""
    local = b"queue=main\nsubject=/CN=U\nstarttime=20261119101431Z\n" + lines
    facts = facts_of(local=local, diag=None, statistics=None, failed=True, killed_before_arex="recorded")

    assert facts.usage is not None
    assert facts.usage.status == status


@pytest.mark.parametrize("diag", [None, b""], ids=["missing", "empty"])
def test_a_job_that_never_ran(diag: bytes | None) -> None:
    """No .diag, or an empty one: exit code 1, one CPU on one node, the default benchmark, nothing used."""
    facts = facts_of(diag=diag, statistics=None)
    usage = facts.usage

    assert usage is not None
    assert (usage.exit_code, usage.node_count, usage.core_count, usage.wall_s, usage.memory_kib) == (1, 1, 1, 0, 0)
    assert facts.extra["benchmark"] == BENCHMARK
    assert "nodenames" not in facts.extra


@pytest.mark.parametrize(
    ("diag", "unknown"),
    [
        (b"exitcode=1\n", ()),
        (b"exitcode=1\nWallTime=0s\n", ()),
        (b"WallTime=1s\n", ("cpu_user_s", "cpu_kernel_s")),
        (b"UserTime=1s\n", ("wall_s",)),
        (b"KernelTime=1s\n", ("wall_s",)),
        (b"LRMSStartTime=20261120111000Z\n", ("wall_s", "cpu_user_s", "cpu_kernel_s")),
    ],
)
def test_what_was_not_measured_of_a_failed_job_is_unknown_if_it_ran(diag: bytes, unknown: tuple[str, ...]) -> None:
    """A job ran that has a start, or used anything: then a time that is not reported is no 0."""
    usage = facts_of(diag=diag, statistics=None, failed=True).usage

    assert usage is not None
    assert usage.unknown == unknown


@pytest.mark.parametrize(
    ("owner", "wanted"),
    [("ada:atlas", "ada:atlas"), (None, None), ("", None), ("\udcff:atlas", "\\xff:atlas")],
    ids=["user and group", "no .diag", "no names", "not UTF-8"],
)
def test_the_owner_of_diag_is_the_local_user(owner: str | None, wanted: str | None) -> None:
    """It is who owns .diag, whatever bytes the name has."""
    assert facts_of(owner=owner).extra.get("localuser") == wanted


@pytest.mark.parametrize(("failed", "status"), [(False, "completed"), (True, "failed")])
def test_failed_decides_the_status(failed: bool, status: str) -> None:
    """A job with .failed has failed whatever its exit code; the end is the time of the status file."""
    usage = facts_of(failed=failed).usage

    assert usage is not None
    assert (usage.status, usage.exit_code, usage.end_time) == (status, 0, NOON_S)


def test_volumes_are_what_was_moved() -> None:
    """What came from the cache is not counted as staged in; outputs are staged out."""
    usage = usage_of()

    assert (usage.stage_in_bytes, usage.stage_out_bytes) == (1000, 20)
    assert [one.kind for one in usage.transfers] == [10, 11, 20]


def test_transfers_give_four_events() -> None:
    """First start and last end of downloads (cached ones too) and of uploads."""
    assert facts_of(diag=b"").events == [
        ("DTRDOWNLOADSTART", NOON_S - 3595),
        ("DTRDOWNLOADEND", NOON_S - 3591),
        ("DTRUPLOADSTART", NOON_S - 30),
        ("DTRUPLOADEND", NOON_S - 20),
    ]


T1, T2 = "2026-11-20T11:00:05Z", "2026-11-20T11:00:09Z"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        pytest.param(f"url=ftp://a,size=5,starttime={T1},endtime={T2},fromcache=no", ("ftp://a", 5, 10), id="input"),
        pytest.param(f"url=ftp://a,size=5,starttime={T1},endtime={T2},fromcache=yes", ("ftp://a", 5, 11), id="cached"),
        pytest.param(f"url=http://a/o,d=d.dat?k=v,fromcache=yes,size=5,starttime={T1},endtime={T2},fromcache=no",
                     ("http://a/o,d=d.dat?k=v,fromcache=yes", 5, 10), id="commas and equal signs in the URL"),
        pytest.param(f"url=http://a/,size=9,endtime=x,size=5,starttime={T1},endtime={T2}",
                     ("http://a/,size=9,endtime=x", 5, 10), id="field names in the URL"),
        pytest.param(f"url=a,size=,starttime={T1},endtime={T2}", ("a", 0, 10), id="no size"),
        pytest.param("", None, id="blank line of a failed transfer"),
        pytest.param(f"size=5,starttime={T1},endtime={T2}", None, id="no URL"),
        pytest.param(f"url=,size=5,starttime={T1},endtime={T2}", None, id="empty URL"),
        pytest.param(f"url=a,size=5,starttime={T1}", None, id="no end"),
    ],
)  # fmt: skip
def test_one_line_of_statistics(line: str, wanted: tuple[str, int, int] | None) -> None:
    """URL, size and kind of an input, with the URLs that A-REX does not escape."""
    found = parse_transfer(True, line)

    assert (None if found is None else (found.url, found.size_bytes, found.kind)) == wanted


# Cs: lone surrogates are no text of a file.
URLS = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), min_size=1)


@given(URLS, st.integers(0, 2**63 - 1), st.booleans(), st.booleans())
def test_any_url_comes_back_whole(url: str, size: int, is_input: bool, cached: bool) -> None:
    """Whatever a URL contains, its line gives it back, with size and kind."""
    tail = f",fromcache={'yes' if cached else 'no'}" if is_input else ""

    found = parse_transfer(is_input, f"url={url},size={size},starttime={T1},endtime={T2}{tail}")

    assert found is not None
    assert (found.url, found.size_bytes) == (url, size)
    assert found.kind == ((11 if cached else 10) if is_input else 20)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("5.36s", 5), ("86232kB", 86232), ("007", 7), ("", None), ("-1", None), (" 1", None), ("٣", None),
     ("9" * 19, 2**63 - 1), ("9" * 5000, 2**63 - 1), ("9" * 5000 + "s", 2**63 - 1)],
)  # fmt: skip
def test_leading_digits(text: str, wanted: int | None) -> None:
    """A number is the ASCII digits that a value starts with, at most what a column holds."""
    assert leading_digits(text) == wanted


def test_volumes_that_overflow_are_the_largest_number() -> None:
    """Sizes whose sum no column holds do not stop the record."""
    line = f"outputfile:url=a,size={2**63 - 1},starttime={T1},endtime={T2}\n".encode()

    assert usage_of(b"", line * 3).stage_out_bytes == 2**63 - 1


LINES = st.sampled_from([*LOCAL.splitlines(), *DIAG.splitlines(), *STATISTICS.splitlines()])
NUMBERS = st.integers(0, 10**30).map(
    lambda number: b"walltime=%d\nexitcode=%d\nmaxresidentmemory=%d\n" % ((number,) * 3)
)
CONTENTS = st.one_of(
    st.none(),
    st.binary(),
    st.lists(st.one_of(LINES, st.binary(), NUMBERS)).map(b"\n".join),
    st.lists(st.tuples(LINES, st.binary(max_size=8)).map(lambda pair: pair[0] + pair[1])).map(b"\n".join),
)


# As pwd and grp give names: any bytes but zero.
OWNERS = st.one_of(st.none(), st.binary().map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")))


def _storable(value: object) -> None:
    if isinstance(value, int):
        assert -(2**63) <= value < 2**63
    else:
        assert isinstance(value, str)
        value.encode("utf-8")
        assert "\0" not in value


@given(CONTENTS, CONTENTS, CONTENTS, OWNERS)
def test_any_bytes_in_any_file_give_values_that_can_be_stored(
    local: bytes | None, diag: bytes | None, statistics: bytes | None, owner: str | None
) -> None:
    """No content makes reading fail; numbers have 64 bits, texts are UTF-8 without zero bytes."""
    facts = facts_of(local=local, diag=diag, statistics=statistics, owner=owner)

    assert facts.usage is not None
    names = ("local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo", "submit_time")
    values: list[object] = [getattr(facts, name) for name in names]
    values += [part for token in facts.auth_tokens for part in token]
    values += facts.extra.values()
    values += [getattr(facts.usage, name) for name in Usage.__slots__ if name not in ("rtes", "transfers", "unknown")]
    values += facts.usage.unknown
    values += facts.usage.rtes
    values += [part for event in facts.events for part in event]
    for one in facts.usage.transfers:
        values += [one.url, one.size_bytes, one.start_time, one.end_time, one.kind]
    for value in values:
        _storable(value)


# A-REX's two ways to write a time.


MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31))


@given(MOMENTS, st.sampled_from(["%Y%m%d%H%M%SZ", "%Y-%m-%dT%H:%M:%SZ"]))
def test_every_instant_is_the_one_of_the_calendar(moment: datetime, form: str) -> None:
    """Both forms give the seconds since 1970 that the calendar gives, in every year."""
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    # strftime would write the year 999 with three digits.
    text = moment.strftime(form.replace("%Y", f"{moment.year:04}"))

    assert parse_instant(text) == int(moment.timestamp())


@given(st.from_regex(r"[0-9]{4}(0[0-9]|1[0-3])[0-3][0-9]([01][0-9]|2[0-5])[0-6][0-9][0-5][0-9]Z", fullmatch=True))
def test_a_date_that_the_calendar_does_not_have_is_no_time(text: str) -> None:
    """Month 13, February 30 and hour 25 are refused exactly when the calendar refuses them."""
    try:
        wanted = int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError:
        wanted = -1

    assert parse_instant(text) == (wanted if wanted >= 0 else None)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("20240229000000Z", 1709164800, id="leap day"),
        pytest.param("20000229235959Z", 951868799, id="leap day of a century that has one"),
        pytest.param("21000228235959Z", 4107542399, id="century without leap day"),
        pytest.param("19700101000000Z", 0, id="the beginning"),
        pytest.param("20161231235960Z", 1483228800, id="leap second"),
        pytest.param(" 20261119101431Z\r", 1795083271, id="blanks around"),
    ],
)
def test_the_days_that_are_easily_got_wrong(text: str, wanted: int) -> None:
    """Leap days, the leap second and the first second come out right."""
    assert parse_instant(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "Z", "20261119101431", "2026111910143Z", "20261119101431+0100", "21000229000000Z", "19691231235959Z",
     "\u0662\u0660261119101431Z", "2026-11-19", "now", "20261119101431ZZ", "-20261119101431Z", "0" * 5000],
)  # fmt: skip
def test_anything_else_is_no_time(text: str) -> None:
    """What is not exactly one of the forms is unknown, never a guess."""
    assert parse_instant(text) is None


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    """Any text at all gives a time or none."""
    found = parse_instant(text)

    assert found is None or 0 <= found < 2**63
