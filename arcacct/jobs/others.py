"""Files that are read once more when others than A-REX have told of the job (`filling`). On the hook's path, if so."""

from arcacct.database.connection import Connection
from arcacct.jobs.recorder import NOTHING_USED, USAGE_COLUMNS
from arcacct.jobs.states import DERIVED, MEASURED, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.jobs.states import StateChange

_FILLED_IN = (
    *("", "exit_code", "", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s"),
    *("cpu_user_s", "cpu_kernel_s"),
)
"""The fields that others may fill in, of USAGE_COLUMNS in their order ..."""
_EXTRA_FILLED_IN = {
    "nodenames": "node_names",
    "projectname": "project",
    "systemsoftware": "system_software",
    "wninstance": "wn_instance",
}
"""... and of JobExtraInfo."""


def keep_filled_in(
    con: Connection, record_id: int, facts: "StateChange", used: "list[object]", others: "dict[str, str]"
) -> None:
    """
    Of an end that is recorded already: what others filled in stays where the files still do not say it.

    ``used``: the values of USAGE_COLUMNS after the first, put right here; ``others``: sources by field.
    """
    have = con.execute(f"SELECT {USAGE_COLUMNS} FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    told = {field for key, field in _EXTRA_FILLED_IN.items() if facts.extra.get(key)}
    if any(facts.benchmarks) and others.get("benchmark") != "features":
        told.add("benchmark")
    if facts.usage is not None:
        # Also a measured 0.
        told |= {one for one in MEASURED if others.get(one) in (UNKNOWN, DERIVED) and one not in facts.usage.unknown}
    for place, field in enumerate(_FILLED_IN[1:], 1):
        if used[place - 1] != NOTHING_USED[place]:
            told.add(field)
        elif field in others and field not in told:
            used[place - 1] = have[place]
    gone = [(record_id, field) for field in others if field in told]
    con.executemany("DELETE FROM FieldSources WHERE (RecordID, Field) = (?, ?)", gone)
