"""
What publishing costs: SGAS, CARs to AMS, summaries and sync, ours and ARC's jura-ng in turns, from one database.

Plain jobs, and jobs with many nodes and transfers; three rounds of each, and who begins alternates.

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
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import peer
from figures import ROUNDS, Cost, Figure, Turns, cost_of, in_turns
from generate import Look, generate

SIZES = {"smoke": 300, "small": 10_000, "large": 50_000}
HEAVY = {"smoke": 30, "small": 2_000, "large": 10_000}

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
        "import json, sys\nfrom arcacct.errors import TargetBusy\nfrom arcacct.sandbox import Sandbox\n"
        # Another benchmark may have it, or take it this moment.
        "try: box = Sandbox(sys.argv[1], authn_port=8443)\n"
        "except TargetBusy: box = Sandbox(sys.argv[1] + '-elsewhere', authn_port=0)\n"
        "with box:\n"
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
    """One run of `arcacct publish` that sends everything, of jobs that were recorded and went nowhere yet."""
    folder, recorded = site / "accounting" / "arcacct", site / "recorded.db"
    if not recorded.exists():
        shutil.copyfile(folder / "accounting.db", recorded)
    for file in (*folder.glob("publishing.db*"), *folder.glob("accounting.db*")):
        file.unlink()
    shutil.copyfile(recorded, folder / "accounting.db")
    program = pathlib.Path(sys.executable).with_name("arcacct")
    command = [str(program), "--config", str(site / "arc.conf"), "publish", "--now", "--since", "2026-01-01"]
    return cost_of(command, log=site / "ours.log")


def theirs(site: pathlib.Path, root: pathlib.Path, block: str) -> Cost:
    """One run of jura-ng that sends everything."""
    peer.publish_everything(site, [block])
    return cost_of(peer.jura(root, site / "jura.conf"), env=peer.environment(root), log=site / "jura.log")


def bench(size: str) -> list[Figure]:
    """A row of CPU, one of memory and one of connections for each family; then of heavy jobs; then two side by side."""
    root = None if size == "smoke" else peer.arc_root()
    rounds = 1 if size == "smoke" else ROUNDS
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with receivers(folder / "box") as box:
            plain = Bench(folder / "plain", SIZES[size], box, root, rounds)
            generate(plain.site, plain.jobs, Look(plain=True))
            heavy = Bench(folder / "heavy", HEAVY[size], box, root, rounds)
            generate(heavy.site, heavy.jobs, Look(plain=True, heavy=True))
            for one, what in ((plain, ""), (heavy, " of 16 nodes and 20 transfers")):
                for target in ("SGAS", "CAR") if one is heavy else ("SGAS", "CAR", "summaries"):
                    figures += one.figures(target, what)
            figures += side_by_side(plain.site, box, plain.jobs)
    return figures


class Bench(NamedTuple):
    """One database, and who publishes from it."""

    site: pathlib.Path
    jobs: int
    box: dict[str, Any]
    root: pathlib.Path | None
    """Where ARC's programs are."""
    rounds: int

    def figures(self, name: str, what: str) -> list[Figure]:
        """Of one family of messages."""
        block, targets = self._target(name)
        shutil.copyfile(self.site / "accounting/arcacct/accounting.db", self.site / "accounting/accounting.db")
        configure(self.site, self.box, targets)
        connections = [[], []]

        def counted(run: Callable[[], Cost], made: list[int]) -> Cost:
            before = self.box["connections"]()
            cost = run()
            made.append(self.box["connections"]() - before)
            return cost

        root = self.root
        other = None if root is None else lambda: counted(lambda: theirs(self.site, root, block), connections[1])
        turns = in_turns(lambda: counted(lambda: ours(self.site), connections[0]), other, self.rounds)
        what = f"publish {self.jobs:,} jobs{what}, {name}"
        note = note_of(turns, connections, self.site / "ours.log")
        cpu = turns.figure(f"{what}: CPU", "s", lambda cost: cost.cpu_s, note)
        if other is None and RECORDED[name]:
            cpu = cpu._replace(peer=RECORDED[name] * self.jobs, note=f"{note} (peer as recorded in the facts)")
        made = [max(one, default=0) for one in connections]
        return [
            cpu,
            turns.figure(f"{what}: peak memory", "MiB", lambda cost: cost.peak_mib),
            Figure(f"{what}: connections", made[0], "", made[1] or None),
        ]

    def _target(self, name: str) -> tuple[str, str]:
        """The name of a target's block for jura-ng, and the block."""
        if name == "SGAS":
            return "arex/jura/sgas:bench", SGAS.format(sgas=self.box["sgas"])
        if name == "CAR":
            return "arex/jura/apel:bench", APEL.format(ams=self.box["ams"], messages="urs")
        # A target of its own: what jura-ng has published in part we do not lower.
        sums = APEL.format(ams=self.box["ams"], messages="summaries")
        return "arex/jura/apel:sums", sums.replace("apel:bench", "apel:sums")


def note_of(turns: Turns, connections: list[list[int]], log: pathlib.Path) -> str:
    """A run that failed, or sent nothing, says so instead of being quoted: by the connections of ours and of theirs."""
    if not all(connections[0]) or any(cost.exit_code for cost in turns.ours):
        return f"OURS FAILED: {log.read_text()[-300:]}"
    failed = [f"jura-ng exit code {cost.exit_code}" for cost in turns.theirs if cost.exit_code][:1]
    return ", ".join([*failed, *([] if all(connections[1]) else ["jura-ng sent nothing"])])


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
