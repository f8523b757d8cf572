"""Files in directories that others may write."""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from attackers import THEM, TRIES, snatching, swapping, theirs, tries
from other_users import acting_as

from arcacct.errors import InputError
from arcacct.files import safe_open
from arcacct.files.safe_open import open_directory, open_parent, private, read_file, read_regular

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be attacked by others"),
]


@pytest.fixture(autouse=True)
def every_descriptor_is_closed() -> Iterator[None]:
    """Whatever happens."""
    before = set(descriptors())
    yield
    assert {fd: path for fd, path in descriptors().items() if fd not in before} == {}


def descriptors() -> dict[str, str]:
    """What this process has open, but for what asks."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.fixture(params=["x86_64", "another"], ids=["by openat2", "step by step"])
def machine(request, monkeypatch):
    """A kernel that can go the whole way at once, and one that cannot."""
    own = os.uname()
    if request.param != own.machine:
        other = os.uname_result((own.sysname, own.nodename, own.release, own.version, "another"))
        monkeypatch.setattr(os, "uname", lambda: other)


@pytest.fixture
def home(public_dir):
    """A directory of another user."""
    return theirs(public_dir / "home")


def content_of(path: pathlib.Path) -> str:
    """What is read by way of its directory."""
    return read_file(str(path), 100).decode()


def put(path: pathlib.Path, text: str = "7\n", mode: int = 0o644, owner: int = 0) -> pathlib.Path:
    """A file."""
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


@pytest.mark.parametrize("target", ["{}/real", "real", "./real/", "../{name}/real", "second"])
def test_a_link_of_the_administrators_is_followed(public_dir, target):
    """Like /var/run -> /run: of root, where no one else may write; wherever on the way it is."""
    (public_dir / "real" / "deep").mkdir(parents=True)
    put(public_dir / "real" / "deep" / "value")
    (public_dir / "second").symlink_to(public_dir / "real")
    (public_dir / "link").symlink_to(target.format(public_dir, name=public_dir.name))
    assert content_of(public_dir / "link" / "deep" / "value") == "7\n"
    with open_directory(str(public_dir / "link")) as found:
        assert (found.path, found.sure) == (str(public_dir / "real"), True)
    with pytest.raises(InputError, match="symbolic link"):
        open_directory(str(public_dir / "link"), link=False)


def test_the_systems_own_links_are_followed():
    """What every host has."""
    with open_directory("/proc/self/fd") as found:
        assert os.listdir(found.fd)
    if os.path.islink("/var/run"):
        with open_directory("/var/run") as found:
            assert found.path == "/run"


@pytest.mark.usefixtures("machine")
def test_a_link_in_a_directory_of_a_user_is_not_followed(public_dir, home):
    """Neither one of his own nor one of root's, which he may have brought from elsewhere; nor any below it."""
    (public_dir / "real").mkdir()
    put(public_dir / "real" / "value")
    (home / "roots").symlink_to(public_dir / "real")
    (home / "his").symlink_to(public_dir / "real")
    os.chown(home / "his", THEM.pw_uid, -1, follow_symlinks=False)
    (home / "of_root").mkdir()
    (home / "of_root" / "link").symlink_to(public_dir / "real")
    for name in ("roots", "his", "of_root/link"):
        with pytest.raises(InputError, match=f"^{home}/{name} is a symbolic link .* not followed; give its target"):
            content_of(home / name / "value")
    (home / "plain" / "deep").mkdir(parents=True)
    put(home / "plain" / "deep" / "value")
    assert content_of(home / "plain" / "deep" / "value") == "7\n"


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_a_link_of_a_user_is_not_followed(public_dir, mode):
    """Also where root is the owner of the directory: /tmp."""
    public_dir.chmod(mode)
    (public_dir / "real").mkdir()
    (public_dir / "link").symlink_to("real")
    with open_directory(str(public_dir / "link")):
        pass
    os.chown(public_dir / "link", THEM.pw_uid, -1, follow_symlinks=False)
    with pytest.raises(InputError, match=f"symbolic link of user {THEM.pw_uid}"):
        open_directory(str(public_dir / "link"))


@pytest.mark.parametrize(("mode", "group"), [(0o777, 0), (0o775, 1)])
def test_where_others_may_write_nothing_is_followed(public_dir, mode, group):
    """Without the sticky bit they can exchange what root has put there."""
    (public_dir / "real").mkdir()
    (public_dir / "link").symlink_to("real")
    os.chown(public_dir, 0, group)
    public_dir.chmod(mode)
    with pytest.raises(InputError, match="where others can write"):
        open_directory(str(public_dir / "link"))


def test_a_group_of_ones_own_is_nobody_else(public_dir, home):
    """Root's, and that of a user where every user has one: the umask is 002 there."""
    (public_dir / "real").mkdir()
    for place, number in ((public_dir, 0), (home, THEM.pw_uid)):
        (place / "link").symlink_to(public_dir / "real")
        os.chown(place / "link", number, number, follow_symlinks=False)
        os.chown(place, number, number)
        place.chmod(0o775)
    for user, place in (("root", public_dir), (THEM.pw_name, home)):
        with acting_as(user), open_directory(str(place / "link")) as found:
            assert found.path == str(public_dir / "real")


def test_who_may_write_by_a_list_is_somebody_else(public_dir):
    """An access control list shows its widest permission in the bits of the group: here of root's own."""
    (public_dir / "real").mkdir()
    (public_dir / "link").symlink_to("real")
    public_dir.chmod(0o775)
    with open_directory(str(public_dir / "link")):
        pass
    nobody = 2**32 - 1
    entries = [(1, 7, nobody), (2, 7, THEM.pw_uid), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(public_dir, "system.posix_acl_access", content)
    except OSError:
        pytest.skip("this file system has no access control lists")
    with pytest.raises(InputError, match="where others can write"):
        open_directory(str(public_dir / "link"))


def test_in_a_directory_for_all_files_of_root_are_doubted(public_dir):
    """Everybody may put a file there, also a second name of one of root's: each is read as its owner's own file is."""
    public_dir.chmod(0o1777)
    (public_dir / "of_root").mkdir(mode=0o700)
    os.link(put(public_dir / "of_root" / "secret", mode=0o600), public_dir / "linked")
    put(public_dir / "his", owner=1)
    put(public_dir / "roots")
    with open_directory(str(public_dir)) as found:
        assert found.read("his", 10, for_all=True) == found.read("his", 10) == b"7\n"
        assert found.read("roots", 10, for_all=True) == found.read("roots", 10) == b"7\n"
        with pytest.raises(InputError, match="others may not read"):
            found.read("linked", 10, for_all=True)
        with pytest.raises(InputError, match="another name elsewhere"):
            found.read("linked", 10)


def test_a_circle_of_links_ends(public_dir):
    """As the kernel ends it."""
    (public_dir / "a").symlink_to("b")
    (public_dir / "b").symlink_to("a")
    with pytest.raises(InputError, match="symbolic link"):
        open_directory(str(public_dir / "a"))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("name", "wanted"), [("away/x", errno.ENOENT), ("value/x", errno.ENOTDIR)])
def test_errors_name_the_part(home, name, wanted):
    """Which part of the path is wrong."""
    put(home / "value")
    with pytest.raises(OSError, match=str(home / name.partition("/")[0])) as caught:
        open_directory(str(home / name))
    assert caught.value.errno == wanted


def test_only_plain_files_are_read(home):
    """A pipe holds no one up, a device is not opened, a socket, a directory and a link are told."""
    os.mkfifo(home / "pipe")
    os.mknod(home / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    # To open it would be an error of its own: no driver has this number.
    os.mknod(home / "odd_device", stat.S_IFCHR | 0o666, os.makedev(252, 99))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "socket"))
    (home / "folder").mkdir()
    (home / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "device", "odd_device", "socket", "folder", "link"):
        with pytest.raises(InputError, match=f"{home}/{name}"):
            read_file(str(home / name), 10)


def test_a_file_that_an_option_names_is_regular_and_bounded(tmp_path):
    """A pipe without a writer is not waited for, and a device is not opened; a link to a file is followed."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    (tmp_path / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("file")
    assert read_regular(str(tmp_path / "link"), 100) == b"x" * 100
    for path, wrong in (
        ("pipe", "a pipe, not a regular file"),
        ("socket", "a socket, not a regular file"),
        ("/dev/zero", "a device, not a regular file"),
        (".", "Is a directory"),
        ("nothing", "No such file or directory"),
    ):
        with pytest.raises(OSError, match=wrong) as raised:
            read_regular(str(tmp_path / path))
        assert raised.value.filename == str(tmp_path / path)
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_regular(str(tmp_path / "file"), 99)
    # A file of the kernel has content and no size.
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_regular("/proc/self/maps", 99)


def test_what_root_alone_may_read_stays_his(public_dir, home):
    """A second name of such a file, or the file itself or its whole directory moved: all that its owner can do."""
    secret = put(public_dir / "secret", mode=0o600)
    os.link(secret, home / "hard")
    put(home / "moved", mode=0o600)
    (home / "folder").mkdir(mode=0o700)
    put(home / "folder" / "moved", mode=0o600)
    for name in ("hard", "moved", "folder/moved"):
        folder, own_name = open_parent(str(home / name))
        with folder, pytest.raises(InputError, match="others may not read"):
            folder.read(own_name, 10, for_all=True)
    with pytest.raises(InputError, match="another name elsewhere"):
        read_file(str(home / "hard"), 10)
    assert content_of(secret) == "7\n"


@pytest.mark.parametrize(
    ("owner", "mode", "fine"),
    [(THEM.pw_uid, 0o600, True), (THEM.pw_uid, 0o644, True), (0, 0o644, True), (1, 0o644, False)],
)
def test_whose_files_are_believed(home, owner, mode, fine):
    """Those of the directory's owner and what root has written there for all; none of a third user."""
    put(home / "value", mode=mode, owner=owner)
    folder, name = open_parent(str(home / "value"))
    with folder:
        if fine:
            assert folder.read(name, 10, for_all=True) == b"7\n"
        else:
            with pytest.raises(InputError, match="a file of user 1"):
                folder.read(name, 10, for_all=True)


def test_no_more_is_read_than_wanted(home):
    """Of a file of a terabyte, and of one that grows as fast as it is read."""
    with (home / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert len(read_file(str(home / "huge"), 5000)) == 5000
    ended = threading.Event()

    def grow() -> None:
        with (home / "growing").open("ab") as file:
            while not ended.is_set():
                file.write(b"x" * 65536)
                file.flush()
                if file.tell() > 1 << 24:
                    file.truncate(1 << 16)

    put(home / "growing", "x" * 65536)
    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert {len(read_file(str(home / "growing"), 40_000)) for _ in range(50)} == {40_000}
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize("umask", [0, 0o077])
def test_modes_are_those_wished(public_dir, umask):
    """Of all directories and files that are made, whatever the umask; a group that is inherited stays."""
    public_dir.chmod(0o2755)
    before = os.umask(umask)
    try:
        with open_directory(str(public_dir / "a" / "b"), make=0o755) as found:
            os.close(found.create("own"))
            os.close(found.create("for_all", 0o644))
            found.make("own_folder").close()
        open_directory(str(public_dir / "private" / "b"), make=0o700).close()
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(public_dir)): oct(stat.S_IMODE(path.stat().st_mode)) for path in public_dir.rglob("*")
    }
    assert modes == {
        "a": "0o2755",
        "a/b": "0o2755",
        "a/b/own": "0o600",
        "a/b/for_all": "0o644",
        "a/b/own_folder": "0o2700",
        "private": "0o2700",
        "private/b": "0o2700",
    }


def test_a_file_is_put_there_whole_or_not_at_all(public_dir):
    """Over whatever file has the name, a link included; over a directory not, and then nothing is left behind."""
    secret = put(public_dir / "secret", "secret", mode=0o600)
    (public_dir / "value").symlink_to(secret)
    (public_dir / "folder").mkdir()
    with open_directory(str(public_dir)) as found:
        found.replace("value", b"new", 0o644, (THEM.pw_uid, THEM.pw_gid))
        with pytest.raises(IsADirectoryError):
            found.replace("folder", b"new")
    status = (public_dir / "value").lstat()
    assert (stat.S_ISREG(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid) == (True, 0o644, THEM.pw_uid)
    assert (content_of(public_dir / "value"), content_of(secret)) == ("new", "secret")
    assert sorted(os.listdir(public_dir)) == ["folder", "secret", "value"]


@pytest.mark.parametrize("umask", [0, 0o777])
def test_private_files_are_their_owners(public_dir, umask):
    """Whatever the umask, and also one that was there with another mode."""
    put(public_dir / "old", mode=0o666)
    before = os.umask(umask)
    try:
        for name in ("old", "new"):
            with open(public_dir / name, "a", opener=private):
                pass
    finally:
        os.umask(before)
    assert {stat.S_IMODE((public_dir / name).stat().st_mode) for name in ("old", "new")} == {0o600}


@pytest.mark.usefixtures("machine")
def test_a_directory_that_is_there_is_not_made(home):
    """It keeps mode and owner, and `made` says so."""
    (home / "there").mkdir(mode=0o711)
    with open_directory(str(home / "there"), make=0o755) as found:
        assert not found.made
        assert stat.S_IMODE(found.status.st_mode) == 0o711
    with open_directory(str(home / "new"), make=0o755) as found:
        assert found.made


def test_root_never_works_in_another_directory(public_dir, home):
    """While its owner puts links into the place of what is made: every file is made below his directory, or not."""
    (public_dir / "of_root").mkdir()
    met = set()
    with snatching(home, public_dir / "of_root"):
        for _ in tries(TRIES, met, 2):
            try:
                with open_directory(str(home / "made" / "deep"), make=0o755) as found:
                    os.close(found.create("value"))
                    met.add("made")
            except (OSError, InputError):
                met.add("refused")
    assert os.listdir(public_dir / "of_root") == []
    assert public_dir.joinpath("of_root").stat().st_uid == 0
    assert met == {"made", "refused"}


@pytest.mark.usefixtures("machine")
def test_root_reads_no_other_file(public_dir, home):
    """While its owner swaps a directory in the middle of the way with a link: his text, or none."""
    (public_dir / "of_root" / "deep").mkdir(parents=True)
    put(public_dir / "of_root" / "deep" / "value", "secret")
    (home / "one" / "deep").mkdir(parents=True)
    put(home / "one" / "deep" / "value", "his")
    (home / "other").symlink_to(public_dir / "of_root")
    found = set()
    with swapping(home):
        for _ in range(TRIES):
            try:
                found.add(content_of(home / "one" / "deep" / "value"))
            except (OSError, InputError):
                found.add("none")
    assert found == {"his", "none"}


@pytest.mark.parametrize("kind", ["second name", "pipe"])
def test_root_reads_no_file_put_in_the_place_of_another(public_dir, home, kind):
    """While its owner swaps a file of his with a second name of root's, or with a pipe: what was opened counts."""
    put(home / "one", "his", owner=THEM.pw_uid)
    if kind == "pipe":
        os.mkfifo(home / "other")
    else:
        (public_dir / "of_root").mkdir(mode=0o700)
        os.link(put(public_dir / "of_root" / "value", "secret", mode=0o600), home / "other")
    found = set()
    with open_directory(str(home)) as folder, swapping(home):
        for _ in tries(TRIES, found, 2):
            try:
                found.add(folder.read("one", 10, for_all=True))
            except InputError:
                found.add(b"none")
    assert found == {b"his", b"none"}


def test_root_changes_no_directory_put_in_the_place_of_another(home):
    """While its owner exchanges what was just made for a directory that root once made there, and has filled."""
    (home / "one").mkdir()
    (home / "other").mkdir(mode=0o700)
    put(home / "other" / "value")
    filled = (home / "other").stat().st_ino
    met = set()
    with swapping(home):
        for _ in tries(TRIES // 4, met, 2):
            try:
                with open_directory(str(home / "one"), make=0o755) as found:
                    if found.made:
                        met.add("made")
                    # The one that was there may have been met as such.
                    assert not (found.made and found.status.st_ino == filled)
            except (OSError, InputError):
                met.add("refused")
            while (home / "one").exists():
                for name in ("one", "other"):
                    with suppress(OSError):
                        os.rmdir(home / name)
                with suppress(OSError):
                    os.rename(home / "one", home / "other")
    (left,) = home.iterdir()
    assert (left.stat().st_ino, stat.S_IMODE(left.stat().st_mode)) == (filled, 0o700)
    assert met == {"made", "refused"}


def test_a_kernel_that_refuses_openat2_is_no_hindrance(home, monkeypatch):
    """A container's filter answers EPERM, an old kernel ENOSYS: both as any number that no system call has."""
    monkeypatch.setitem(safe_open._OPENAT2, os.uname().machine, 99_999)
    (home / "deep").mkdir()
    put(home / "deep" / "value")
    assert content_of(home / "deep" / "value") == "7\n"


def test_another_user_than_root(public_dir, home):
    """Root's links and his own are followed, a third user's are not."""
    (public_dir / "real").mkdir()
    (public_dir / "roots").symlink_to("real")
    (home / "his").symlink_to(public_dir / "real")
    os.chown(home / "his", THEM.pw_uid, -1, follow_symlinks=False)
    third = public_dir / "third"
    third.mkdir()
    os.chown(third, 1, 1)
    (third / "link").symlink_to(public_dir / "real")
    with acting_as(THEM.pw_name):
        for path in (public_dir / "roots", home / "his"):
            with open_directory(str(path)) as found:
                assert found.path == str(public_dir / "real")
        with pytest.raises(InputError, match="symbolic link"):
            open_directory(str(third / "link"))


@pytest.mark.skipif(os.uname().machine not in safe_open._OPENAT2, reason="needs a machine whose number is known")
def test_the_kernel_goes_the_way_at_once(home):
    """Where it has openat2 it is asked, and refuses any link below the directory."""
    (home / "a" / "b").mkdir(parents=True)
    (home / "link").symlink_to("a")
    with open_directory(str(home)) as found:
        fd = safe_open._openat2(found.fd, "a/b")
        if fd < 0:
            pytest.skip("this kernel has no openat2, or does not let us")
        os.close(fd)
        assert safe_open._openat2(found.fd, "link/b") < 0
        assert safe_open._openat2(found.fd, "..") < 0
