"""One fully described job, the jobs of the real A-REX, the schemas, and the golden files."""

from __future__ import annotations

import os
import pathlib
import sqlite3
from collections.abc import Callable
from urllib.parse import unquote

import pytest
import stored_jobs
from lxml import etree

from arcacct.records.model import AAR, Transfer, UsageCell

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"
AREX = HERE.parent / "data" / "arex"


@pytest.fixture
def job() -> AAR:
    """The job of the recommended sample documents: every attribute is known."""
    return stored_jobs.aar()


@pytest.fixture
def bare_job() -> AAR:
    """A local job that failed before it ran: only what is never unknown."""
    return stored_jobs.bare_aar()


@pytest.fixture
def cell() -> UsageCell:
    """One month of one user."""
    return stored_jobs.cell()


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """
    Compare a text with a file below tests/golden.

    ``ARCACCT_WRITE_GOLDEN=1 pytest tests/records`` writes the files again; read the difference before committing it.
    """

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("ARCACCT_WRITE_GOLDEN"):
            path.write_bytes(text.encode("utf-8"))
        assert text == path.read_bytes().decode("utf-8")

    return compare


def _schema(path: pathlib.Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(path)))


@pytest.fixture(scope="session")
def car_schema(test_data: pathlib.Path) -> etree.XMLSchema:
    """The schema of EMI CAR 1.2, as published."""
    return _schema(test_data / "xsd" / "car_v1.2.xsd")


@pytest.fixture(scope="session")
def ur_schema(test_data: pathlib.Path) -> etree.XMLSchema:
    """The schema of GFD.98 with room for foreign elements at the two ends where we write them."""
    return _schema(test_data / "xsd" / "gfd98_urf_relaxed_extensions.xsd")


@pytest.fixture(scope="session")
def arex_jobs() -> list[AAR]:
    """The jobs that a real A-REX recorded; the one without an end is left out, as A-REX never finished it."""
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.executescript((AREX / "accounting.sql").read_text(encoding="utf-8"))
    rows = database.execute(
        """
        SELECT AAR.*, Endpoints.URL, Endpoints.Interface, Queues.Name AS Queue, Users.Name AS User,
               WLCGVOs.Name AS VO, Status.Name AS Status
          FROM AAR
          JOIN Endpoints ON Endpoints.ID = EndpointID
          JOIN Queues ON Queues.ID = QueueID
          JOIN Users ON Users.ID = UserID
          JOIN WLCGVOs ON WLCGVOs.ID = VOID
          JOIN Status ON Status.ID = StatusID
         WHERE EndTime > 0
         ORDER BY RecordID
        """
    ).fetchall()
    jobs = [_arex_job(database, row) for row in rows]
    database.close()
    return jobs


def _arex_job(database: sqlite3.Connection, row: sqlite3.Row) -> AAR:
    number = (row["RecordID"],)
    extra = dict(database.execute("SELECT InfoKey, InfoValue FROM JobExtraInfo WHERE RecordID = ?", number).fetchall())
    extra = {key: unquote(value) for key, value in extra.items()}
    fqans = database.execute(
        "SELECT AttrValue FROM AuthTokenAttributes WHERE RecordID = ? ORDER BY AttrKey = 'vomsfqan'", number
    )
    environments = database.execute("SELECT DISTINCT RTEName FROM RunTimeEnvironments WHERE RecordID = ?", number)
    transfers = database.execute(
        "SELECT DISTINCT URL, FileSize, TransferStart, TransferEnd, TransferType FROM DataTransfers WHERE RecordID = ?",
        number,
    )
    kinds = {10: "input", 11: "cached_input", 20: "output"}
    return AAR(
        record_id=row["RecordID"],
        job_id=row["JobID"],
        local_job_id=row["LocalJobID"] or None,
        endpoint_type=row["Interface"] or None,
        endpoint_url=row["URL"] or None,
        queue=unquote(row["Queue"]) or None,
        user_dn=unquote(row["User"]) or None,
        vo=row["VO"] or None,
        status=row["Status"],
        exit_code=row["ExitCode"],
        submit_time=row["SubmitTime"],
        end_time=row["EndTime"],
        node_count=row["NodeCount"],
        core_count=row["CPUCount"],
        memory_kib=row["UsedMemory"],
        virtual_memory_kib=row["UsedVirtMem"],
        wall_s=row["UsedWalltime"],
        cpu_user_s=row["UsedCPUUserTime"],
        cpu_kernel_s=row["UsedCPUKernelTime"],
        scratch_bytes=row["UsedScratch"],
        stage_in_bytes=row["StageInVolume"],
        stage_out_bytes=row["StageOutVolume"],
        fqans=tuple(value for (value,) in fqans),
        job_name=extra.get("jobname"),
        lrms=extra.get("lrms"),
        node_names=tuple(extra["nodenames"].split(":")) if "nodenames" in extra else (),
        client_host=extra.get("clienthost"),
        local_user=extra.get("localuser"),
        project=extra.get("projectname"),
        system_software=extra.get("systemsoftware"),
        wn_instance=extra.get("wninstance"),
        benchmark=extra.get("benchmark"),
        run_time_environments=tuple(name for (name,) in environments),
        transfers=tuple(
            Transfer(unquote(url), size, start, end, kinds[kind]) for url, size, start, end, kind in transfers
        ),
    )
