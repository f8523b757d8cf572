"""The way of an event, and of a record to its receiver: which modules of the package they pass."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from types import FrameType
from typing import Any

import pytest
from job_files import NOON_NS, Files, lay
from publishing_site import Site, jobs
from recording_host import Host, host

import arcacct
from arcacct.arex.sweep import drain
from arcacct.database.access import open_accounting
from arcacct.sandbox import Sandbox

__all__ = ["host"]

FOLDER = "/arcacct/"
EVENT = {
    "arex/control_files", "arex/input_limits", "arex/job_facts", "arex/own_database", "arex/reconcile", "arex/spool",
    "arex/spool_replay", "arex/sweep", "arex/sweep_context", "config/paths", "database/access", "database/connection",
    "database/location", "files/safe_open", "records/recorder", "records/states", "records/texts",
}  # fmt: skip
"""What an event of the launcher passes: another module is a decision."""


def modules(files: set[str]) -> set[str]:
    """Names below the package, without the receivers of the rehearsal."""
    names = {name_of(file) for file in files if FOLDER in file}
    here = pathlib.Path(arcacct.__file__).parent
    return {name for name in names if not name.startswith("sandbox/") and (here / f"{name}.py").exists()}


def name_of(file: str) -> str:
    """The module of a file, whether it is that of the checkout or of the installed package."""
    return file.rpartition(FOLDER)[2].removesuffix(".py")


def test_an_event_passes_few_modules(host: Host) -> None:
    """From the spool to the rows, as the recorder does it between its sweeps: another module is a decision."""
    lay(host.control, Files("FINISHED", NOON_NS))
    host.call("FINISHED")
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            passed.add(frame.f_code.co_filename)

    with closing(open_accounting(host.places)) as con:
        complaints: list[str] = []
        sys.setprofile(note)
        try:
            drained = drain(host.places, con, complaints)
        finally:
            sys.setprofile(None)

    assert (drained, complaints) == (1, [])
    assert modules(passed) <= EVENT, sorted(modules(passed) - EVENT)
    assert {"arex/spool", "records/recorder"} <= modules(passed)


LIGHT = {
    "record": (185, {"arcacct.arex.sweep", "arcacct.records.imports", "arcacct.records.rejected"}),
    "export": (240, {"concurrent.futures", "tempfile", "pyarrow"}),
    "config": (180, {"arcacct.health.doctor", "arcacct.publishing", "cryptography", "psutil"}),
    "sandbox": (360, {"arcacct.arex.sweep", "arcacct.publishing.run"}),
    "publish": (225, {"arcacct.records.imports", "arcacct.records.rejected", "requests", "psutil", "hmac"}),
    "stats": (245, {"arcacct.publishing.selection", "psutil", "tempfile"}),
}
"""Of each command: how many modules its help loads at most, and some that it does not need."""


@pytest.mark.parametrize("command", LIGHT)
def test_a_command_loads_few_modules(command: str) -> None:
    """Each import costs every run of a command its time, also where there is nothing to do."""
    most, needless = LIGHT[command]
    code = (
        "import sys\nfrom arcacct.cli.main import arcacct\n"
        f"arcacct.main([{command!r}, '--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stderr.split()}

    assert not {one for one in loaded if any(one == name or one.startswith(f"{name}.") for name in needless)}
    assert len(loaded) <= most


RECORD = {
    "config/options", "http_client", "publishing/batches", "publishing/delivery", "publishing/ledger",
    "publishing/ledger_rows", "publishing/records", "publishing/safeguard", "publishing/sent", "records/model",
    "records/reader", "records/texts", "targets/common", "targets/parts", "targets/sgas/acceptance",
    "targets/sgas/target", "targets/sgas/usage_record",
}  # fmt: skip
"""What a record to SGAS passes: another module is a decision, and twenty are the most."""


@pytest.fixture
def box(tmp_path: pathlib.Path) -> Any:
    """Receivers on this machine."""
    with Sandbox(str(tmp_path / "box")) as running:
        yield running


def test_a_record_passes_few_modules(tmp_path: pathlib.Path, box: Sandbox) -> None:
    """From the page of new records to the answer in the ledger: modules that do more where there are more records."""
    site = Site(tmp_path, box)
    site.send(*jobs(3))
    site.record(*jobs(2, first=3))
    few = calls(site)
    site.record(*jobs(42, first=5))
    many = calls(site)

    passed = {name for name, count in many.items() if count > few[name]}
    assert passed <= RECORD, sorted(passed - RECORD)
    assert {"records/reader", "publishing/ledger_rows", "targets/sgas/usage_record"} <= passed


def calls(site: Site) -> Counter[str]:
    """How many functions of each module a run of publish calls."""
    counted: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            counted[frame.f_code.co_filename] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        done = site.publish()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.error is None
    known = modules(set(counted))
    return Counter({name: count for file, count in counted.items() if (name := name_of(file)) in known})
