"""Message files for ssmsend, as ssmsend finds them."""

from __future__ import annotations

import errno
import os
import re
import stat
import time

import pytest
from attackers import THEM, TRIES, relinking, secret_of_root, swapping, theirs, tries
from other_users import acting_as
from publishing_site import DAY_S, DIRECTORY, JUNE, Job, Site

from arcacct.errors import InputError
from arcacct.publishing.answers import Outcome
from arcacct.targets.directory.target import DirectorySender, new_name

TEXT = "APEL-summary-job-message: v0.2\nSite: EXAMPLE\n%%\n"
NAME = "67748580/67748589123450"


@pytest.fixture(params=["dirq", "directory"])
def outgoing(request, tmp_path):
    """An empty outgoing directory in each of the two layouts."""
    path = tmp_path / "outgoing"
    path.mkdir()
    return DirectorySender(str(path), request.param)


def found(outgoing: DirectorySender) -> dict[str, bytes]:
    """What ssmsend would send: dirq's names two levels down, or any name in the folder; and nothing else there."""
    names = [
        os.path.relpath(os.path.join(folder, file), outgoing.path)
        for folder, _, files in os.walk(outgoing.path)
        for file in files
    ]
    pattern = "[0-9a-f]{8}/[0-9a-f]{14}" if outgoing.layout == "dirq" else "[^/]+"
    assert all(re.fullmatch(pattern, name) for name in names)
    return {name: read(os.path.join(outgoing.path, name)) for name in names}


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_a_message_is_laid_down_whole(outgoing):
    """The file holds the unsigned text under a name that the layout's reader picks up."""
    answer = outgoing.write(TEXT, NAME)
    assert answer.kind == Outcome.ACCEPTED
    assert found(outgoing) == {answer.receiver_id: TEXT.encode()}
    assert answer.text == os.path.join(outgoing.path, answer.receiver_id)


def test_nothing_stays_next_to_it(outgoing):
    """Neither drafts nor folders are left where the files do not belong."""
    outgoing.write(TEXT, NAME)
    assert os.listdir(os.path.dirname(outgoing.path)) == ["outgoing"]
    folders = [entry.name for entry in os.scandir(outgoing.path) if entry.is_dir()]
    assert folders == ([NAME[:8]] if outgoing.layout == "dirq" else [])


def test_the_same_message_again_is_the_same_file(outgoing):
    """A message whose receipt was lost in a crash does not become two."""
    first = outgoing.write(TEXT, NAME)
    assert outgoing.write(TEXT, NAME) == first
    assert len(found(outgoing)) == 1


def test_another_message_never_replaces_one(outgoing):
    """A name that is taken by other bytes is refused, and the file that has it stays as it was."""
    first = outgoing.write(TEXT, NAME)
    answer = outgoing.write(TEXT * 2, NAME)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert found(outgoing) == {first.receiver_id: TEXT.encode()}


def test_a_draft_of_a_killed_run_is_replaced(tmp_path):
    """Half a file from before is no hindrance, and is never picked up."""
    (tmp_path / NAME[:8]).mkdir()
    (tmp_path / f"{NAME}.tmp").write_text("half a mess")
    queue = DirectorySender(str(tmp_path), "dirq")
    assert queue.write(TEXT, NAME).kind == Outcome.ACCEPTED
    assert found(queue) == {NAME: TEXT.encode()}


def test_a_link_in_the_drafts_place_is_not_followed(tmp_path):
    """Whoever else may write there cannot make us write elsewhere."""
    (tmp_path / NAME[:8]).mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"{NAME}.tmp").symlink_to(victim)
    assert DirectorySender(str(tmp_path), "dirq").write(TEXT, NAME).kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "kind", "known"),
    [
        pytest.param(errno.ENOSPC, Outcome.TRY_LATER, True, id="disk full"),
        pytest.param(errno.EDQUOT, Outcome.TRY_LATER, True, id="quota"),
        pytest.param(errno.EIO, Outcome.TRY_LATER, False, id="disk broken"),
        pytest.param(errno.EROFS, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True, id="read-only"),
    ],
)
def test_a_failing_disk_is_an_answer(outgoing, monkeypatch, number, kind, known):
    """What the disk refuses leaves no file behind, and the next run can do it."""

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        answer = outgoing.write(TEXT, NAME)
    assert (answer.kind, answer.outcome_known) == (kind, known)
    assert os.strerror(number) in answer.text
    assert found(outgoing) == {}
    assert outgoing.write(TEXT, NAME).kind == Outcome.ACCEPTED


@pytest.mark.parametrize("layout", ["dirq", "directory"])
def test_a_missing_directory_is_not_made(tmp_path, layout):
    """An outgoing directory that is not there may be an unmounted one: nothing is written in its place."""
    answer = DirectorySender(str(tmp_path / "away"), layout).write(TEXT, NAME)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert str(tmp_path / "away") in answer.text
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_forbidden_directory_is_named(outgoing):
    """A directory of another user is the administrator's business."""
    os.chmod(outgoing.path, 0o500)
    answer = outgoing.write(TEXT, NAME)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert "Permission denied" in answer.text


def test_a_filesystem_without_nameless_files_will_do(tmp_path, monkeypatch):
    """Where O_TMPFILE is unknown (NFS) the draft lies next to the directory, and is gone afterwards."""
    path = tmp_path / "outgoing"
    path.mkdir()
    opened = []

    def old(file, flags, mode=0o777, **how):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if flags & os.O_CREAT:
            opened.append(os.readlink(f"/proc/self/fd/{how['dir_fd']}"))
        return real(file, flags, mode, **how)

    real = os.open
    plain = DirectorySender(str(path), "directory")
    with monkeypatch.context() as nfs:
        nfs.setattr(os, "open", old)
        answer = plain.write(TEXT, NAME)
    assert found(plain) == {answer.receiver_id: TEXT.encode()}
    assert opened == [str(tmp_path)]
    assert os.listdir(tmp_path) == ["outgoing"]


def test_only_ascii_is_laid_down(outgoing):
    """One other letter would stop ssmsend for all messages behind it."""
    with pytest.raises(InputError, match="only ASCII"):
        outgoing.write("UserDN: /CN=J\u00f6rg\n", NAME)
    assert found(outgoing) == {}


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_nobody_else_reads_messages(outgoing, umask, mode):
    """Whatever the umask, and whatever others may do in the directory, which stays as it was."""
    os.chmod(outgoing.path, mode)
    before = os.umask(umask)
    try:
        answer = outgoing.write(TEXT, NAME)
    finally:
        os.umask(before)
    group = 0o070 if mode == 0o777 else 0
    assert stat.S_IMODE(os.stat(answer.text).st_mode) == 0o600 | group & 0o040
    assert stat.S_IMODE(os.stat(outgoing.path).st_mode) == mode
    if outgoing.layout == "dirq":
        assert stat.S_IMODE(os.stat(os.path.dirname(answer.text)).st_mode) == 0o700 | group


@pytest.fixture
def queue(request, public_dir, outgoing):
    """A directory that another user can reach."""
    (public_dir / "outgoing").mkdir()
    return DirectorySender(str(public_dir / "outgoing"), outgoing.layout)


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")


@ROOT
@pytest.mark.parametrize("group_bits", [0o2770, 0o770], ids=["set-group-id", "group"])
def test_a_group_that_may_write_takes_messages_out(queue, group_bits):
    """An ssmsend of another user, who is in the directory's group: he reads and removes them, and folders."""
    os.chown(queue.path, 0, THEM.pw_gid)
    os.chmod(queue.path, group_bits)
    answer = queue.write(TEXT, NAME)
    again = queue.write(TEXT, f"{NAME[:-1]}1")
    with acting_as(THEM.pw_name):
        assert read(answer.text) == read(again.text) == TEXT.encode()
        os.unlink(answer.text)
        os.unlink(again.text)
        if queue.layout == "dirq":
            os.rmdir(os.path.dirname(answer.text))
    assert os.listdir(queue.path) == []


@ROOT
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_the_owner_of_the_directory_takes_messages_out(queue, mode):
    """An ssmsend whose own directory it is, though root publishes."""
    os.chown(queue.path, THEM.pw_uid, THEM.pw_gid)
    os.chmod(queue.path, mode)
    answer = queue.write(TEXT, NAME)
    assert queue.write(TEXT, NAME) == answer
    with acting_as(THEM.pw_name):
        assert read(answer.text) == TEXT.encode()
        os.unlink(answer.text)
        if queue.layout == "dirq":
            os.rmdir(os.path.dirname(answer.text))
    assert os.listdir(queue.path) == []
    assert stat.S_IMODE(os.stat(queue.path).st_mode) == mode


@ROOT
def test_a_folder_of_a_killed_run_is_handed_over(public_dir):
    """One that was made and not yet given away: the next message in it can be taken out all the same."""
    (public_dir / "outgoing").mkdir()
    queue = DirectorySender(str(public_dir / "outgoing"), "dirq")
    os.mkdir(os.path.join(queue.path, NAME[:8]), 0o700)
    os.chown(queue.path, THEM.pw_uid, THEM.pw_gid)
    answer = queue.write(TEXT, NAME)
    with acting_as(THEM.pw_name):
        assert read(answer.text) == TEXT.encode()
        os.unlink(answer.text)


@ROOT
def test_a_publisher_outside_of_the_group_gives_it_to_no_other(queue):
    """Who may write as anybody, and is no member: no one's own group does not get to read."""
    os.chown(queue.path, 0, 0)
    os.chmod(queue.path, 0o777)
    with acting_as(THEM.pw_name):
        answer = queue.write(TEXT, NAME)
    assert stat.S_IMODE(os.stat(answer.text).st_mode) == 0o600


@ROOT
def test_a_folder_that_is_a_link_is_refused(public_dir):
    """Who owns the directory may lead us elsewhere by a link: told, and nothing is written there."""
    (public_dir / "outgoing").mkdir()
    queue = DirectorySender(str(public_dir / "outgoing"), "dirq")
    elsewhere = public_dir / "elsewhere"
    elsewhere.mkdir()
    os.chown(queue.path, THEM.pw_uid, THEM.pw_gid)
    os.symlink(elsewhere, os.path.join(queue.path, NAME[:8]))
    answer = queue.write(TEXT, NAME)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert "symbolic link" in answer.text
    assert os.listdir(elsewhere) == []


@ROOT
def test_a_hard_link_in_the_drafts_place_is_not_written_to(tmp_path):
    """What another user has put there is neither emptied nor removed."""
    (tmp_path / NAME[:8]).mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.chown(victim, 1, 1)
    os.link(victim, tmp_path / f"{NAME}.tmp")
    assert DirectorySender(str(tmp_path), "dirq").write(TEXT, NAME).kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    os.chown(victim, 0, 0)
    assert DirectorySender(str(tmp_path), "dirq").write(TEXT, NAME).kind == Outcome.ACCEPTED
    assert victim.read_text() == "mine"


@ROOT
def test_messages_stay_in_a_directory_that_is_swapped(public_dir):
    """Its owner swaps folders with links while root writes: every message is below his directory, or not written."""
    elsewhere = public_dir / "elsewhere"
    elsewhere.mkdir()
    home = theirs(public_dir / "home")
    theirs(home / "one")
    (home / "other").symlink_to(elsewhere)
    kinds = set()
    with swapping(home):
        for number in tries(TRIES, kinds, 2):
            answer = DirectorySender(str(home / "one"), "dirq").write(TEXT, f"{NAME[:-4]}{number:04x}")
            kinds.add(answer.kind)
    assert kinds == {Outcome.ACCEPTED, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED}
    assert os.listdir(elsewhere) == []


@ROOT
def test_no_file_of_roots_gets_a_name_in_the_directory(public_dir):
    """Its owner puts links into the place of drafts: what they lead to gets no second name there."""
    secret = secret_of_root(public_dir / "of_root")
    home = theirs(public_dir / "home")
    folder = theirs(home / NAME[:8])
    with relinking(folder, secret):
        for number in range(TRIES // 10):
            DirectorySender(str(home), "dirq").write(TEXT, f"{NAME[:-4]}{number:04x}")
    assert secret.stat().st_nlink == 1


def test_names_are_unique_and_sort_by_time():
    """A name is the minute, the second, the microsecond and a random digit, all hexadecimal."""
    now_ns = time.time_ns()
    names = [new_name(now_ns + step * 1000) for step in range(2000)]
    assert names == sorted(names)
    assert len(set(names)) == 2000
    assert re.fullmatch(r"67748580/67748589f120[56][0-9a-f]", new_name(1_735_689_609_987_654_321))


@pytest.mark.parametrize("messages", ["summaries", "summaries-v03"])
def test_summaries_of_the_specification(memory, messages):
    """`apel_dialect=seed` holds for summaries by either name: the version of the document, and hours."""
    site = Site(memory, None, DIRECTORY.replace("individual", f"{messages}\napel_dialect=seed"))
    (memory / "outgoing").mkdir()
    site.record(Job("a", wall_s=7200, cpu_s=3600), Job("b", wall_s=3600, cpu_s=3600))
    outcome = site.publish()
    texts = [path.read_text() for path in (memory / "outgoing").rglob("*") if path.is_file()]
    (text,) = [text for text in texts if text.startswith("APEL-summary")]

    assert outcome.error is None
    assert text.startswith("APEL-summary-job-message: v0.3\n")
    assert {"WallDuration: 3", "CpuDuration: 2", "NormalisedWallDuration: 30", "NumberOfJobs: 2"} <= {*text.split("\n")}


def test_a_month_that_was_started_in_another_version_stays_in_it(memory):
    """What was written of a month before the dialect held for summaries is gone on with: it would count twice."""
    server = DIRECTORY.replace("individual", "summaries")
    site = Site(memory, None, server)
    (memory / "outgoing").mkdir()
    site.send(Job("a", wall_s=7200))
    site.configure(f"{server}apel_dialect=seed\n")
    site.send(Job("b", wall_s=3600), Job("c", end_time=JUNE + 30 * DAY_S, wall_s=3600))
    texts = [path.read_text() for path in (memory / "outgoing").rglob("*") if path.is_file()]
    heads = {(text.split("\n")[0], month) for text in texts for month in re.findall(r"(?m)^Month: \d+", text)}

    assert {one for one in heads if "summary" in one[0]} == {
        ("APEL-summary-job-message: v0.2", "Month: 6"),
        ("APEL-summary-job-message: v0.3", "Month: 7"),
    }
