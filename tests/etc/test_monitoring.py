"""etc/: the alert rules, the dashboard and the units are about what the program really does."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
from typing import Any

import pytest

from arcacct.cli.metrics import METRICS

LABELS = {name: labels for name, _text, labels in METRICS}

ETC = pathlib.Path(__file__).parents[2] / "etc"
RULES = ETC / "arcacct.rules.yaml"
DASHBOARD: dict[str, Any] = json.loads((ETC / "arcacct-dashboard.json").read_text(encoding="utf-8"))
ALERTS = re.findall(r"(?m)^ +- alert: (\w+)$", RULES.read_text(encoding="utf-8"))
RULE_EXPRESSIONS = [text.replace("''", "'") for text in re.findall(r"(?m)^ +expr: '(.*)'$", RULES.read_text("utf-8"))]
PANEL_EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
SET_BY_PROMETHEUS = {"instance", "job"}


@pytest.fixture(scope="module")
def promtool() -> str:
    """Of Debian's package prometheus; where ARCACCT_PROMTOOL says that it is there, it must be."""
    found = os.environ.get("ARCACCT_PROMTOOL") or shutil.which("promtool")
    if found is None:
        pytest.skip("there is no promtool here (Debian: in the package prometheus)")
    return found


def told(promtool: str, *arguments: object) -> str:
    """What promtool says; it must be content."""
    command = [promtool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("expression", sorted({*RULE_EXPRESSIONS, *PANEL_EXPRESSIONS}))
def test_expressions_name_what_is_written(expression: str) -> None:
    """Each metric is one of ours, with the labels that it has: a rule about any other would be silent permanently."""
    names = re.findall(r"(arcacct_\w+)(?:\{([^}]*)\})?", expression)
    assert names
    for name, matchers in names:
        assert name in LABELS
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers))
        assert used <= {*LABELS[name], *SET_BY_PROMETHEUS}, name
    labels = {label for one, _ in names for label in LABELS[one]} | SET_BY_PROMETHEUS
    for listed in re.findall(r"(?:by|on|ignoring|without) \(([^)]*)\)", expression):
        assert {label.strip() for label in listed.split(",")} <= labels


def test_flags_are_alerted_on() -> None:
    """What says that other figures are absent is a rule of its own, and so is the age of the file."""
    text = " ".join(RULE_EXPRESSIONS)
    for name in ("arcacct_config_ok == 0", "arcacct_database_ok == 0", "time() - arcacct_metrics_written"):
        assert name in text
    assert len(ALERTS) == len({*ALERTS}) == len(RULE_EXPRESSIONS)


def test_the_dashboard_is_one() -> None:
    """Panels have numbers of their own, do not lie over each other, and legends name labels that there are."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len({*cells})
    assert max(x for x, _y in cells) == 23
    for panel in panels:
        assert panel["title"]
        for target in panel["targets"]:
            (name, *_) = re.findall(r"arcacct_\w+", target["expr"])
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= {*LABELS[name], *SET_BY_PROMETHEUS}


def test_promtool_understands_every_expression(promtool, tmp_path) -> None:
    """Rules with their templates, and what the dashboard asks."""
    assert f"SUCCESS: {len(ALERTS)} rules found" in told(promtool, "check", "rules", RULES)
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(PANEL_EXPRESSIONS)]
    # JSON is YAML.
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in told(promtool, "check", "rules", tmp_path / "panels.yaml")


STEPS = 120
"""Of two hours: ten days, in which each rule has the time to come true and to be believed."""
NOW, STOPPED = f"0+7200x{STEPS}", f"0x{STEPS}"
"""A time that is always the present one (Prometheus' tests begin at 1970); and the beginning."""
AHEAD, SOON = f"4000+7200x{STEPS}", f"90000+7200x{STEPS}"
ON, OFF = f"1x{STEPS}", f"0x{STEPS}"
WELL = {
    "arcacct_build_info{version='1',python='3'}": ON,
    "arcacct_metrics_written_timestamp_seconds": NOW,
    "arcacct_config_ok": ON,
    "arcacct_database_ok": ON,
    "arcacct_check{subject='database'}": OFF,
    "arcacct_ended_jobs{told_by='callout'}": f"7x{STEPS}",
    "arcacct_ended_jobs{told_by='sweep'}": f"1x{STEPS}",
    "arcacct_last_event_timestamp_seconds": NOW,
    "arcacct_last_sweep_timestamp_seconds": NOW,
    "arcacct_launcher_spool_files{launcher='/l'}": OFF,
    "arcacct_target_last_success_timestamp_seconds{target='sgas:s'}": NOW,
    "arcacct_target_waiting_records{target='sgas:s'}": f"3x{STEPS}",
    "arcacct_target_oldest_waiting_timestamp_seconds{target='sgas:s'}": NOW,
    "arcacct_target_held_months{target='sgas:s'}": OFF,
    "arcacct_target_held_records{target='sgas:s',state='quarantined'}": f"5x{STEPS}",
    "arcacct_targets": ON,
    "arcacct_publishes": ON,
    "arcacct_last_care_timestamp_seconds{kind='backup'}": NOW,
    "arcacct_last_care_timestamp_seconds{kind='snapshot'}": NOW,
    "arcacct_check_found_damage": OFF,
    "arcacct_database_free_bytes": f"{10**10}x{STEPS}",
    "arcacct_certificate_not_after_timestamp_seconds{file='/c'}": f"9000000+7200x{STEPS}",
}
TROUBLE: dict[str, dict[str, str | None]] = {
    "ArcacctMetricsStale": {"arcacct_metrics_written_timestamp_seconds": STOPPED},
    "ArcacctMetricsGone": {name: f"1x{STEPS - 9}" for name in WELL if "build_info" in name},
    "ArcacctConfigBroken": {
        **dict.fromkeys((name for name in WELL if not re.match("arcacct_(build|metrics|check{)", name)), None),
        "arcacct_config_ok": OFF,
        "arcacct_database_ok": OFF,
    },
    "ArcacctDatabaseUnreadable": {"arcacct_database_ok": OFF},
    "ArcacctCritical": {"arcacct_check{subject='database'}": f"2x{STEPS}"},
    "ArcacctWarning": {"arcacct_check{subject='jura'}": ON},
    "ArcacctCalloutsNotCalled": {"arcacct_ended_jobs{told_by='callout'}": OFF},
    "ArcacctSweepDead": {"arcacct_last_sweep_timestamp_seconds": STOPPED},
    "ArcacctSpoolNotDrained": {"arcacct_spool_oldest_timestamp_seconds": STOPPED},
    "ArcacctLauncherSpool": {"arcacct_launcher_spool_files{launcher='/l'}": ON},
    "ArcacctNotPublished": {"arcacct_target_last_success_timestamp_seconds{target='sgas:s'}": STOPPED},
    "ArcacctRecordsWait": {"arcacct_target_oldest_waiting_timestamp_seconds{target='sgas:s'}": STOPPED},
    "ArcacctMonthHeld": {"arcacct_target_held_months{target='sgas:s'}": ON},
    "ArcacctQuarantineGrows": {"arcacct_target_held_records{target='sgas:s',state='quarantined'}": f"0+1x{STEPS}"},
    "ArcacctNoTarget": {"arcacct_targets": OFF},
    "ArcacctClock": {"arcacct_last_sweep_timestamp_seconds": AHEAD},
    "ArcacctNoBackup": {"arcacct_last_care_timestamp_seconds{kind='backup'}": STOPPED},
    "ArcacctSnapshotOld": {"arcacct_last_care_timestamp_seconds{kind='snapshot'}": STOPPED},
    "ArcacctDamage": {"arcacct_check_found_damage": ON},
    "ArcacctDiskFull": {"arcacct_database_free_bytes": f"1000000x{STEPS}"},
    "ArcacctCertificateEnds": {"arcacct_certificate_not_after_timestamp_seconds{file='/c'}": SOON},
}
QUIET: dict[str, dict[str, str | None]] = {
    "well": {},
    "a host that only records": {"arcacct_targets": OFF, "arcacct_publishes": OFF},
    "a host without readers": {"arcacct_last_care_timestamp_seconds{kind='snapshot'}": None},
    "no job ended": {"arcacct_ended_jobs{told_by='callout'}": OFF, "arcacct_ended_jobs{told_by='sweep'}": OFF},
}


def test_each_alert_fires_and_no_other(promtool, tmp_path) -> None:
    """Each trouble has its alert and only that; when all is well, or by intention so, there is none."""
    assert set(TROUBLE) == set(ALERTS)
    cases = [*(({}, what) for what in QUIET.values()), *(({alert}, what) for alert, what in TROUBLE.items())]
    tests = [_case({*fired}, what) for fired, what in cases]
    rules = {"rule_files": [str(RULES)], "evaluation_interval": "2h", "tests": tests}
    (tmp_path / "tests.yaml").write_text(json.dumps(rules))

    told(promtool, "test", "rules", tmp_path / "tests.yaml")

    # It is a test: an alert that is expected and does not fire is told.
    rules["tests"] = [_case({"ArcacctDamage"}, {})]
    (tmp_path / "tests.yaml").write_text(json.dumps(rules))
    done = subprocess.run([promtool, "test", "rules", tmp_path / "tests.yaml"], capture_output=True, check=False)
    assert done.returncode != 0


def _case(fired: set[str], trouble: dict[str, str | None]) -> dict[str, object]:
    series = {name: values for name, values in {**WELL, **trouble}.items() if values is not None}
    return {
        "interval": "2h",
        "input_series": [{"series": _at_host(name), "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{STEPS * 2}h",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(fired)],
            }
        ],
    }


def _at_host(series: str) -> str:
    name, _brace, labels = series.replace("'", '"').rstrip("}").partition("{")
    return f'{name}{{instance="ce"{"," if labels else ""}{labels}}}'


def test_the_prune_unit_asks_for_a_date() -> None:
    """What systemd takes out of the line are its own signs; the shell runs `date`, and what is left is a time."""
    text = (ETC / "systemd" / "arcacct-prune.service").read_text(encoding="ascii")
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", text)
    shell, flag, script = shlex.split(line.replace("$$", "$").replace("%%", "%"))
    assert (shell, flag) == ("/bin/sh", "-c")

    echoed = script.replace("exec /opt/arcacct/bin/arcacct", "echo")
    said = subprocess.run([shell, flag, echoed], capture_output=True, text=True, check=True).stdout

    assert re.fullmatch(r"db prune --yes --before \d{4}-\d\d-01\n", said)
