"""A way to PostgreSQL on which the client is killed once it has sent so many bytes."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import struct
import threading
from contextlib import closing, suppress


class CutConnection:
    """A Unix socket in ``folder`` for one connection to the server behind the socket in ``server``."""

    def __init__(self, folder: pathlib.Path, server: str, cut: int | None = None) -> None:
        self.sent = b""
        """What the client sent."""
        self._cut = cut
        self._server = f"{server}/.s.PGSQL.5432"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen(1)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        """Wait until the client is gone."""
        self._thread.join()
        self._listening.close()

    def _run(self) -> None:
        client, _address = self._listening.accept()
        pid, *_ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        with closing(client), closing(socket.socket(socket.AF_UNIX)) as server:
            server.connect(self._server)
            back = threading.Thread(target=_passed_on, args=(server, client))
            back.start()
            while data := client.recv(65_536):
                room = len(data) if self._cut is None else self._cut - len(self.sent)
                server.sendall(data[:room])
                self.sent += data[:room]
                if room < len(data):
                    os.kill(pid, signal.SIGKILL)
                    break
            server.shutdown(socket.SHUT_WR)
            back.join()


def _passed_on(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(65_536):
            client.sendall(data)
