"""
What publishing costs: SGAS, CARs to AMS, summaries and sync, ours and ARC's jura-ng in turns, from one database.

The receivers run in a process of their own; what they cost is nobody's.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import peer
from figures import Cost, Figure, cost_of
from generate import generate

SIZES = {"smoke": 300, "small": 10_000, "large": 100_000}

SGAS = "[arex/jura/sgas:bench]\ntargeturl={sgas}\n"
APEL = "[arex/jura/apel:bench]\ntargeturl={ams}\ngocdb_name=BENCH\ntopic=gLite-APEL\napel_messages={messages}\n"
RECORDED = {"SGAS": 5.81 / 10_000, "CAR": 3.38 / 20_000, "summaries": None}
"""CPU seconds a record of jura-ng 6.17 where the facts were measured, shown where the packages are not to be had."""


@contextlib.contextmanager
def receivers(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """
    The sandbox in a process of its own; authn at the port that jura-ng insists on, if it is free.

    ``connections`` is a function: how many there were to any of its servers so far.
    """
    program = (
        "import json, socket, sys\nfrom arcacct.sandbox import Sandbox\n"
        "with socket.socket() as probe: port = 8443 if probe.connect_ex(('127.0.0.1', 8443)) else 0\n"
        "with Sandbox(sys.argv[1], authn_port=port) as box:\n"
        "    print(json.dumps({'sgas': box.sgas_url, 'ams': box.ams_url, 'authn': box.authn_port,"
        " 'cert': box.client.cert_path, 'key': box.client.key_path, 'ca': box.ca_dir}), flush=True)\n"
        "    for _ in sys.stdin: print(sum(server.connections for server in box.servers.values()), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def connections() -> int:
        process.stdin.write("\n")
        return int(process.stdout.readline())

    try:
        yield {**json.loads(process.stdout.readline()), "connections": connections}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


def configure(site: pathlib.Path, box: dict[str, Any], targets: str) -> None:
    """Both conf files: jura-ng reads its targets from arc.conf, we read ours from arcacct.conf."""
    common = (
        f"[common]\nhostname=ce.example.org\nx509_host_key={box['key']}\nx509_host_cert={box['cert']}\n"
        f"x509_cert_dir={box['ca']}\n[arex]\ncontroldir={site}\n[lrms]\nlrms=slurm\n"
    )
    jura = f"[arex/jura]\nx509_host_key={box['key']}\nx509_host_cert={box['cert']}\nx509_cert_dir={box['ca']}\n"
    (site / "arc.conf").write_text(common)
    (site / "jura.conf").write_text(common + jura + targets)
    (site / "arcacct.conf").write_text(targets.replace("gocdb_name", f"authn_port={box['authn']}\ngocdb_name"))


def ours(site: pathlib.Path) -> Cost:
    """One run of `arcacct publish` that sends everything."""
    for file in (site / "accounting" / "arcacct").glob("publishing.db*"):
        file.unlink()
    program = pathlib.Path(sys.executable).with_name("arcacct")
    command = [str(program), "--config", str(site / "arc.conf"), "publish", "--now", "--since", "2026-01-01"]
    return cost_of(command, log=site / "ours.log")


def theirs(site: pathlib.Path, root: pathlib.Path, block: str) -> Cost:
    """One run of jura-ng that sends everything."""
    peer.publish_everything(site, [block])
    return cost_of(peer.jura(root, site / "jura.conf"), env=peer.environment(root), log=site / "jura.log")


def bench(size: str) -> list[Figure]:
    """A row of CPU, one of memory and one of connections for each family."""
    jobs = SIZES[size]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder) / "site"
        here = generate(site, jobs, plain=True)
        shutil.copyfile(here.database, site / "accounting" / "accounting.db")
        root = None if size == "smoke" else peer.arc_root()
        with receivers(pathlib.Path(folder) / "box") as box:
            for name, block, targets in (
                ("SGAS", "arex/jura/sgas:bench", SGAS.format(sgas=box["sgas"])),
                ("CAR", "arex/jura/apel:bench", APEL.format(ams=box["ams"], messages="urs")),
                # A target of its own: what jura-ng has published in part we do not lower.
                (
                    "summaries",
                    "arex/jura/apel:sums",
                    APEL.format(ams=box["ams"], messages="summaries").replace("apel:bench", "apel:sums"),
                ),
            ):
                configure(site, box, targets)
                counted = [box["connections"]()]
                mine = ours(site)
                counted.append(box["connections"]())
                other = theirs(site, root, block) if root else None
                counted.append(box["connections"]())
                figures += rows(name, jobs, mine, other, site)
                figures.append(connected(name, jobs, counted, other))
            figures += side_by_side(site, box, jobs)
    return figures


def side_by_side(site: pathlib.Path, box: dict[str, Any], jobs: int) -> list[Figure]:
    """Two targets in one run, and what two runs cost in the same minute."""
    sgas, cars = SGAS.format(sgas=box["sgas"]), APEL.format(ams=box["ams"], messages="urs")
    costs = []
    for targets in (sgas, cars, sgas + cars):
        configure(site, box, targets)
        costs.append(ours(site))
    first, second, both = costs
    alone = f"in two runs {first.cpu_s + second.cpu_s:.2f} s"
    waited = f"wall time {both.wall_s:.1f} s, in two runs {first.wall_s + second.wall_s:.1f} s"
    note = f"{alone}; {waited}" if both.exit_code == 0 else f"OURS FAILED: {(site / 'ours.log').read_text()[-300:]}"
    what = f"publish {jobs:,} jobs, SGAS and CAR side by side"
    return [
        Figure(f"{what}: CPU", both.cpu_s, "s", None, note),
        Figure(f"{what}: peak memory", both.peak_mib, "MiB"),
    ]


def connected(name: str, jobs: int, counted: list[int], other: Cost | None) -> Figure:
    """How many connections ours made, and theirs; ``counted`` before, between and after."""
    before, between, after = counted
    what = f"publish {jobs:,} jobs, {name}: connections"
    note = "" if between > before else "OURS FAILED: nothing was sent"
    return Figure(what, between - before, "", after - between if other else None, note)


def rows(name: str, jobs: int, mine: Cost, other: Cost | None, site: pathlib.Path) -> list[Figure]:
    """The figures of one family; a run that failed says so instead of being quoted."""
    note = "" if mine.exit_code == 0 else f"OURS FAILED: {(site / 'ours.log').read_text()[-300:]}"
    if other is not None and other.exit_code != 0:
        note += f" jura-ng exit code {other.exit_code}"
    recorded = RECORDED[name]
    peer_cpu = other.cpu_s if other else (recorded or 0) * jobs or None
    if other is None:
        note += " (peer as recorded in the facts)"
    return [
        Figure(f"publish {jobs:,} jobs, {name}: CPU", mine.cpu_s, "s", peer_cpu, note),
        Figure(f"publish {jobs:,} jobs, {name}: peak memory", mine.peak_mib, "MiB", other.peak_mib if other else None),
    ]
