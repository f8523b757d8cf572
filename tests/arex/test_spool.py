"""Events that wait as files."""

from __future__ import annotations

import os
import pathlib
import resource
import stat
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, NOON_S

from arcacct.arex.control_files import STATES, JobFiles, is_job_id
from arcacct.arex.spool import from_bytes, from_name, to_bytes, write
from arcacct.errors import InputError
from arcacct.files.directories import private_directory
from arcacct.records.states import StatusFile

FIELDS = ("controldir", "job_id", "state", "event_ns", "local", "diag", "statistics", "failed", "owner")


def event(state: str = "FINISHED") -> JobFiles:
    """An event with everything."""
    files = JobFiles("/var/spool/arc/jobstatus", JOB, state)
    files.event_ns = NOON_NS + 1
    files.status = StatusFile(state, 8, NOON_NS + 1, NOON_NS + 2)
    files.local, files.diag, files.owner, files.failed = LOCAL, DIAG, "ada:atlas", True
    return files


def same(one: JobFiles, other: JobFiles) -> None:
    """Two events say the same."""
    assert [getattr(one, name) for name in FIELDS] == [getattr(other, name) for name in FIELDS]
    assert (one.status is None) == (other.status is None)
    if one.status is not None and other.status is not None:
        for name in ("state", "size", "mtime_ns", "ctime_ns"):
            assert getattr(one.status, name) == getattr(other.status, name)


NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.integers(2**33, 2**63 - 1)
NAMES = st.binary(min_size=1, max_size=30).filter(lambda raw: not set(raw) & {0, 10}).map(os.fsdecode)
CONTENTS = st.one_of(st.none(), st.binary(), st.sampled_from([LOCAL, b"file=local 5\n", b"version=2\n"]))


@given(
    st.text(st.characters(codec="ascii"), min_size=1, max_size=60).filter(is_job_id),
    st.sampled_from(STATES),
    NAMES,
    TIMES,
    st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(CONTENTS, CONTENTS, CONTENTS),
    st.one_of(st.none(), NAMES),
    st.booleans(),
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
) -> None:
    """Whatever the files contain and whatever the directory is called, the spool gives back what was put in."""
    files = JobFiles("/" + controldir, job_id, state)
    files.event_ns, files.owner, files.failed = event_ns, owner, failed
    files.local, files.diag, files.statistics = contents
    files.status = None if status is None else StatusFile(state, *status)

    found, complete = from_bytes(to_bytes(files, 1), "file")

    same(found, files)
    assert complete is (files.local is not None)


def test_an_event_is_a_file_of_its_own(tmp_path: pathlib.Path) -> None:
    """The name says when, who, which state and which job; nothing half written remains; the owner alone may read."""
    spool = tmp_path / "ours" / "spool"

    path = write(str(spool), event())

    assert os.listdir(spool) == [os.path.basename(path)]
    now, pid, state, job_id = os.path.basename(path).split("-")
    assert (len(now), pid, state, job_id) == (19, str(os.getpid()), "FINISHED", JOB)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(spool).st_mode) == stat.S_IMODE(os.stat(tmp_path / "ours").st_mode) == 0o700
    found, complete = from_bytes(pathlib.Path(path).read_bytes(), path)
    same(found, event())
    assert complete


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_directories_and_files_are_their_owners_under_any_umask(tmp_path: pathlib.Path, umask: int) -> None:
    """An open umask opens nothing, a closed one locks nobody out."""
    before = os.umask(umask)
    try:
        path = write(str(tmp_path / "a" / "b"), event())
        private_directory(str(tmp_path / "c" / "d"))
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for folder in ("a", "a/b", "c", "c/d"):
        assert stat.S_IMODE(os.stat(tmp_path / folder).st_mode) == 0o700


def test_an_event_without_time_gets_the_present(tmp_path: pathlib.Path) -> None:
    """When the hook could read nothing, the event's time is when it was spooled."""
    path = write(str(tmp_path), JobFiles("/control", JOB, "SUBMIT"))

    found, complete = from_bytes(pathlib.Path(path).read_bytes(), path)

    assert found.event_ns == int(os.path.basename(path).partition("-")[0])
    assert not complete


def test_every_torn_file_is_noticed() -> None:
    """Wherever a file is cut it is refused, unless the cut is between two lines behind the event itself."""
    whole = to_bytes(event(), 1)
    passed = []
    for length in range(len(whole)):
        try:
            found, _complete = from_bytes(whole[:length], "file")
        except InputError:
            continue
        passed.append(whole[:length])
        assert (found.job_id, found.state, found.event_ns) == (JOB, "FINISHED", NOON_NS + 1)
        assert found.local in (None, LOCAL)
        assert found.diag is None

    assert all(part.endswith(b"\n") for part in passed)
    # The last line of each: the blob of .local ends with a line end of its own and one of ours.
    assert [part.split(b"\n")[-2][:5] for part in passed] == [b"time=", b"faile", b"statu", b"owner", b""]


LAUNCHER = f"version=1\ncontroldir=/control\njobid={JOB}\nstate=SUBMIT\ntime=%s\n"


@pytest.mark.parametrize(
    ("time", "wanted"),
    [(str(NOON_S), NOON_NS), (str(NOON_NS + 5), NOON_NS + 5), ("0", 0)],
    ids=["seconds", "nanoseconds", "no clock"],
)
def test_the_lines_of_the_launcher(time: str, wanted: int) -> None:
    """The launcher's clock knows seconds or nanoseconds; the control files are read later."""
    found, complete = from_bytes((LAUNCHER % time).encode(), "file")

    assert (found.controldir, found.job_id, found.state, found.event_ns) == ("/control", JOB, "SUBMIT", wanted)
    assert (found.local, found.status, complete) == (None, None, False)


TORN_PARTS = (
    *(b"parts=local 9\nabc", b"parts=local 2\nabc", b"parts=local\nabc", b"parts=local x\nabc", b"parts=\nabc"),
    *(b"parts=shadow 3\nabc", b"parts=local 1 diag\nabc", b"parts=local 3 shadow 0\nabc"),
    *(b"parts=local 3 diag\nabc", b"parts=local x\n"),
)
"""Too short, too long, without lengths, of files that are none of a job's."""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "spool version None; this program supports 1", id="empty"),
        pytest.param(b"\x00\xff\xfe", "truncated or not a spool file", id="anything"),
        pytest.param(b"a=b\n" * 2_000_000, "not a spool file of arcacct: more than 100 lines", id="lines without end"),
        pytest.param(LAUNCHER.replace("version=1", "version=2").encode() % b"1", "spool version '2'", id="newer"),
        pytest.param(LAUNCHER.encode() % b"x", "time='x' is not a time", id="no time"),
        pytest.param(LAUNCHER.encode() % "²".encode(), "is not a time", id="a digit that is none"),
        pytest.param(LAUNCHER.encode() % (b"9" * 19), "is not a time", id="a time beyond the end"),
        pytest.param(LAUNCHER.encode() % (b"9" * 5000), "is not a time", id="an endless time"),
        pytest.param(LAUNCHER.encode() % b"-1", "is not a time", id="negative time"),
        pytest.param((LAUNCHER % "1").replace(JOB, "../../etc").encode(), "no jobid, state or controldir", id="path"),
        pytest.param((LAUNCHER % "1").replace("SUBMIT", "DROP TABLE").encode(), "no jobid, state", id="no state"),
        pytest.param((LAUNCHER % "1").replace("/control", "control").encode(), "no jobid, state", id="relative"),
        pytest.param((LAUNCHER % "1").encode() + b"file=local 9\nabc\n", "truncated", id="torn"),
        pytest.param((LAUNCHER % "1").encode() + b"file=local x\nabc\n", "truncated", id="no length"),
        pytest.param(
            (LAUNCHER % "1").encode() + b"file=shadow 3\nabc\n", "truncated or not a spool file", id="other file"
        ),
        *(
            pytest.param((LAUNCHER % "1").encode() + parts, "truncated or not a spool file: parts=", id=parts.decode())
            for parts in TORN_PARTS
        ),
    ],
)
def test_what_is_no_event_is_refused(content: bytes, complaint: str) -> None:
    """Every other content is an InputError that names the file and what is wrong."""
    with pytest.raises(InputError, match=complaint) as refused:
        from_bytes(content, "/spool/name")
    assert str(refused.value).startswith("/spool/name: ")
    assert len(str(refused.value)) < 200


@given(st.one_of(st.binary(), st.binary().map(lambda tail: to_bytes(event(), 1) + tail)))
def test_no_content_makes_reading_fail(content: bytes) -> None:
    """Any bytes are an event or an InputError."""
    try:
        found, _complete = from_bytes(content, "file")
    except InputError:
        return
    assert is_job_id(found.job_id)
    assert 0 <= found.event_ns < 2**63


def test_a_directory_that_no_line_can_name_is_refused() -> None:
    """A line end in the control directory's name would forge lines: such an event is not spooled."""
    with pytest.raises(InputError, match="cannot be spooled"):
        to_bytes(JobFiles("/control\nstate=FINISHED", JOB, "SUBMIT"), 1)


def test_names_sort_by_time_whether_seconds_or_nanoseconds() -> None:
    """The launcher's seconds sort before every nanosecond of their second and after those of the one before."""
    names = [
        f"{NOON_NS - 1}-9-SUBMIT-J",
        f"{NOON_S}-1-SUBMIT-J",
        f"{NOON_NS}-9-SUBMIT-J",
        f"{NOON_NS + 999_999_999}-9-SUBMIT-J",
        f"{NOON_S + 1}-1-SUBMIT-J",
    ]

    assert sorted(names) == names


def test_a_spool_that_cannot_be_written_is_an_error(tmp_path: pathlib.Path) -> None:
    """A file in the place of the spool raises OSError and leaves nothing."""
    (tmp_path / "spool").write_text("")

    with pytest.raises(OSError, match="Not a directory"):
        write(str(tmp_path / "spool"), event())
    assert os.listdir(tmp_path) == ["spool"]


@pytest.fixture
def small_files() -> Iterator[int]:
    """This process may write files of so many bytes, and no larger ones."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    yield 100
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_is_written_in_part_is_taken_away(tmp_path: pathlib.Path, small_files: int) -> None:
    """A disk that has no room for the whole event raises OSError; the part that was written is none for a sweep."""
    assert len(to_bytes(event(), 1)) > small_files

    with pytest.raises(OSError, match="File too large"):
        write(str(tmp_path), event())
    assert os.listdir(tmp_path) == []


def test_an_event_leaves_no_file_open(tmp_path: pathlib.Path) -> None:
    """A sweep spools many events: none costs it a descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    write(str(tmp_path), event())

    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (f"{NOON_NS}-9-SUBMIT-{JOB}", (JOB, "SUBMIT", NOON_NS)),
        (f".tmp-{NOON_S}-9-FINISHED-a-b", ("a-b", "FINISHED", NOON_NS)),
        (f"{NOON_NS}-9-NOWHERE-{JOB}", None),
        (f"{NOON_NS}-9-SUBMIT-.hidden", None),
        (f"noon-9-SUBMIT-{JOB}", None),
        ("core", None),
    ],
)
def test_what_a_name_alone_tells(name: str, wanted: tuple[str, str, int] | None) -> None:
    """Job, state and time of an event whose content is lost; nothing of a file that is none of ours."""
    found = from_name(name, "/control")

    assert wanted == (None if found is None else (found.job_id, found.state, found.event_ns))
