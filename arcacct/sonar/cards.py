"""
GPUs as ``nvidia-smi`` tells them; nothing on a host that has none, or not that program.

What a card cannot tell (``[N/A]``) is left out. The program's memory is in MiB, ours in KiB.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.sonar.telling import Fields

TIMEOUT_S = 5.0

_SYSINFO = {
    "index": "index",
    "uuid": "uuid",
    "address": "pci.bus_id",
    "model": "name",
    "driver": "driver_version",
    "firmware": "vbios_version",
    "memory": "memory.total",
    "power_limit": "power.limit",
    "max_power_limit": "power.max_limit",
    "min_power_limit": "power.min_limit",
    "max_ce_clock": "clocks.max.sm",
    "max_memory_clock": "clocks.max.memory",
}
_SAMPLE = {
    "index": "index",
    "uuid": "uuid",
    "fan": "fan.speed",
    "compute_mode": "compute_mode",
    "performance_state": "pstate",
    "memory": "memory.used",
    "ce_util": "utilization.gpu",
    "memory_util": "utilization.memory",
    "temperature": "temperature.gpu",
    "power": "power.draw",
    "power_limit": "power.limit",
    "ce_clock": "clocks.sm",
    "memory_clock": "clocks.mem",
}
_TEXTS = frozenset(("uuid", "address", "model", "driver", "firmware", "compute_mode"))


def program() -> "str | None":
    """The path of ``nvidia-smi`` on this host."""
    # Not by shutil, which costs more than a whole sample.
    paths = [os.path.join(folder, "nvidia-smi") for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def cards(smi: str) -> "list[Fields]":
    """Each card as sysinfo has it. Raises OSError and its kinds when the program fails."""
    return [{**one, "manufacturer": "NVIDIA"} for one in _query(smi, _SYSINFO)]


def states(smi: str) -> "list[Fields]":
    """Each card as a sample has it."""
    return [{key: value for key, value in one.items() if value or key == "uuid"} for one in _query(smi, _SAMPLE)]


def users(smi: str) -> "dict[int, list[Fields]]":
    """By pid what each process uses of each card."""
    indices = {one["index"]: one["uuid"] for one in _query(smi, {"index": "index", "uuid": "uuid"})}
    numbers = {uuid: index for index, uuid in indices.items()}
    found: dict[tuple[int, str], Fields] = {}
    for line in _run(smi, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"):
        pid, uuid, memory = [*(part.strip() for part in line.split(",")), "", ""][:3]
        if pid.isdigit() and uuid:
            found[int(pid), uuid] = {"index": numbers.get(uuid, 0), "uuid": uuid}
            if memory.isdigit():
                found[int(pid), uuid]["gpu_memory"] = int(memory) * 1024
    for line in _run(smi, "pmon", "-c", "1", "-s", "u"):
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[1].isdigit() and words[3].isdigit():
            card = found.get((int(words[1]), indices.get(int(words[0]), "")))
            if card is not None and int(words[3]):
                card["gpu_util"] = int(words[3])
    by_pid: dict[int, list[Fields]] = {}
    for (pid_number, _), card in found.items():
        by_pid.setdefault(pid_number, []).append(card)
    return by_pid


def _query(smi: str, fields: dict[str, str]) -> "list[Fields]":
    found = []
    for line in _run(smi, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"):
        texts = zip(fields, map(str.strip, line.split(",")), strict=False)
        told = {key: text if key in _TEXTS else _number(key, text) for key, text in texts if text and text[0] != "["}
        if line.strip():
            found.append({key: value for key, value in told.items() if value is not None})
    return found


def _number(key: str, text: str) -> "int | None":
    if key == "performance_state":
        # P0 is the fastest; 2 is added as to every ExtendedUint.
        return int(text[1:]) + 2 if text[1:].isdigit() else None
    try:
        value = round(float(text))
    except ValueError:
        return None
    return value * 1024 if key == "memory" else value


def _run(smi: str, *arguments: str) -> list[str]:
    import subprocess  # noqa: PLC0415  as dear; most nodes have no card

    try:
        done = subprocess.run([smi, *arguments], capture_output=True, timeout=TIMEOUT_S, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(f"{smi} {arguments[0]}: {error}") from error
    return done.stdout.decode("utf-8", "replace").splitlines()
