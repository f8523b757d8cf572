"""`arcacct import rejected`, `--retry`, and what status and metrics say of it."""

from __future__ import annotations

import json
import pathlib

import pytest
from gridengine_files import ran
from installed import arcacct, configured

from arcacct.wording import count_of


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    """A host that has imported a bad line of Grid Engine and two bad objects of Sonar."""
    conf = configured(tmp_path)
    (tmp_path / "accounting").write_bytes(ran(1, 1, 10, 20) + b"rub\x1b]0;bish\n" + ran(2, 1, 10, 20))
    (tmp_path / "feed.json").write_bytes(b'rubbish\n{"meta":{},"data":{"type":"tea","attributes":{}}}\n')
    for words in (("gridengine", str(tmp_path / "accounting")), ("sonar", str(tmp_path / "feed.json"))):
        assert arcacct("--config", conf, "import", *words).returncode == 65
    return conf


def listed(conf: pathlib.Path, *words: str) -> list[dict[str, object]]:
    """What the command lists."""
    return json.loads(arcacct("--config", conf, "import", "rejected", "--format", "json", *words).stdout)


def test_rejected_records_are_listed_shown_and_dropped(conf, tmp_path) -> None:
    """Each with file, place and reason; shown without steering the terminal; dropped by number, or of a source."""
    found = listed(conf)
    assert [(one["source"], one["file"], one["position"]) for one in found] == [
        ("gridengine", f"{tmp_path}/accounting", "line 2"),
        ("sonar", f"{tmp_path}/feed.json", "object 1"),
        ("sonar", f"{tmp_path}/feed.json", "object 2"),
    ]
    assert found[2]["reason"] == "data of the unknown type 'tea'"
    shown = arcacct("--config", conf, "import", "rejected", "--show", str(found[0]["id"]))
    assert shown.stdout == "rub\\x1b]0;bish\n"

    table = arcacct("--config", conf, "import", "rejected", "--source", "gridengine")
    assert len(table.stdout.splitlines()) == 3
    unknown = arcacct("--config", conf, "import", "rejected", "--drop", "99")
    assert (unknown.returncode, unknown.stdout) == (65, "0 rejected records dropped\n")
    assert "99: no such rejected record" in unknown.stderr
    dropped = arcacct("--config", conf, "import", "rejected", "--drop", str(found[0]["id"]))
    assert dropped.stdout == "1 rejected record dropped\n"
    assert [one["source"] for one in listed(conf)] == ["sonar", "sonar"]
    arcacct("--config", conf, "import", "rejected", "--drop-all", "--source", "sonar", "--yes")
    assert arcacct("--config", conf, "import", "rejected").stderr == "no record is rejected\n"


def test_questions_that_mean_nothing(conf) -> None:
    """No such record; two things at once; nothing to import."""
    assert arcacct("--config", conf, "import", "rejected", "--show", "999").returncode == 65
    assert arcacct("--config", conf, "import", "rejected", "--show", "1", "--drop", "1").returncode == 64
    assert arcacct("--config", conf, "import", "sonar").returncode == 64
    unasked = arcacct("--config", conf, "import", "rejected", "--drop-all")
    assert (unasked.returncode, "pass --yes" in unasked.stderr) == (64, True)
    assert len(listed(conf)) == 3


@pytest.mark.parametrize(("source", "tried", "code"), [("gridengine", 1, 0), ("sonar", 2, 0), ("arex", 0, 0)])
def test_a_retry_is_asked_of_each_source(conf, source, tried, code) -> None:
    """What is still bad stays; another source's is not touched."""
    done = arcacct("--config", conf, "import", source, "--retry")

    assert done.returncode == code
    assert done.stdout.splitlines()[0] == f"{count_of(tried, 'rejected record')} tried again: 0 now usable"
    assert len(listed(conf)) == 3


def test_status_and_metrics_count_them(conf, tmp_path) -> None:
    """One line of status, a warning, and numbers by source; dropped values are a counter by field."""
    (tmp_path / "more.json").write_bytes(
        b'{"meta":{},"data":{"type":"job","attributes":{"time":"2026-11-20T10:00:00Z","cluster":"c","slurm_jobs":'
        b'[{"job_id":1,"job_state":"PENDING","priority":"high","nodes":["n[1-999999999]"]}]}}}\n'
    )
    assert arcacct("--config", conf, "import", "sonar", str(tmp_path / "more.json")).returncode == 0
    checks = json.loads(arcacct("--config", conf, "status", "--format", "json").stdout)
    [check] = [one for one in checks if one["subject"] == "imports"]
    assert check["severity"] == 1
    assert check["text"].startswith("1 of gridengine, 2 of sonar could not be used, the oldest ")
    assert check["text"].endswith("run `arcacct import gridengine --retry` and `arcacct import sonar --retry`")
    metrics = arcacct("--config", conf, "metrics").stdout.splitlines()
    assert 'arcacct_import_rejected_records{source="sonar"} 2.0' in metrics
    assert 'arcacct_sonar_dropped_values_total{field="priority"} 1.0' in metrics
    assert 'arcacct_sonar_dropped_values_total{field="nodes"} 1.0' in metrics
    assert "# TYPE arcacct_sonar_dropped_values_total counter" in metrics

    arcacct("--config", conf, "import", "rejected", "--drop-all", "--yes")
    assert "imports" not in arcacct("--config", conf, "status").stdout
