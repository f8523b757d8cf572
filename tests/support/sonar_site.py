"""A host that takes in telemetry: real files, its database, what is in it."""

from __future__ import annotations

import json
import pathlib
import weakref
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from arcacct.config.paths import JobRules, Places
from arcacct.database.access import open_accounting
from arcacct.files.directories import resource
from arcacct.records.rejected import RetryResult
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.sacct import OutputForm
from arcacct.sources.sonar.envelopes import Dropped, Envelope, TelemetryStream
from arcacct.sources.sonar.fields import RejectedObject
from arcacct.sources.sonar.importer import Importer, SonarReport
from arcacct.sources.sonar.jobs import Site

REAL = pathlib.Path(__file__).parents[1] / "data" / "sonar"
REAL_FILES = sorted(path for path in REAL.iterdir() if path.name.startswith("real-") and path.suffix != ".txt")
SERIES = REAL / "real-series-job4242.jsonl"
_LATER = 1_900_000_000
"""After all jobs of tests."""


def places(tmp_path: pathlib.Path) -> Places:
    """Where such a host keeps its accounting."""
    directory = tmp_path / "accounting"
    directory.mkdir(exist_ok=True, mode=0o700)
    return Places(str(tmp_path / "control"), str(directory / "accounting.db"), JobRules("HEPSPEC:1.0"), None)


class Host:
    """A host with a database; each import is a run of its own, as of the command."""

    def __init__(self, tmp_path: pathlib.Path, site: Site | None = None, *, make: bool = False) -> None:
        if make:
            tmp_path.mkdir()
        self.here = places(tmp_path)
        self.site = Site() if site is None else site
        self.con = open_accounting(self.here)
        weakref.finalize(self, self.con.close)
        self.said: list[str] = []

    def take(self, *contents: bytes, site: Site | None = None) -> SonarReport:
        """Import some streams in one run."""
        run = Importer(self.con, self.here, self.site if site is None else site, self.said.append)
        try:
            for content in contents:
                stream = TelemetryStream(details=run.site.details)
                run.take("test", stream, content)
                run.take("test", stream, b"", final=True)
        finally:
            run.finish()
        return run.report

    def sacct(self, content: bytes) -> None:
        """Import what sacct printed."""
        policy = BatchPolicy(BatchSite(), _LATER, 0)
        run = RunsImport(SLURM_SOURCE, self.here, self.con, policy, OutputForm(), self.said.append, lambda: _LATER)
        try:
            run.output("sacct", [content])
        finally:
            run.finish()

    def arc_job(self, local_id: str, job_id: str = "ARC1", *, submit: int = 1795168000, end: int = 1795170600) -> int:
        """A finished job of A-REX's, here by hand; its RecordID."""
        con = self.con
        con.execute("INSERT OR IGNORE INTO Endpoints VALUES (1, 'org.nordugrid.arcrest', 'https://ce')")
        for table in ("Queues", "Users", "WLCGVOs"):
            con.execute(f"INSERT OR IGNORE INTO {table} VALUES (1, 'x')")
        done = con.execute(
            "INSERT INTO AAR VALUES (NULL, ?, ?, 1, 1, 1, 1, 2, 0, ?, ?, 1, 2, 0, 0, ?, 10, 1, 0, 0, 0)",
            (job_id, local_id, submit, end, min(1800, end - submit)),
        )
        return done.lastrowid or 0

    def retry(self) -> RetryResult:
        """Try again what was rejected."""
        return Importer(self.con, self.here, self.site, self.said.append, keeps=False).retry()

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What a query finds."""
        return self.con.execute(sql).fetchall()

    def dicts(self, sql: str) -> list[dict[str, object]]:
        """The same, by column."""
        cursor = self.con.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def everything(self) -> dict[str, list[tuple[object, ...]]]:
        """Every row that telemetry made, in an order that does not depend on when it came."""
        tables = {
            "v1_slurm_jobs": "*",
            "v1_sampled_jobs": "*",
            "v1_job_accelerators": "*",
            "v1_node_usage": "*",
            "v1_cluster_partitions": "*",
            "v1_cluster_nodes": "*",
            "v1_producer_errors": "*",
            "v1_job_telemetry": "*",
            "v1_jobs": "*",
            "v1_node_cards": "cluster, node, valid_from, uuid",
            "v1_nodes": "cluster, node, valid_from, valid_until, cpu_model, topology_text_base64",
        }
        return {name: sorted(self.rows(f"SELECT {what} FROM {name}"), key=repr) for name, what in tables.items()}


def read(chunks: Iterable[bytes]) -> Iterator[Envelope | RejectedObject | Dropped]:
    """Every envelope of a whole stream."""
    stream = TelemetryStream()
    for chunk in chunks:
        yield from stream.feed(chunk)
    yield from stream.feed(b"", final=True)


def objects(path: pathlib.Path) -> list[dict[str, object]]:
    """The JSON objects of a file."""
    text, position, found = path.read_text(), 0, []
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        value, position = json.JSONDecoder().raw_decode(text, position)
        found.append(value)
    return found


def validate(envelope: object, kind: str) -> None:
    """Check an envelope against the JSON Schema of its kind. Raises ValidationError."""
    import jsonschema

    jsonschema.validate(
        envelope, json.loads(pathlib.Path(resource("schema", "sonar", f"{kind}.schema.json")).read_text())
    )


def kind_of(envelope: dict[str, object]) -> str:
    """Which schema an envelope is to follow."""
    data = envelope.get("data")
    assert data is None or isinstance(data, dict)
    return (
        "errors"
        if data is None
        else str(data["type"]).removesuffix("s")
        if data["type"] == "jobs"
        else str(data["type"])
    )


def sample(
    time: int,
    processes: list[dict[str, object]],
    *,
    job: int = 7,
    epoch: int = 0,
    node: str = "n1",
    system: dict[str, object] | None = None,
    cluster: str = "c",
    user: str = "ada",
) -> dict[str, object]:
    """A sample of one job, ``time`` seconds after a full hour."""
    when = datetime.fromtimestamp(1795168800 + time, UTC).isoformat(timespec="seconds")
    entry: dict[str, object] = {"job": job, "user": user, "processes": processes}
    if epoch:
        entry["epoch"] = epoch
    attributes: dict[str, object] = {"time": when, "cluster": cluster, "node": node, "jobs": [entry]}
    if system is not None:
        attributes["system"] = system
    return {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": {"type": "sample", "attributes": attributes}}


def sysinfo_of(**more: object) -> dict[str, object]:
    """What a node is."""
    attributes: dict[str, object] = {
        "time": "2026-11-20T09:00:00+00:00", "cluster": "c", "node": "n1", "os_name": "Linux", "os_release": "6.1",
        "sockets": 1, "cores_per_socket": 4, "threads_per_core": 2, "cpu_model": "AMD EPYC 7763",
        "architecture": "x86_64", "memory": 1024,
    }  # fmt: skip
    data = {"type": "sysinfo", "attributes": attributes | more}
    return {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": data}


def stream(*envelopes: dict[str, object]) -> bytes:
    """Envelopes one a line."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in envelopes)
