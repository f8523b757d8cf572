"""A sweep that goes on as a service."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Event

from arcacct.arex.layout import is_whole
from arcacct.arex.sweep import sweep
from arcacct.arex.sweeping import SweepReport
from arcacct.config.paths import Places
from arcacct.database import location
from arcacct.database.access import leave_open, open_accounting
from arcacct.database.connection import Connection
from arcacct.database.durable import refuse_maintenance
from arcacct.errors import ArcacctError, InputError

_LOOK_S = 1.0
"""How often it looks whether the database is being worked on."""


def follow(
    here: Places,
    interval_s: float,
    stop: Event,
    told: Callable[[SweepReport | None, list[str]], None],
    *,
    take_vanished: bool = True,
) -> None:
    """
    Sweep every ``interval_s`` seconds until ``stop`` is set; a sweep under way ends after its slice.

    ``told`` gets each report (``None`` when there was no sweep) and the complaints that the one before did not have.
    Whatever is wrong, also that the control directory is not there, is a complaint: the next sweep may do better.
    """
    database = _Database(here)
    known: set[str] = set()
    try:
        while not stop.is_set():
            report = None
            try:
                con = database.connection()
                report = sweep(here, con, take_vanished=take_vanished, stopping=stop.is_set, goes_on=True)
                complaints = list(report.complaints)
            except ArcacctError as error:
                complaints = [str(error)]
            told(report, [text for text in complaints if text not in known])
            known = set(complaints)
            database.wait(stop, interval_s)
    finally:
        database.leave()


class _Database:
    """The accounting database, opened again when another file has come into its place."""

    def __init__(self, here: Places) -> None:
        self._here = here
        self._con: Connection | None = None
        self._identity: tuple[int, int] | None = None

    def connection(self) -> Connection:
        """
        Raises InputError while there is neither a database nor a control directory, StoreError and its kinds; StoreBusy
        while the database is being worked on, ConfigError once it is somewhere else, and then it is closed.

        (A file system that is not mounted is an empty directory: a database made in there would be lost below it.)
        """
        try:
            location.refuse_another(self._here)
            refuse_maintenance(self._here.database)
        except ArcacctError:
            self._close()
            raise
        identity = _identity(self._here.database)
        if self._con is not None and identity == self._identity:
            return self._con
        self._close()
        if identity is None and not is_whole(self._here.controldir):
            raise InputError(
                f"{self._here.controldir}: no control directory of A-REX is there now; waiting for it to come back"
            )
        self._con = open_accounting(self._here)
        self._identity = _identity(self._here.database)
        return self._con

    def wait(self, stop: Event, seconds: float) -> None:
        """Wait, but close the database as soon as somebody wants to work on it: a restore waits for us."""
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._con is not None and os.path.exists(self._here.maintenance):
                self._close()
            stop.wait(min(left, _LOOK_S))

    def leave(self) -> None:
        """For the end of the process."""
        if self._con is not None:
            leave_open(self._con, self._here.database)
            self._con = None

    def _close(self) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
