"""packaging/release.py: what it refuses, what it compares, and that what it builds is the same each time. Costs 6 s."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parent.parent
VERSION = "1.2.3"
LOG = f"# Changelog\n\n\n## {VERSION} - 2026-11-24\n\n### Fixed\n\n* All.\n"

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(shutil.which("git") is None, reason="a release is made of what git has: no git here"),
]


@pytest.fixture(scope="module")
def release() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("arcacct_release", ROOT / "packaging" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def git(folder: pathlib.Path, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def commit(folder: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "Change something")


@pytest.fixture
def checkout(tmp_path) -> pathlib.Path:
    """A checkout that is a release, as far as the script looks."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {"arcacct/__init__.py": f'__version__ = "{VERSION}"\n', "CHANGELOG.md": LOG})
    return tmp_path


def test_a_release_is_one(release, checkout) -> None:
    """Committed, named alike, nothing waiting; also when its tag is there already."""
    assert list(release.complaints(checkout)) == []
    git(checkout, "tag", f"v{VERSION}")
    assert list(release.complaints(checkout)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arcacct/__init__.py": '__version__ = "99.0.0"\n'}, "arcacct/__init__.py says 99.0.0: make them one"),
        ({"CHANGELOG.md": LOG.replace(" - 2026-11-24", "")}, "CHANGELOG.md begins with None"),
        (
            {"CHANGELOG.md": LOG.replace("\n\n\n", "\n\n\n## Unreleased\n\n### Added\n\n* More.\n\n\n", 1)},
            "give them a version and a day",
        ),
    ],
    ids=["another version", "no day", "unreleased"],
)
def test_what_is_no_release_is_refused(release, checkout, change, words) -> None:
    """With what to do about it."""
    commit(checkout, change)
    (complaint,) = release.complaints(checkout)
    assert words in complaint


def test_what_is_not_committed_is_in_no_release(release, checkout) -> None:
    """A changed file or a new one."""
    (checkout / "new").write_text("")
    (complaint,) = release.complaints(checkout)
    assert complaint == "1 files are not as they are committed, new first: commit them"


def test_a_tag_is_of_one_commit(release, checkout) -> None:
    """Another commit needs another version."""
    git(checkout, "tag", f"v{VERSION}")
    commit(checkout, {})
    (complaint,) = release.complaints(checkout)
    assert complaint.endswith("is the tag of another commit: choose the next version")


def test_the_same_source_gives_the_same_bytes(release, tmp_path, monkeypatch) -> None:
    """Wheel and sdist, built twice, at another time and from another directory; and their digests are written down."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795478400")
    # The manual as a site has a test of its own.
    monkeypatch.setattr(release.importlib.util, "find_spec", lambda name: None)
    built = []
    for turn in ("first", "second"):
        source = shutil.copytree(
            ROOT, tmp_path / turn / "source", ignore=shutil.ignore_patterns(".git", "venv", "__pycache__", ".*_cache")
        )
        release.build(source, tmp_path / turn / "out", None)
        built.append(tmp_path / turn / "out")

    assert sorted(path.name.split("-")[0] for path in built[0].iterdir()) == ["arcacct", "arcacct"]
    assert list(release.compare(*built)) == []
    listed = release.write_sums(built[0])
    assert [path.name for path in listed][-1] == "SHA256SUMS"
    assert (built[0] / "SHA256SUMS").read_text().count("\n") == len(listed) - 1
    (wheel,) = built[1].glob("*.whl")
    wheel.write_bytes(b"another")
    told = [complaint.partition(" is another one when it is built again")[0] for complaint in release.compare(*built)]
    assert told == ["SHA256SUMS", wheel.name]


def component(name: str, version: str, **others: object) -> dict[str, object]:
    hashes = [{"alg": "SHA-256", "content": "00"}]
    known = {
        "licenses": [{"license": {"id": "MIT"}}],
        "externalReferences": [{"type": "distribution", "hashes": hashes}],
    }
    return {"name": name, "version": version, **known, **others}


@pytest.mark.parametrize(
    ("components", "words"),
    [
        ([component("Some_Thing", "1.2"), component("other", "3")], None),
        ([component("some-thing", "1.2")], "the SBOM and the .deb differ: [('other', '3')]"),
        (
            [component("some-thing", "1.3"), component("other", "3")],
            "differ: [('some-thing', '1.2'), ('some-thing', '1.3')]",
        ),
        ([component("some-thing", "1.2"), component("other", "3", licenses=[])], "names no licence of other"),
        ([component("some-thing", "1.2"), component("other", "3", externalReferences=[])], "has no digest of other"),
    ],
    ids=["right", "missing", "another", "no licence", "no digest"],
)
def test_the_bill_is_that_of_what_the_package_carries(release, tmp_path, components, words) -> None:
    """Each distribution once, of its version, with licence and digest."""
    for name in ("some_thing-1.2", "other-3", "arcacct-9"):
        (tmp_path / f"{name}.dist-info").mkdir()
    bill = {"metadata": {"component": {"name": "arcacct", "version": "9"}}, "components": components}
    found = list(release.wrong_with(bill, tmp_path, "9"))

    assert len(found) == (words is not None)
    assert all(words in complaint for complaint in found)
