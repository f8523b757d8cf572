"""
Records of PBS by the grammar of each writer, with hostile texts wherever a user can set one.

Each value is right, or the record is rejected. So are the core seconds of runs whose nodes OpenPBS releases early.
"""

from __future__ import annotations

import functools
import json
import pathlib
import random

from batch_files import BEGIN

from arcacct.records.rejected import Fault
from arcacct.sources.engine.batch_runs import BatchRun, LogForm
from arcacct.sources.pbs.importer import SOURCE

_WRITERS = ("openpbs", "torque", "torque with account at the end", "torque with early Exit_status", "sorted")
_TIMES = " ctime=5 qtime=5 etime=5 start=6"
_END = " session=7 total_execution_slots=99 unique_node_count=9 end=8 Exit_status=3"
_PIECES = (
    *("a", "b", " ", " ", '"', "'", "=", "\u00e9", "\u2028", "\t", '" ', ' "', "' "),
    *(" user=eve", " group=vip", " account=gold", ' account="gold"', " project=gold", '" project=gold', " jobname=z"),
    *('" user=eve group=vip', '" jobname=z', ' accounting_id="9"', '" accounting_id="9"', " queue=vip", " x=1"),
    *(" resvname=r", " resvID=R9.srv", " ctime=5", " start=6", _TIMES, f" queue=vip{_TIMES}", " owner=eve@h"),
    *(f" queue=vip{_TIMES} exec_host=n9/0", " exec_host=n9/0*99", " exec_vnode=(n9:ncpus=99)", " end=8", _END),
    *(" end=8 Exit_status=3", " Exit_status=3", " session=7", " total_execution_slots=99", " run_count=9"),
    *(" resources_used.walltime=00:00:01", " resources_used.cput=1", " resources_used.ncpus=99"),
    *(" Resource_List.ncpus=99", " Resource_List.ngpus=99", " Resource_List.nodes=9:ppn=9:gpus=9", "Resource_List.a="),
)


def _text(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return chance.choice(("sim", "my sim"))
    return chance.choice(("a", "")) + "".join(chance.choice(_PIECES) for _ in range(chance.randint(1, 5)))


def _quoted(text: str) -> str:
    """What OpenPBS writes for a value of Resource_List."""
    mark = "" if " " not in text else "'" if '"' in text else '"'
    return f"{mark}{text}{mark}"


def _keys(chance: random.Random, writer: str) -> tuple[list[str], dict[str, object]]:
    """The keys of a record in their order, and the right values."""
    is_pbs = writer == "openpbs"
    cores, wall, wait = chance.randint(1, 8), chance.randint(1, 9000), chance.randint(0, 99)
    start, end = BEGIN + wait, BEGIN + wait + wall
    gpus = chance.choice((None, 2))
    name, account, project = _text(chance), chance.choice((_text(chance), "")), _text(chance) if is_pbs else ""
    is_last = writer.endswith("end")
    account = account.rstrip(" ") if is_last else account
    others = [f"Resource_List.software={_quoted(_text(chance))}"] if is_pbs else [f"x={_text(chance)}"]
    if is_pbs and chance.random() < 0.5:
        others.insert(0, f"Resource_List.app={_quoted(_text(chance))}")
    request = (
        [f"Resource_List.ncpus={cores}", *((f"Resource_List.ngpus={gpus}",) if gpus else ()), "Resource_List.nodect=1"]
        if is_pbs
        else ["Resource_List.neednodes=1", f"Resource_List.nodes=1:ppn={cores}" + (f":gpus={gpus}" if gpus else "")]
    )
    place = chance.randint(0, len(request)) if is_pbs else len(request)
    head = [f'gridname="{_text(chance)}"'] if is_pbs and chance.random() < 0.2 else []
    head += ["user=ada", f"group={chance.choice(('phys', 'domain users'))}"]
    if account and not is_last:
        head.append(f'account="{account}"' if is_pbs else f"account={account}")
    if is_pbs:
        mark = '"' if " " in project else ""
        head.append(f"project={mark}{project}{mark}")
        head += ['accounting_id="0x1f"'] if chance.random() < 0.2 else []
    head += [f"jobname={name}", "queue=workq"]
    if is_pbs and chance.random() < 0.3:
        head += [f"resvname={_text(chance)}", "resvID=R7.srv"]
    times = [f"ctime={BEGIN}", f"qtime={BEGIN}", f"etime={BEGIN}", f"start={start}"]
    hosts = [f"exec_host=n1/0*{cores}", f"exec_vnode=(n1:ncpus={cores})"]
    if not is_pbs:
        times.insert(3, "start_count=1")
        hosts = ["owner=ada@h", *((f"exec_host=n1/0-{cores - 1}",) if chance.random() < 0.9 else ())]
    ended = ["session=4711", f"end={end}", "Exit_status=0"]
    if not is_pbs:
        ended[1:1] = [f"total_execution_slots={cores}", "unique_node_count=1"]
    if "early" in writer:
        times.insert(0, ended.pop())
    used = ["resources_used.cput=00:00:09", "resources_used.mem=4kb", f"resources_used.walltime={wall}"]
    if is_pbs:
        used += [f"resources_used.ncpus={cores}", "run_count=1"]
    elif account and is_last:
        used.append(f"account={account}")
    keys = [*head, *times, *hosts, *request[:place], *others, *request[place:], *ended, *used]
    if writer == "sorted":
        keys = sorted(one for one in keys if not one.startswith("x="))
    if not is_pbs and len(account) > 1 and account[0] == account[-1] and account[0] in "\"'":
        # Some versions of Torque write these quotes themselves.
        account = account[1:-1]
    right = {
        "user": "ada",
        "group": next(one[6:] for one in head if one.startswith("group=")),
        "queue": "workq",
        "submit_time": BEGIN,
        "start_time": start,
        "end_time": end,
        "node_list": "n1" if hosts[-1] != "owner=ada@h" else "",
        "wall_s": wall,
        "cpu_user_s": 9,
        "cores": cores,
        "gpus": gpus,
        "name": name,
        "account": account,
        "project": project,
        "exit_status": 0,
    }
    return keys, right


def _resized(chance: random.Random) -> tuple[list[tuple[str, str]], int]:
    """Records u, c, e and E of a run that releases nodes, with their letters; and its core seconds."""
    keys, right = _keys(chance, "openpbs")
    cores, start, end = (int(str(right[name])) for name in ("cores", "start_time", "end_time"))
    ends = [*sorted({chance.randint(start + 1, end) for _ in range(chance.randint(1, 3))} - {end}), end]
    is_since_start = chance.random() < 0.3
    lines, core_s, since = list[tuple[str, str]](), 0, start
    for until in ends:
        changed = {
            "end=": f"{until}",
            "exec_host=": f"n1/0*{cores}",
            "exec_vnode=": f"(n1:ncpus={cores})",
            "Resource_List.ncpus=": f"{cores}",
            "resources_used.ncpus=": f"{cores}",
            "resources_used.walltime=": f"{until - (start if is_since_start else since)}",
        }
        phase = " ".join(
            next((f"{name}{text}" for name, text in changed.items() if one.startswith(name)), one) for one in keys
        )
        lines += [("e" if until == end else "u", phase), *([] if until == end else [("c", phase)])]
        core_s += (until - since) * cores
        since, cores = until, chance.randint(1, cores)
    return [*lines, ("E", " ".join(keys))], core_s


def made(chance: random.Random) -> dict[str, bytes]:
    """A line of each writer, and the lines of a run whose cores change, in any order."""
    lines = [(writer, " ".join(keys), right) for writer in _WRITERS for keys, right in [_keys(chance, writer)]]
    phases, core_s = _resized(chance)
    chance.shuffle(phases)
    return {"lines": json.dumps(lines).encode(), "phases": json.dumps([phases, core_s]).encode()}


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Compare each value."""
    for writer, line, right in json.loads(files["lines"]):
        content = f"11/02/2026 10:00:00;E;1.srv;{line}\n".encode()
        (one,) = SOURCE.read([content], LogForm())
        if isinstance(one.what, Fault):
            assert not one.what.is_ours, (writer, one.what.reason, line)
            continue
        assert isinstance(one.what, BatchRun), (writer, one, line)
        wrong = {key: getattr(one.what, key) for key, value in right.items() if getattr(one.what, key) != value}
        if wrong.get("gpus", 0) is None and any(key.startswith("Resource_List.") for key in one.unusable):
            del wrong["gpus"]
        assert not wrong, (writer, wrong, line)
    lines, core_s = json.loads(files["phases"])
    content = "".join(f"11/02/2026 10:00:00;{kind};1.srv;{line}\n" for kind, line in lines).encode()
    reports = [one.what for one in SOURCE.read([content], LogForm())]
    if not any(isinstance(one, Fault) for one in reports):
        runs = [one for one in reports if isinstance(one, BatchRun)]
        run = functools.reduce(SOURCE.joined, runs)
        assert len({(one.start_time, one.number) for one in runs}) == 1, lines
        told = run.wall_s * run.cores if run.core_s is None and run.wall_s and run.cores else run.core_s
        assert told == core_s, (told, core_s, lines)
