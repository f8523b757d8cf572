"""The files of the spool, as the launcher and the programs of 0.2 write them."""

from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, NOON_S
from spool_0_2 import to_bytes

from arcacct.arex.control_files import STATES, JobFiles, is_job_id
from arcacct.arex.spool import LauncherSettings, from_bytes, from_name, is_foreign, launcher_settings
from arcacct.errors import InputError
from arcacct.records.states import StatusFile

FIELDS = ("controldir", "job_id", "state", "event_ns", "local", "diag", "statistics", "failed", "owner", "hashed")
WRITTEN_NS = NOON_NS + 777


def event(state: str = "FINISHED") -> JobFiles:
    """An event with everything."""
    files = JobFiles("/var/spool/arc/jobstatus", JOB, state)
    files.event_ns = NOON_NS + 1
    files.status = StatusFile(state, 8, NOON_NS + 1, NOON_NS + 2)
    files.local, files.diag, files.owner, files.failed = LOCAL, DIAG, "ada:atlas", True
    return files


def launched(files: JobFiles, said: str | None = None) -> bytes:
    """An event as the launcher writes it, with the files of a finished job."""
    head = f"version=2\ncontroldir={files.controldir}\njobid={files.job_id}\nstate={files.state}\n"
    head += f"failed={'yes' if files.failed else 'no'}\nhashed={'yes' if files.hashed else 'no'}\n\n"
    parts = [(name, getattr(files, name)) for name in ("local", "diag", "statistics")]
    sizes = " ".join(f"{name} {len(content)}" for name, content in parts if content is not None)
    status = files.status or StatusFile("", 0, 0, 0)
    times = "/".join(
        f"{ns // 10**9}/2026-11-20 12:00:00.{ns % 10**9:09} +0000" for ns in (status.mtime_ns, status.ctime_ns)
    )
    last = (
        f"\nwhole={sizes}/{status.state if said is None else said}/{status.size}/{times}/{files.owner or 'root:root'}\n"
    )
    content = b"".join(content or b"" for _name, content in parts)
    return head.encode("utf-8", "surrogateescape") + content + last.encode("utf-8", "surrogateescape")


def same(one: JobFiles, other: JobFiles) -> None:
    """Two events say the same."""
    assert [getattr(one, name) for name in FIELDS] == [getattr(other, name) for name in FIELDS]
    assert one.status == other.status


NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.integers(2**33, 2**63 - 1)
NAMES = st.binary(min_size=1, max_size=30).filter(lambda raw: not set(raw) & {0, 10}).map(os.fsdecode)
CONTENTS = st.one_of(
    st.none(), st.binary(), st.sampled_from([LOCAL, b"file=local 5\n", b"version=9\n", b"\n\n", b"\nwhole=local 3\n"])
)


@given(
    st.text(st.characters(codec="ascii"), min_size=1, max_size=60).filter(is_job_id),
    st.sampled_from(STATES),
    NAMES,
    TIMES,
    st.one_of(st.none(), st.tuples(NUMBERS, TIMES, TIMES)),
    st.tuples(CONTENTS, CONTENTS, CONTENTS),
    st.one_of(st.none(), NAMES.filter(lambda name: "UNKNOWN" not in name)),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_any_event_comes_back_as_it_was(
    job_id: str,
    state: str,
    controldir: str,
    event_ns: int,
    status: tuple[int, int, int] | None,
    contents: tuple[bytes | None, bytes | None, bytes | None],
    owner: str | None,
    failed: bool,
    version: int,
) -> None:
    """Whatever the files contain and whatever the directory is called, the spool gives back what was put in."""
    files = JobFiles("/" + controldir, job_id, state)
    files.event_ns, files.owner, files.failed = event_ns, owner, failed
    files.local, files.diag, files.statistics = contents
    files.status = None if status is None else StatusFile(state, *status)
    if version == 2:
        files.event_ns = WRITTEN_NS if status is None else status[1]
        files.owner = None if files.diag is None else owner or "root:root"

    found, apart = from_bytes(to_bytes(files, 1) if version == 1 else launched(files), "file", WRITTEN_NS)

    same(found, files)
    assert apart is (version == 2)


def test_a_status_file_of_another_state_has_no_time_for_the_event() -> None:
    """The job has moved on: the file's own time counts."""
    found, _apart = from_bytes(launched(event(), "DELETED"), "file", WRITTEN_NS)

    assert (found.status, found.event_ns, found.local) == (None, WRITTEN_NS, LOCAL)


def test_a_stat_without_fractions_is_enough() -> None:
    """Its times are whole seconds."""
    content = launched(event()).replace(b".000000001 +0000", b"").replace(b".000000002 +0000", b"")
    found, _apart = from_bytes(content, "file", WRITTEN_NS)

    assert found.event_ns == NOON_NS


def test_every_torn_file_is_noticed() -> None:
    """Wherever a file of the launcher is cut, it is not whole."""
    whole = launched(event())
    for length in range(len(whole)):
        with pytest.raises(InputError):
            from_bytes(whole[:length], "file", WRITTEN_NS)
        assert not is_foreign(whole[:length])


def test_a_job_cannot_make_a_torn_file_whole() -> None:
    """A .diag that contains a last line says nothing while the numbers do not fit to the file."""
    files = event()
    files.diag = b"WallTime=1\nwhole=local 5/FINISHED/8/1/x/1/x/root:root\n" + DIAG
    whole = launched(files)
    cut = whole.index(b"root:root\n") + 10
    with pytest.raises(InputError, match="truncated"):
        from_bytes(whole[:cut], "file", WRITTEN_NS)
    assert from_bytes(whole, "file", WRITTEN_NS)[0].diag == files.diag


OLD = f"version=1\ncontroldir=/control\njobid={JOB}\nstate=SUBMIT\ntime=%s\n"
NEW = f"version=2\ncontroldir=/control\njobid={JOB}\nstate=SUBMIT\n\n\nwhole=\n"


def test_an_event_without_files() -> None:
    """Its time is the file's own."""
    found, _apart = from_bytes(NEW.encode(), "file", WRITTEN_NS)

    assert (found.controldir, found.job_id, found.state, found.event_ns) == ("/control", JOB, "SUBMIT", WRITTEN_NS)
    assert (found.local, found.status) == (None, None)


@pytest.mark.parametrize(
    ("time", "wanted"),
    [(str(NOON_S), NOON_NS), (str(NOON_NS + 5), NOON_NS + 5), ("0", 0)],
    ids=["seconds", "nanoseconds", "no clock"],
)
def test_the_lines_of_the_launcher_of_0_2(time: str, wanted: int) -> None:
    """Its clock knew seconds or nanoseconds; the control files are read later."""
    found, _apart = from_bytes((OLD % time).encode(), "file", WRITTEN_NS)

    assert (found.controldir, found.job_id, found.state, found.event_ns) == ("/control", JOB, "SUBMIT", wanted)
    assert (found.local, found.status) == (None, None)


TORN_PARTS = (
    *(b"parts=local 9\nabc", b"parts=local 2\nabc", b"parts=local\nabc", b"parts=local x\nabc", b"parts=\nabc"),
    *(b"parts=shadow 3\nabc", b"parts=local 1 diag\nabc", b"parts=local 3 shadow 0\nabc"),
    *(b"parts=local 3 diag\nabc", b"parts=local x\n"),
)
"""Too short, too long, without lengths, of files that are none of a job's."""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "incomplete", id="empty"),
        pytest.param(b"\0" * 50, "incomplete", id="zeros after a power cut"),
        pytest.param(b"\x00\xff\xfe", "truncated or not a spool file", id="anything"),
        pytest.param(b"version=1\n" + b"a=b\n" * 2_000_000, "more than 100 lines", id="lines without end"),
        pytest.param(b"version=3\n", "spool version=3; this program supports 2", id="newer"),
        pytest.param(OLD.encode() % b"x", "time='x' is not a time", id="no time"),
        pytest.param(OLD.encode() % "²".encode(), "is not a time", id="a digit that is none"),
        pytest.param(OLD.encode() % (b"9" * 19), "is not a time", id="a time beyond the end"),
        pytest.param(OLD.encode() % (b"9" * 5000), "is not a time", id="an endless time"),
        pytest.param(OLD.encode() % b"-1", "is not a time", id="negative time"),
        pytest.param(NEW.replace(JOB, "../../etc").encode(), "no jobid, state or controldir", id="path"),
        pytest.param(NEW.replace("SUBMIT", "DROP TABLE").encode(), "no jobid, state", id="no state"),
        pytest.param(NEW.replace("/control", "control").encode(), "no jobid, state", id="relative"),
        pytest.param(NEW.replace("whole=", "whole=local 3").encode(), "truncated", id="fewer bytes than it says"),
        pytest.param((OLD % "1").encode() + b"file=local 9\nabc\n", "truncated", id="torn"),
        pytest.param((OLD % "1").encode() + b"file=local x\nabc\n", "truncated", id="no length"),
        pytest.param((OLD % "1").encode() + b"file=shadow 3\nabc\n", "truncated or not a spool file", id="other file"),
        *(
            pytest.param((OLD % "1").encode() + parts, "truncated or not a spool file: ", id=parts.decode())
            for parts in TORN_PARTS
        ),
    ],
)
def test_what_is_no_event_is_refused(content: bytes, complaint: str) -> None:
    """Every other content is an InputError that names the file and what is wrong."""
    with pytest.raises(InputError, match=complaint) as refused:
        from_bytes(content, "/spool/name", WRITTEN_NS)
    assert str(refused.value).startswith("/spool/name: ")
    assert len(str(refused.value)) < 200


@given(
    st.one_of(
        st.binary(),
        st.binary().map(lambda tail: to_bytes(event(), 1) + tail),
        st.binary().map(lambda tail: launched(event()) + tail),
        st.binary().map(lambda head: b"version=2\n" + head + launched(event())[10:]),
    )
)
def test_no_content_makes_reading_fail(content: bytes) -> None:
    """Any bytes are an event or an InputError."""
    try:
        found, _apart = from_bytes(content, "file", WRITTEN_NS)
    except InputError:
        return
    assert is_job_id(found.job_id)
    assert 0 <= found.event_ns < 2**63


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f"4711-SUBMIT-{JOB}", (JOB, "SUBMIT", WRITTEN_NS)),
        (f"4711.12-SUBMIT-{JOB}", (JOB, "SUBMIT", WRITTEN_NS)),
        (".tmp-4711-FINISHED-1-2", ("1-2", "FINISHED", WRITTEN_NS)),
        (f"{NOON_NS}-9-SUBMIT-{JOB}", (JOB, "SUBMIT", NOON_NS)),
        (f".tmp-{NOON_S}-9-FINISHED-a-b", ("a-b", "FINISHED", NOON_NS)),
        (f"{NOON_NS}-9-NOWHERE-{JOB}", None),
        (f"4711-NOWHERE-{JOB}", None),
        (f"{NOON_NS}-9-SUBMIT-.hidden", None),
        (f"noon-9-SUBMIT-{JOB}", None),
        (f"noon-SUBMIT-{JOB}", None),
        ("core", None),
    ],
)
def test_what_a_name_alone_tells(name: str, wanted: tuple[str, str, int] | None) -> None:
    """Job, state and time of an event whose content is lost; nothing of a file that is none of ours."""
    found = from_name(name, "/control", WRITTEN_NS)

    assert wanted == (None if found is None else (found.job_id, found.state, found.event_ns))


def test_a_launcher_says_its_settings_and_its_version(tmp_path) -> None:
    """The lines that an administrator edited; another program has none."""
    launcher = pathlib.Path(__file__).parents[2] / "etc/arcacct-hook"
    edited, other = tmp_path / "edited", tmp_path / "other"
    edited.write_text(launcher.read_text().replace("version=2", "version=1") + "\nspool=/var/spool/a\nfallback='/b'\n")
    other.write_text("#!/bin/sh\nspool=/var/spool/a\n")

    assert launcher_settings(str(launcher)) == LauncherSettings(is_new=True)
    assert launcher_settings(str(edited)) == LauncherSettings("/var/spool/a", "/b", is_new=False)
    assert launcher_settings(str(other)) is None
    assert launcher_settings(str(tmp_path / "none")) is None
