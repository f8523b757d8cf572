"""
Records of LSF by the grammar of its writer, with hostile texts wherever a user can set one, and line ends in them.

Each value is right, also behind a record whose text looks like records; and the core seconds of resized runs.
"""

from __future__ import annotations

import functools
import json
import pathlib
import random

from batch_files import BEGIN

from arcacct.sources.engine.batch_runs import BatchRun, LogForm
from arcacct.sources.lsf.importer import SOURCE

_PIECES = (
    *(
        "a",
        "b",
        " ",
        "\t",
        "\n",
        '"',
        '""',
        "'",
        "\\",
        "\u00e9",
        "\u2028",
        "\r",
        '" "',
        "\n\n",
        ' "x" 1 ',
        "64 60.0",
        "-1",
    ),
    *(
        "#!/bin/sh\n#BSUB -n 4\n",
        '\n"JOB_FINISH" "10.1" 17',
        '"JOB_FINISH"',
        '\n"JOB_RESIZE" "10.1" 1793577700 9 0',
        "8*n9",
    ),
    *("ncpus=99", ";ncpus=99;", "gpu[num=9]", "rusage[ngpus_physical=9.00]", '" 0 1 "n9" 64 60.0 "'),
)


def _text(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return chance.choice(("", "sim", "my sim"))
    return "".join(chance.choice(_PIECES) for _ in range(chance.randint(1, 5)))


def _quoted(text: str) -> str:
    """As LSF writes a text."""
    return '"{}"'.format(text.replace('"', '""'))


def _hosts(chance: random.Random, cores: int, node: str) -> str:
    """The count and the names, one for each slot; or as LSB_SHORT_HOSTLIST makes them."""
    return f'1 "{cores}*{node}"' if chance.random() < 0.3 else " ".join([f"{cores}", *[f'"{node}"'] * cores])


def _finish(chance: random.Random, job: int, cores: int, start: int, end: int) -> tuple[str, dict[str, object]]:
    """A JOB_FINISH, and the right values."""
    user_s, kernel_s, status = chance.randint(0, 10**6) / 100, chance.randint(0, 10**4) / 100, chance.choice((0, 3))
    name, project, gpus = _text(chance), _text(chance), chance.choice((None, 2))
    asked = f"rusage[ngpus_physical={gpus}.00] gpu[num={gpus}:mode=shared]" if gpus else "select[type == local] "
    texts = iter(lambda: _quoted(_text(chance)), None)
    head = f'"JOB_FINISH" "10.1" {end} {job} 1001 33816602 {cores} {BEGIN} 0 0 {start} "ada" "normal"'
    # resReq, dependCond, preExecCmd; then the host, and cwd, inFile, outFile, errFile.
    request = f'{next(texts)} {next(texts)} {next(texts)} "sub1" {" ".join(next(texts) for _ in range(4))}'
    usage = f"{user_s:.6f} {kernel_s:.6f} 5316 0 -1 0 0 2322 0 0 8 0 -1 0 0 0 128 5 -1"
    line = (
        f'{head} {request} "{BEGIN}.{job}" 0 {_hosts(chance, cores, "n1")} {32 if status else 64} 60.0 {_quoted(name)}'
        f" {next(texts)} {usage} {next(texts)} {_quoted(project)} {status * 256} {cores} {next(texts)} {next(texts)} 0"
        f' 20480 40960 {next(texts)} {next(texts)} "" {next(texts)} 0 "" 0 "" -1 "/ada" {next(texts)} "" "" -1 "" ""'
        f' 2097168 "" {start} "" "" 1 1032 {next(texts)} 0 -1 64 19000 {_quoted(asked)} "" -1 "" -1 0 "" 0 0 ""'
        f" {end - start} {next(texts)} 0 {next(texts)} 0.000000 0.00 0.00 0.00 0.00"
    )
    right = {
        "number": job,
        "user": "ada",
        "queue": "normal",
        "submit_time": BEGIN,
        "start_time": start,
        "end_time": end,
        "wall_s": end - start,
        "node_list": "n1",
        "cores": cores,
        "gpus": gpus,
        "name": name,
        "project": "" if project == "default" else project,
        "exit_status": status,
        "memory_kib": 20480,
    }
    return line, right


def _resized(chance: random.Random, job: int) -> tuple[list[str], dict[str, object]]:
    """Records of a run, resized up to three times, in any order; and the right values."""
    start, wall = BEGIN + chance.randint(0, 99), chance.randint(10, 9000)
    ends = sorted({chance.randint(start + 1, start + wall - 1) for _ in range(chance.randint(0, 3))})
    lines, core_s, since, cores = list[str](), 0, start, chance.randint(1, 8)
    for until in ends:
        hosts = _hosts(chance, cores, "n1")
        lines.append(f'"JOB_RESIZE" "10.1" {until} {job} 0 {start} 1001 "ada" 0 {since} {hosts} 1 "n2"')
        core_s += (until - since) * cores
        since, cores = until, chance.randint(1, 8)
    last, right = _finish(chance, job, cores, start, start + wall)
    lines.append(last)
    chance.shuffle(lines)
    return lines, right | {"core_s": core_s + (start + wall - since) * cores if ends else None}


def made(chance: random.Random) -> dict[str, bytes]:
    """Some jobs, one after the other."""
    return {"jobs": json.dumps([_resized(chance, job) for job in range(1, 6)]).encode()}


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Compare each value of each job."""
    jobs = json.loads(files["jobs"])
    content = "".join(f"{line}\n" for lines, _right in jobs for line in lines).encode()
    found: dict[int, list[BatchRun]] = {}
    for one in SOURCE.read([content], LogForm()):
        assert isinstance(one.what, BatchRun), (one, content)
        found.setdefault(one.what.number, []).append(one.what)
    for lines, right in jobs:
        run = functools.reduce(SOURCE.joined, found.pop(right["number"]))
        wrong = {key: getattr(run, key) for key, value in right.items() if getattr(run, key) != value}
        assert not wrong, (wrong, right, lines)
    assert not found, found
