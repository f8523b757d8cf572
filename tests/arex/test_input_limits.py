"""What a job may have stored at most, whatever it writes, and that what is left out is said."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, STATISTICS

from arcacct.arex.control_files import JobFiles, read_bytes
from arcacct.arex.input_limits import (
    MOST_FILE_BYTES,
    MOST_LINE_BYTES,
    MOST_VALUE_BYTES,
    beginning_and_end,
    cut,
    lines_of,
    stored_bytes,
    whole_lines,
)
from arcacct.arex.job_facts import job_facts
from arcacct.config.paths import JobRules
from arcacct.records.states import StateChange
from arcacct.records.texts import escaped

HUGE = 16 << 20
KEPT = {name: (name,) for name in ("x", *(f"c{number}" for number in range(1000)))}
"""Claims that the site keeps."""
T1, T2 = "2026-11-20T11:00:05Z", "2026-11-20T11:00:09Z"


def facts_of(
    local: bytes = LOCAL, diag: bytes = DIAG, statistics: bytes = STATISTICS, state: str = "FINISHED"
) -> StateChange:
    """The facts of a job with these files."""
    files = JobFiles("/control", JOB, state)
    files.event_ns = NOON_NS
    files.local, files.diag, files.statistics = local, diag, statistics
    return job_facts(files, JobRules("HEPSPEC:11.11", claim_names=KEPT))


def repeated(line: bytes, size: int = HUGE) -> bytes:
    """So many bytes of one line."""
    return line * (size // len(line))


def transfers(count: int, url: str = "https://se.example.org/{}") -> bytes:
    """Lines of .statistics, each file of 1000 bytes."""
    return "".join(
        f"inputfile:url={url.format(n)},size=1000,starttime={T1},endtime={T2},fromcache=no\n" for n in range(count)
    ).encode()


def test_a_normal_job_has_no_notes() -> None:
    """Nothing is left out of a job as jobs are."""
    assert facts_of().notes == {}


def test_a_big_job_is_kept_whole() -> None:
    """Hundreds of files, a thousand slots, long arguments and the claims of a token are no reason to leave out any."""
    local = (
        LOCAL
        + b"args="
        + b"x" * 400_000
        + b"\n"
        + b"".join(b"tokenclaim.c%d=%s\n" % (n, b"v" * 300) for n in range(20))
    )
    diag = b"".join(b"nodename=node%04d\n" % (n // 8) for n in range(1024)) + DIAG
    facts = facts_of(local, diag, transfers(400))

    assert facts.notes == {}
    assert facts.usage is not None
    assert len(facts.usage.transfers) == 400
    assert facts.extra["nodenames"].count(":") == 1026
    assert len(facts.auth_tokens) == 22


def test_the_end_of_a_long_diag_is_read() -> None:
    """The wrapper writes exit code and end behind whatever the job has put into .diag before."""
    facts = facts_of(diag=DIAG.partition(b"LRMSStart")[0] + repeated(b"x=1\n") + DIAG)

    assert facts.usage is not None
    assert (facts.usage.exit_code, facts.usage.wall_s) == (0, 61)
    assert [event for event in facts.events if event[0].startswith("LRMS")] == [
        ("LRMSSTART", 1795173000),
        ("LRMSEND", 1795175940),
    ]
    assert facts.notes["diag"].endswith("bytes in the middle not read")


@pytest.mark.parametrize("name", ["local", "diag", "statistics"])
def test_a_file_that_was_cut_when_it_was_read_is_noted(tmp_path: pathlib.Path, name: str) -> None:
    """A file that reading has cut says so itself, also when its bytes come from a spool file."""
    normal = {"local": LOCAL, "diag": DIAG, "statistics": STATISTICS}
    (tmp_path / name).write_bytes(normal[name] + repeated(b"padding=1\n") + normal[name])

    content, _stat = read_bytes(str(tmp_path / name))
    assert content is not None
    facts = facts_of(**{name: content})

    assert len(content) <= MOST_FILE_BYTES
    assert beginning_and_end(content) == content
    assert content.startswith(normal[name])
    assert content.endswith(normal[name])
    whole = (tmp_path / name).read_bytes()
    assert beginning_and_end(whole) == content
    assert facts.notes[name].endswith(f"of {len(whole)} bytes in the middle not read")
    assert int(facts.notes[name].split()[0]) == len(whole) - len(content) + len(
        content.partition(b"\narcacct left out")[2].partition(b"\n")[0]
    ) + len(b"\narcacct left out\n")


def test_a_job_that_says_itself_that_something_is_left_out() -> None:
    """A line like ours, written by the job, brings nothing of its own into the note."""
    facts = facts_of(diag=DIAG + b"\narcacct left out \x1b[2J of 'x' bytes\n")

    assert facts.notes == {"diag": "0 of 0 bytes in the middle not read"}
    assert facts.extra == facts_of().extra


@pytest.mark.parametrize("size", [MOST_FILE_BYTES - 1, MOST_FILE_BYTES, MOST_FILE_BYTES + 1])
def test_a_file_at_the_limit(tmp_path: pathlib.Path, size: int) -> None:
    """A file of exactly the most that is read is read whole."""
    content = (b"a=1\n" * (size // 4 + 1))[:size]
    (tmp_path / "diag").write_bytes(content)

    found, _stat = read_bytes(str(tmp_path / "diag"))

    assert found == beginning_and_end(content)
    assert (found == content) == (size <= MOST_FILE_BYTES)


def test_one_endless_line_is_nothing(tmp_path: pathlib.Path) -> None:
    """Of 16 MiB in one line no part means anything, and what is around it is read."""
    (tmp_path / "diag").write_bytes(DIAG + b"systemsoftware=" + b"x" * HUGE + b"\nwalltime=9\n")

    content, _stat = read_bytes(str(tmp_path / "diag"))
    assert content is not None
    facts = facts_of(diag=content)

    assert "systemsoftware" not in facts.extra
    assert facts.usage is not None
    assert (facts.usage.wall_s, facts.usage.cpu_user_s) == (9, 59)


def test_repeated_times_of_the_batch_system_are_few_events() -> None:
    """480,000 lines with a time each made as many rows; readers take the last."""
    lines = b"".join(
        b"LRMSEndTime=20261120%02d%02d%02dZ\n" % (n // 3600 % 24, n // 60 % 60, n % 60) for n in range(480_000)
    )
    for state in ("FINISHING", "FINISHED"):
        facts = facts_of(diag=DIAG + lines, state=state, statistics=b"")

        assert len(facts.events) == 4
        assert facts.events[-1] == ("LRMSEND", 1795132800 + 479_999 % 86_400)
        assert "lrms_times" in facts.notes


@pytest.mark.parametrize(
    ("line", "field", "found"),
    [
        pytest.param(b"jobname=", "job_name", lambda facts: facts.extra["jobname"], id="job name"),
        pytest.param(b"clientname=", "client_host", lambda facts: facts.extra["clienthost"], id="client"),
        pytest.param(b"projectname=", "project", lambda facts: facts.extra["projectname"], id="project"),
        pytest.param(b"subject=", "user_dn", lambda facts: facts.user_dn, id="user"),
        pytest.param(b"queue=", "queue", lambda facts: facts.queue, id="queue"),
        pytest.param(b"headnode=", "endpoint_url", lambda facts: facts.endpoint_url, id="endpoint"),
        pytest.param(b"interface=", "endpoint_type", lambda facts: facts.endpoint_type, id="interface"),
        pytest.param(b"localid=", "local_job_id", lambda facts: facts.local_job_id, id="localid"),
        pytest.param(b"tokenclaim.x=", "auth_tokens", lambda facts: facts.auth_tokens[-1][1], id="claim"),
        pytest.param(b"voms=/", "auth_tokens", lambda facts: facts.auth_tokens[2][1], id="FQAN"),
    ],
)
@pytest.mark.parametrize(
    "text",
    ["x" * 5000, "é" * 2500, "%" * 2500, "𝄞" * 300, "\x00\xff" * 3000],
    ids=["plain", "two bytes", "escaped", "four bytes", "not UTF-8"],
)
def test_a_long_value_is_cut_and_marked(line: bytes, field: str, found, text: str) -> None:
    """A value is cut at a character so that it is short as stored, ends with the mark, and the record says so."""
    facts = facts_of(LOCAL + line + text.encode() + b"\n")

    value = found(facts)
    assert value.endswith("...")
    assert MOST_VALUE_BYTES - 16 < len(escaped(value).encode()) <= MOST_VALUE_BYTES
    assert facts.notes[field].startswith("cut from ")


def test_the_vo_of_a_long_fqan_is_short_enough() -> None:
    """The VO is taken from what is kept of the first FQAN."""
    assert len(facts_of(b"voms=/" + b"v" * 5000 + b"/x\n").vo) <= MOST_VALUE_BYTES


@pytest.mark.parametrize(
    ("diag", "field", "kept"),
    [
        pytest.param(
            (b"runtimeenvironments=" + b"A;" * 30_000 + b"\n") * 99, "run_time_environments", 99, id="environments"
        ),
        pytest.param(b"".join(b"nodename=n%d\n" % n for n in range(9000)), "node_names", 2915, id="nodes"),
    ],
)
def test_rows_are_bounded(diag: bytes, field: str, kept: int) -> None:
    """What a job may have several of is kept up to a number of rows and bytes."""
    facts = facts_of(diag=diag)

    assert facts.usage is not None
    assert facts.notes[field].startswith(f"{kept} of ")
    assert len(facts.usage.rtes if field.startswith("run") else facts.extra["nodenames"].split(":")) == kept


def test_counts_are_of_all_nodes() -> None:
    """Nodes and processors are those of all lines; the list ends with a whole name."""
    facts = facts_of(diag=b"".join(b"nodename=n%d\n" % n for n in range(9000)))

    assert facts.usage is not None
    assert (facts.usage.node_count, facts.usage.core_count) == (9000, 9000)
    assert facts.extra["nodenames"].endswith(":n2914")


def test_volumes_are_of_all_transfers() -> None:
    """Only the rows of transfers are bounded; what was staged, and when, is summed over every line."""
    facts = facts_of(
        statistics=transfers(5000)
        + transfers(1, "https://last.example.org/").replace(T2.encode(), b"2026-11-20T11:50:00Z")
    )

    assert facts.usage is not None
    assert facts.usage.stage_in_bytes == 5_001_000
    assert 500 < len(facts.usage.transfers) < 1000
    assert facts.notes == {"transfers": f"{len(facts.usage.transfers)} of 5001 kept"}
    assert ("DTRDOWNLOADEND", 1795175400) in facts.events


def test_the_main_fqan_is_kept() -> None:
    """Of too many FQANs and claims the first are kept: the main one makes the VO."""
    facts = facts_of(LOCAL + b"".join(b"tokenclaim.c%d=x\n" % n for n in range(100_000)))

    assert facts.vo == "atlas"
    assert facts.auth_tokens[:2] == [("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")]
    assert len(facts.auth_tokens) <= 200
    assert "auth_tokens" in facts.notes


@pytest.mark.parametrize("size", [1, 300, 900])
def test_claims_are_bounded(size: int) -> None:
    """Claims take 12 KiB in the database at most: the key twice, the value, and 80 bytes for the row."""
    claims = b"".join(b"tokenclaim.c%d=%s\n" % (100 + n, b"x" * size) for n in range(400))

    facts = facts_of(LOCAL + claims)

    used = sum(2 * len(key) + len(value) + 80 for key, value in facts.auth_tokens)
    assert used <= 12 << 10 < used + 2 * len("c100") + size + 80
    assert facts.notes["auth_tokens"] == f"{len(facts.auth_tokens)} of 402 kept"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3 * MOST_VALUE_BYTES)


@given(TEXTS)
def test_the_size_as_stored_is_that_of_the_escaped_text(text: str) -> None:
    """What the limit counts is what the database gets; a cut text is as long as it may be, but for a character."""
    text = text.replace("\0", "").replace("\n", "")
    assert stored_bytes(text) == len(escaped(text).encode())
    if stored_bytes(text) > MOST_VALUE_BYTES:
        assert MOST_VALUE_BYTES - 16 < stored_bytes(cut(text)) <= MOST_VALUE_BYTES


@given(
    st.lists(st.binary(max_size=40).map(lambda line: b"k=" + line.replace(b"\n", b"")), max_size=20),
    st.integers(0, 6000),
)
def test_long_files_have_the_same_lines(lines: list[bytes], times: int) -> None:
    """A file that is read in pieces has the lines with a value that it has as a whole, in their order."""
    content = b"\n".join(lines * max(times, 1))

    whole = content.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")
    assert [line for line in lines_of(content) if "=" in line] == [line for line in whole if "=" in line]


@pytest.mark.parametrize("before", [b"", b"\n", b"a=1\n"], ids=["nothing", "an empty line", "a line"])
def test_an_endless_line_in_a_file_that_is_read_whole(before: bytes) -> None:
    """Of a line above its limit the beginning is read once, and the next line is the next."""
    content = before + b"b=" + b"x" * (5 * MOST_LINE_BYTES) + b"\nc=3\n"

    *first, second, third = lines_of(content)

    assert (first, third) == (before.decode().split(), "c=3")
    assert second == "b=" + "x" * (MOST_LINE_BYTES - 2)


def test_no_part_of_a_line_is_left_where_the_launcher_cut() -> None:
    """The launcher cuts between any two bytes; a number that it halved must not be read."""
    mark = b"\narcacct left out 2000 of 3000 bytes\n"

    assert whole_lines(b"a=1\nb=23" + mark + b"4\nc=5\n") == b"a=1\n" + mark + b"c=5\n"
    assert whole_lines(b"a=1\nb=23") == b"a=1\nb=23"
