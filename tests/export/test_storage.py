"""The files of a dataset in a directory where others can write: links, pipes, devices, sizes and numbers of names."""

from __future__ import annotations

import io
import os
import pathlib
import stat

import pytest
from other_users import acting_as

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")

from arcacct.errors import InputError, StoreError
from arcacct.export.dataset import MANIFESTS, TABLES, Partition, part_name
from arcacct.export.storage import LocalStore, open_store

HERE = Partition("SITE", 2026, 6, "ce.example.org")
OTHER = Partition("OTHER", 2026, 6, "ce.example.org")
PART = HERE.part("jobs", part_name("0" * 64))
FOLDERS = (os.path.dirname(MANIFESTS), *(f"{table}/v1" for table in TABLES), "exports/v1")


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """A manifest and a part of each of two sites."""
    made = LocalStore(str(tmp_path / "dataset"))
    for partition in (HERE, OTHER):
        made.put(partition.manifest, io.BytesIO(b"{}"))
        made.put(partition.part("jobs", part_name("0" * 64)), io.BytesIO(b"PAR1"))
    return made


def path(store: LocalStore, name: str) -> pathlib.Path:
    return pathlib.Path(store.place, name)


def listed(store: LocalStore) -> tuple[list[str], list[str]]:
    """The files of the dataset, and what stands in the place of one."""
    found = store.listing(*FOLDERS)
    return sorted(found.files), sorted(found.refused)


BOTH = sorted(one.manifest for one in (HERE, OTHER)) + sorted(
    one.part("jobs", part_name("0" * 64)) for one in (HERE, OTHER)
)


@pytest.mark.parametrize("target", ["/", "..", "../..", "/etc", "."])
@pytest.mark.parametrize("name", [f"{MANIFESTS}/site=EVIL", f"{MANIFESTS}/site=SITE/year=2025", "jobs/v1/site=EVIL"])
def test_a_link_to_a_directory_is_named_and_leads_nowhere(store, name, target) -> None:
    """Nothing behind it is listed, and all else is."""
    path(store, name).symlink_to(target)

    files, refused = listed(store)
    assert (files, refused) == (sorted(BOTH), [name])
    found = store.listing(*FOLDERS)
    assert "a symbolic link, which is not followed" in (found.obstacle(f"{name}/year=2026/month=06/ce=x.json") or "")
    assert found.obstacle(HERE.manifest) is None


def test_what_a_link_leads_to_is_no_part_of_the_dataset(store, tmp_path) -> None:
    """Though it looks like a dataset: a month elsewhere, a manifest or a part."""
    elsewhere = LocalStore(str(tmp_path / "elsewhere"))
    month = HERE._replace(month=7)
    elsewhere.put(month.manifest, io.BytesIO(b"{}"))
    elsewhere.put(month.part("jobs", part_name("1" * 64)), io.BytesIO(b"PAR1"))
    for name in (os.path.dirname(month.manifest), month.part("jobs", part_name("1" * 64))):
        path(store, name).parent.mkdir(parents=True, exist_ok=True)
        path(store, name).symlink_to(path(elsewhere, name))

    assert listed(store)[0] == sorted(BOTH)
    for name in (month.manifest, month.part("jobs", part_name("1" * 64))):
        with pytest.raises(InputError):
            store.read(name)
        with pytest.raises(InputError):
            store.open(name)
    assert store.read(HERE.manifest) == b"{}"


def test_the_dataset_itself_may_be_a_link_of_the_administrator(store, tmp_path) -> None:
    """As long as no one else can have put it there; it is the same place then."""
    (tmp_path / "link").symlink_to(store.place)
    linked = LocalStore(str(tmp_path / "link"))
    assert (listed(linked), linked.read(HERE.manifest)) == ((sorted(BOTH), []), b"{}")
    assert linked.place == store.place


@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "device", "socket"])
@pytest.mark.parametrize("name", [HERE.manifest, PART])
def test_what_is_no_file_is_neither_listed_nor_opened(store, name, kind) -> None:
    """It is named at once: no one waits for whoever writes into a pipe."""
    strange = path(store, name)
    strange.unlink()
    if kind == "pipe":
        os.mkfifo(strange)
    elif kind == "directory":
        strange.mkdir()
    elif kind == "link":
        strange.symlink_to("/dev/zero")
    elif os.geteuid() != 0:
        pytest.skip("only root makes devices")
    else:
        how = (stat.S_IFCHR, os.makedev(1, 5)) if kind == "device" else (stat.S_IFSOCK, 0)
        os.mknod(strange, 0o600 | how[0], how[1])

    assert listed(store) == (sorted(set(BOTH) - {name}), [name])
    for use in (store.read, store.open):
        with pytest.raises(InputError, match=os.path.basename(name)):
            use(name)


def test_a_file_is_judged_by_its_size_before_it_is_read(store) -> None:
    """A sparse one costs nothing; one of the largest size is read."""
    path(store, HERE.manifest).write_bytes(b"x" * 2**20)
    assert len(store.read(HERE.manifest) or b"") == 2**20
    os.truncate(path(store, HERE.manifest), 6 << 30)
    with pytest.raises(InputError, match=f"{6 << 30} bytes"):
        store.read(HERE.manifest)
    assert store.listing(MANIFESTS).files[HERE.manifest] == 6 << 30


def test_an_object_is_judged_by_its_size_too(tmp_path) -> None:
    """Of a store that is no directory."""
    pytest.importorskip("fsspec", reason="the extra `parquet` is not installed")
    remote = open_store(f"memory://{tmp_path}")
    remote.put(HERE.manifest, io.BytesIO(b"x" * (2**20 + 1)))
    remote.put(f"{MANIFESTS}/notes.txt", io.BytesIO(b"x"))
    remote.put("manifests/v2/all.json", io.BytesIO(b"x"))
    with pytest.raises(InputError, match="1048577 bytes"):
        remote.read(HERE.manifest)
    assert remote.read(OTHER.manifest) is None
    found = remote.listing("manifests")
    assert (list(found.files), list(found.refused)) == ([HERE.manifest], ["manifests/v2"])


def test_only_names_of_the_layout_are_looked_at(store) -> None:
    """A tree of strange names is not entered, however deep it is, and is no problem."""
    for name in ("jobs/v1/site=SITE/deep", f"{MANIFESTS}/.snapshot", f"{HERE.folder('jobs')}/deep"):
        deep = path(store, name)
        for _level in range(300):
            deep /= "d"
        deep.mkdir(parents=True)
    (path(store, HERE.folder("jobs")) / "notes.txt").symlink_to("/")
    path(store, f"{os.path.dirname(HERE.manifest)}/ce=..json").write_text("{}")

    assert listed(store) == (sorted(BOTH), [])


@pytest.mark.campaign
def test_a_folder_of_very_many_files_is_left_out(store) -> None:
    """And nothing next to it; so is a site of very many folders."""
    folder = path(store, HERE.folder("jobs"))
    for number in range(10_001):
        (folder / f"part-{number:016x}.parquet").touch()
    found = store.listing("jobs/v1")
    assert (sorted(found.files), sorted(found.refused)) == (
        [OTHER.part("jobs", part_name("0" * 64))],
        [HERE.folder("jobs")],
    )
    assert "more than 10000 files" in (found.obstacle(PART) or "")

    for year in range(2000, 2012):
        many = path(store, f"{MANIFESTS}/site=SITE/year={year}/month=01")
        many.mkdir(parents=True)
        for number in range(9_000):
            (many / f"ce=ce{number}.json").touch()
    found = store.listing(MANIFESTS)
    assert (sorted(found.files), sorted(found.refused)) == ([OTHER.manifest], [f"{MANIFESTS}/site=SITE"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_what_may_not_be_read_costs_itself(public_dir) -> None:
    """A folder or a file of another user's, as somebody who is not root finds it."""
    store = LocalStore(str(public_dir / "dataset"))
    for partition in (HERE, OTHER):
        store.put(partition.manifest, io.BytesIO(b"{}"))
    path(store, f"{MANIFESTS}/site=SITE").chmod(0o700)
    path(store, OTHER.manifest).chmod(0o600)
    with acting_as("nobody"):
        found = store.listing(MANIFESTS)
        assert (sorted(found.files), list(found.refused)) == ([OTHER.manifest], [f"{MANIFESTS}/site=SITE"])
        with pytest.raises(InputError, match="Permission denied"):
            store.read(OTHER.manifest)


def test_a_directory_takes_the_place_of_a_file(store) -> None:
    """What is to be put there is not, which costs that file alone; where no directory can be made the store is ill."""
    path(store, HERE.manifest).unlink()
    path(store, HERE.manifest).mkdir()
    with pytest.raises(InputError, match="Is a directory"):
        store.put(HERE.manifest, io.BytesIO(b"{}"))
    assert [one.name for one in path(store, os.path.dirname(HERE.manifest)).iterdir()] == ["ce=ce.example.org.json"]
    with pytest.raises(StoreError):
        LocalStore("/proc/dataset").put(HERE.manifest, io.BytesIO(b"{}"))


def test_nothing_is_put_or_removed_through_a_link(store, tmp_path) -> None:
    """Whoever may write in the dataset leads no one out of it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ce=x.json").write_text("kept")
    path(store, f"{MANIFESTS}/site=SITE/year=2027").mkdir()
    path(store, f"{MANIFESTS}/site=SITE/year=2027/month=01").symlink_to(tmp_path / "elsewhere")
    for use in (lambda name: store.put(name, io.BytesIO(b"new")), store.remove):
        with pytest.raises(InputError, match="symbolic link"):
            use(f"{MANIFESTS}/site=SITE/year=2027/month=01/ce=x.json")
    assert (tmp_path / "elsewhere" / "ce=x.json").read_text() == "kept"


def test_a_part_that_is_open_stays_the_one_that_was_opened(store, tmp_path) -> None:
    """Whatever takes its name meanwhile."""
    with store.open(PART) as file:
        path(store, PART).unlink()
        os.mkfifo(path(store, PART))
        assert file.read() == b"PAR1"
