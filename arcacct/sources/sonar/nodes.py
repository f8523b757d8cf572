"""The history of nodes and clusters."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from arcacct.database.connection import Connection
from arcacct.records.slurm_formats import compress
from arcacct.sources.sonar.envelopes import Cluster, ProducerError, Sysinfo
from arcacct.sources.sonar.samples import SampledKey

# The history of clusters and nodes, and the errors that their producers reported.
#
# A row is valid from the first to the last observation without a change. A change starts another row. A late
# observation that contradicts a row divides it in two.


_REMEMBERED = 50_000
_NODE = (
    "NodeID, Content, OSName, OSRelease, NumaNodes, Sockets, CoresPerSocket, ThreadsPerCore, CPUModel, Architecture,"
    " Memory, Distances, TopoSVG, TopoText"
)
_OF_NODE = {
    "NodeGPUs": "CardIndex, UUID, Address, Manufacturer, Model, Architecture, Driver, Firmware, Memory, PowerLimitW,"
    " MaxPowerLimitW, MinPowerLimitW, MaxCEClockMHz, MaxMemoryClockMHz",
    "NodeSoftware": "Key, Name, Version",
}
"""The columns about a node, by table."""


class Names:
    """The numbers of clusters, nodes and sampled jobs, in a cache. New names are added to the database."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._ids: dict[tuple[object, ...], int] = {}

    def forget(self) -> None:
        """Empty the cache. Call this after a rollback, which removes the new names."""
        self._ids.clear()

    def cluster(self, name: str) -> int:
        """Return the number of a cluster."""
        return self._id("Clusters", ("Name",), (name,))

    def node(self, cluster: str, name: str) -> int:
        """Return the number of a node."""
        return self._id("NodeNames", ("ClusterID", "Name"), (self.cluster(cluster), name))

    def job(self, cluster: str, node: str, key: SampledKey) -> tuple[int, int]:
        """Return the numbers of a sampled job and of its node."""
        node_id = self.node(cluster, node)
        columns = ("ClusterID", "JobID", "Epoch", "NodeID", "Task")
        values = (self.cluster(cluster), key.job, key.epoch, node_id if key.epoch else 0, key.task)
        return self._id("SampledJobs", columns, values), node_id

    def _id(self, table: str, columns: Sequence[str], values: tuple[object, ...]) -> int:
        found = self._ids.get((table, *values))
        if found is None:
            if len(self._ids) > _REMEMBERED:
                self._ids.clear()
            condition = " AND ".join(f"{column} = ?" for column in columns)
            row = self._con.execute(f"SELECT ID FROM {table} WHERE {condition}", values).fetchone()
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(values))})"
            found = int(row[0]) if row is not None else self._con.execute(insert, values).lastrowid or 0
            self._ids[table, *values] = found
        return found


def observe_sysinfo(con: Connection, names: Names, told: Sysinfo) -> None:
    """Store the sysinfo of a node."""
    node_id = names.node(told.cluster, told.node)
    content = hashlib.sha256(repr(told[3:]).encode()).hexdigest()
    row = con.execute(
        "SELECT ID, ValidFrom, LastSeen, Content FROM Nodes WHERE NodeID = ? AND ValidFrom <= ?"
        " ORDER BY ValidFrom DESC LIMIT 1",
        (node_id, told.time),
    ).fetchone()
    later = con.execute(
        "SELECT ID, Content FROM Nodes WHERE NodeID = ? AND ValidFrom > ? ORDER BY ValidFrom LIMIT 1",
        (node_id, told.time),
    ).fetchone()
    if row is not None and row[3] == content:
        con.execute("UPDATE Nodes SET LastSeen = ? WHERE ID = ? AND LastSeen < ?", (told.time, row[0], told.time))
        return
    if row is not None and row[1] == told.time:
        # Two different contents for the same second: always the same one is kept.
        if content < row[3]:
            return
        for table, column in (("NodeGPUs", "NodesID"), ("NodeSoftware", "NodesID"), ("Nodes", "ID")):
            con.execute(f"DELETE FROM {table} WHERE {column} = ?", row[:1])
    elif row is not None and row[2] > told.time:
        _cut_hardware(con, row[0], told.time)
    elif later is not None and later[1] == content:
        con.execute("UPDATE Nodes SET ValidFrom = ? WHERE ID = ?", (told.time, later[0]))
        return
    row_id = con.execute(
        f"INSERT INTO Nodes (ValidFrom, LastSeen, {_NODE}) VALUES ({', '.join('?' * 16)})",
        (told.time, told.time, node_id, content, *told[3:15]),
    ).lastrowid
    # A card or package that is listed twice is stored once.
    con.executemany(
        f"INSERT OR IGNORE INTO NodeGPUs VALUES ({', '.join('?' * 15)})", [(row_id, *c) for c in told.cards]
    )
    con.executemany("INSERT OR IGNORE INTO NodeSoftware VALUES (?, ?, ?, ?)", [(row_id, *s) for s in told.software])


def _cut_hardware(con: Connection, row_id: int, at: int) -> None:
    """
    Divide a row in two, because a different state was observed in between.

    The second row starts at the last observation of the old one.
    """
    last_seen = con.execute("SELECT LastSeen FROM Nodes WHERE ID = ?", (row_id,)).fetchone()[0]
    con.execute("UPDATE Nodes SET LastSeen = min(LastSeen, max(ValidFrom, ? - 1)) WHERE ID = ?", (at, row_id))
    copy = con.execute(
        f"INSERT INTO Nodes (ValidFrom, LastSeen, {_NODE}) SELECT ?, ?, {_NODE} FROM Nodes WHERE ID = ?",
        (last_seen, last_seen, row_id),
    ).lastrowid
    for table, rest in _OF_NODE.items():
        con.execute(
            f"INSERT INTO {table} (NodesID, {rest}) SELECT ?, {rest} FROM {table} WHERE NodesID = ?", (copy, row_id)
        )


def observe_cluster(con: Connection, names: Names, told: Cluster) -> None:
    """Store the partitions of a cluster and the states of its nodes."""
    cluster_id = names.cluster(told.cluster)
    for partition in told.partitions:
        _observe(con, "ClusterPartitions", (cluster_id, partition.name), told.time, compress(partition.nodes))
    states: dict[str, set[str]] = {}
    for group in told.nodes:
        for name in group.names:
            states.setdefault(name, set()).update(group.states)
    for name, own in states.items():
        _observe(con, "ClusterNodes", (cluster_id, name), told.time, ",".join(sorted(own)))


def _observe(con: Connection, table: str, key: tuple[int, str], at: int, content: str) -> None:
    same = f"FROM {table} WHERE ClusterID = ? AND Name = ?"
    before = con.execute(
        f"SELECT ValidFrom, LastSeen, Content {same} AND ValidFrom <= ? ORDER BY ValidFrom DESC LIMIT 1", (*key, at)
    ).fetchone()
    later = con.execute(
        f"SELECT ValidFrom, Content {same} AND ValidFrom > ? ORDER BY ValidFrom LIMIT 1", (*key, at)
    ).fetchone()
    valid_from, last_seen, known = before or (at + 1, at, None)
    later_from, later_content = later or (None, None)
    update = f"UPDATE {table} SET {{}} WHERE ClusterID = ? AND Name = ? AND ValidFrom = ?"
    if known == content:
        if last_seen < at:
            con.execute(update.format("LastSeen = ?"), (at, *key, valid_from))
        return
    if valid_from == at:
        con.execute(update.format("Content = max(Content, ?)"), (content, *key, at))
        return
    insert = f"INSERT INTO {table} (ClusterID, Name, ValidFrom, LastSeen, Content) VALUES (?, ?, ?, ?, ?)"
    if last_seen > at:
        con.execute(update.format("LastSeen = ?"), (max(valid_from, at - 1), *key, valid_from))
        con.execute(insert, (*key, last_seen, last_seen, known))
    elif later_content == content:
        con.execute(update.format("ValidFrom = ?"), (at, *key, later_from))
        return
    con.execute(insert, (*key, at, at, content))


def remember_complaint(con: Connection, names: Names, told: ProducerError) -> None:
    """Store an error that a producer reported."""
    con.execute(
        "INSERT OR IGNORE INTO TelemetryErrors (ClusterID, Node, Time, Detail) VALUES (?, ?, ?, ?)",
        (names.cluster(told.cluster), told.node, told.time, told.detail),
    )
