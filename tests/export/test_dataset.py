"""The layout of a dataset, its manifests and its columns: what every reader builds on."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from contextlib import closing

import pytest

from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.errors import InputError
from arcacct.export.dataset import (
    TABLES,
    Manifest,
    Part,
    Partition,
    columns,
    is_part_name,
    key_name,
    names_in,
    parse,
    part_name,
    partition_of,
    with_digest,
)

DIGEST = "0123456789abcdef" * 4
MONTH = Partition("SITE-1", 2024, 12, "ce.example.org")
PATH = "manifests/v1/site=SITE-1/year=2024/month=12/ce=ce.example.org.json"


def manifest() -> Manifest:
    """One with a job at each end of its month."""
    begin, end = MONTH.bounds
    part = Part(part_name(DIGEST), 2, begin, end - 1, DIGEST, 99)
    nothing = part._replace(rows=0, end_min_s=None, end_max_s=None)
    tables = {table: part if table == "jobs" else nothing for table in TABLES}
    return Manifest(MONTH, 18, "life", 7, "hashed", 1_700_000_000, tables, {"jobs": 2})


def test_paths_lead_back_to_their_partition() -> None:
    """A manifest's path is its partition, and no other file is a manifest."""
    assert MONTH.manifest == PATH
    assert partition_of(PATH) == MONTH
    assert MONTH.folder("jobs") == "jobs/v1/site=SITE-1/year=2024/month=12/ce=ce.example.org"
    assert MONTH.bounds == (1_733_011_200, 1_735_689_600)
    assert Partition("SITE-1", 9999, 12, "ce").bounds == (253_399_622_400, 253_402_300_800)
    others = (PATH + "~", PATH.replace("12", "13"), PATH.replace("v1", "v2"), "x/" + PATH, PATH.replace("SITE-1", ".."))
    assert [partition_of(other) for other in others] == [None] * 5
    assert not is_part_name(f"../{part_name(DIGEST)}")


def test_a_manifest_comes_back() -> None:
    """What is written is what is read."""
    assert parse(manifest().to_json(), MONTH, PATH) == manifest()


def test_a_changed_bit_of_a_manifest_never_changes_what_it_says() -> None:
    """Its own digest shows it, wherever it is; a manifest of an older version has none and says what it said."""
    data = manifest().to_json()
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            found = parse(bytes(changed), MONTH, PATH)
        except InputError:
            continue
        # Blanks between the values, or the name of the digest.
        assert found._replace(has_digest=True) == manifest()
    older = {name: value for name, value in json.loads(data).items() if name != "sha256"}
    assert parse(json.dumps(older).encode(), MONTH, PATH) == manifest()._replace(has_digest=False)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_other_programs_can_check_the_digest_of_a_manifest() -> None:
    """As the manual says."""
    data = manifest().to_json()
    rest = subprocess.run(["jq", "-cSj", "del(.sha256)"], input=data, capture_output=True, check=True).stdout
    assert hashlib.sha256(rest).hexdigest() == json.loads(data)["sha256"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"dataset_version": 2}, "version 2 of the dataset", id="version"),
        pytest.param(
            {"ce": "other.example.org"}, "it says that it is for SITE-1, 2024, 12, other.example.org", id="another CE"
        ),
        pytest.param({"names": "guessed"}, "guessed", id="names"),
        pytest.param({"tables": {}}, "jobs", id="no tables"),
        pytest.param({"life": None, "schema": "x"}, "damaged", id="schema"),
        pytest.param({"part": {"file": "../../../etc/passwd"}}, "passwd", id="a file elsewhere"),
        pytest.param({"part": {"sha256": "0" * 64}}, "digest", id="digest"),
        pytest.param({"part": {"end_max_s": 1_735_689_600}}, "outside of the month", id="end"),
        pytest.param({"part": {"rows": -1}}, "rows: -1", id="rows"),
        pytest.param({"part": {"rows": 0}}, "impossible", id="ends without rows"),
        pytest.param({"part": {"rows": 10**18}}, "rows: 1000000000000000000", id="more rows than there can be"),
        pytest.param({"part": {"bytes": 2**62}}, "bytes: 4611686018427387904", id="more bytes than there can be"),
        pytest.param({"part": {"bytes": 0}}, "impossible", id="bytes"),
        pytest.param({"part": {"bytes": True}}, "bytes: True", id="no number"),
        pytest.param({"part": {"rows": 1e3}}, "rows: 1000.0", id="no integer"),
        pytest.param({"part": {"rows": "9" * 4000}}, f"rows: {'9' * 50})", id="a long text"),
        pytest.param({"part": {"sha256": ["0" * 64]}}, "sha256: neither", id="a list"),
        pytest.param({"part": {"end_min_s": 5.0}}, "end_min_s: 5.0", id="no time"),
        pytest.param({"written_s": 2**40}, "written_s", id="a time that no clock has"),
        pytest.param({"finished_log_seq": -1}, "finished_log_seq: -1", id="position"),
        pytest.param({"life": "x" * 10**5}, "life: xxx", id="a long life"),
        pytest.param({"names": ["plain"]}, "names: neither", id="a list of names"),
        pytest.param({"seen": {str(number): 1 for number in range(1000)}}, "1000 counts", id="counts"),
        pytest.param({"seen": {"jobs": "7"}}, "jobs: 7", id="a count that is a text"),
        pytest.param({"dataset_version": [1]}, "not a manifest of a dataset", id="no version"),
    ],
)
def test_a_manifest_that_cannot_be_is_named(change, message) -> None:
    """With its path, and what to do."""
    whole = json.loads(manifest().to_json())
    whole["tables"]["jobs"] |= change.pop("part", {})

    with pytest.raises(InputError, match=re.escape(message)) as error:
        parse(with_digest(whole | change), MONTH, PATH)
    assert str(error.value).startswith(PATH)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"[" * 200_000, id="lists"),
        pytest.param(b'{"a":' * 50_000, id="objects"),
        pytest.param(b'{"dataset_version": 1, "seen": ' + b"[" * 500 + b"]" * 500 + b"}", id="whole"),
        pytest.param(b'{"dataset_version": ' + b"9" * 5000 + b"}", id="digits"),
        pytest.param(b'{"dataset_version": NaN}', id="no number"),
        pytest.param(b"\xff\xfe{}", id="no UTF-8"),
    ],
)
def test_a_manifest_of_others_is_read_in_one_pass(data) -> None:
    """However deep its JSON is, it is damaged and nothing else."""
    with pytest.raises(InputError, match="writes the month again"):
        parse(data, MONTH, PATH)


def test_only_names_of_the_layout_count() -> None:
    """In each folder only folders, or only files, that the layout can have; below a file there is nothing."""
    folder = MONTH.folder("jobs")
    for path, is_file in ((f"{folder}/{part_name(DIGEST)}", True), (folder, False), (PATH, True), ("jobs/v1", False)):
        parent, _, name = path.rpartition("/")
        pattern, are_files = names_in(parent) or (re.compile(""), None)
        assert (pattern.fullmatch(name) is not None, are_files) == (True, is_file)
        assert pattern.fullmatch(f"{name}~") is None
    assert [names_in(other) for other in ("", "others", f"{PATH}", f"{folder}/{part_name(DIGEST)}")] == [None] * 4


@pytest.mark.parametrize("data", [b"", b"\0" * 50, b"[]", b"{}", manifest().to_json()[:-9]])
def test_half_a_manifest_is_none(data) -> None:
    """What a power cut leaves is named as what it is."""
    with pytest.raises(InputError, match="writes the month again"):
        parse(data, MONTH, PATH)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "a=b", "é", "x" * 300])
def test_names_that_are_no_directories_are_refused(name) -> None:
    """A key of the partition must mean the same to every engine and file system."""
    with pytest.raises(InputError, match="--site"):
        key_name(name, "--site")
    assert key_name("NO-NORGRID_1.x", "--site") == "NO-NORGRID_1.x"


def test_columns_are_those_of_the_views() -> None:
    """
    Same names in the same order, without the texts of times and, next to jobs, without the job's long name.

    Jobs that are held are not in a dataset, and of the others it has what counts: it has no word of holds.
    """
    views = {
        "jobs": "v1_jobs",
        "events": "v1_job_events",
        "transfers": "v1_transfers",
        "attributes": "v1_job_attributes",
    }
    with closing(in_memory(ACCOUNTING)) as con:
        for table, view in views.items():
            names = [name for _cid, name, *_rest in con.execute(f"PRAGMA table_info({view})")]
            names = [name for name in names if not name.endswith("_iso") and (table == "jobs" or name != "job_id")]
            names = [name for name in names if not name.startswith("hold_")]

            assert [column.name for column in columns()[table]] == ["record_id", *names]
    assert {column.unit for table in TABLES for column in columns()[table] if column.name.endswith("_s")} == {"s"}
