"""What a run would send: counted, and written into a directory when asked for. Nothing leaves this host."""

from __future__ import annotations

import os
from collections.abc import Callable

from arcacct.errors import InputError
from arcacct.files.foreign import open_directory
from arcacct.publishing import held, ledger
from arcacct.publishing.delivery import Consignment, Deliverer
from arcacct.publishing.plug import Document, Sender
from arcacct.publishing.task import Task


class Plan(Deliverer):
    """
    Takes the place of `Delivery`: counts the messages of one target.

    With ``write_to`` each becomes a file of exactly the bytes that would be sent; only then is ``make_sender`` called,
    since signing needs the host's key.
    """

    def __init__(self, task: Task, make_sender: Callable[[], Sender], write_to: str | None) -> None:
        self._con = task.publishing
        self._target = task.block
        self._tally = task.tally
        self._make_sender = make_sender
        self._write_to = write_to
        self._sender: Sender | None = None

    def resume(self) -> None:
        """Count what an earlier run began."""
        self._tally.resent = ledger.count_unanswered(self._con, self._target)

    def deliver(self, what: Consignment) -> None:
        """Count its batches; the cursor stays where it is."""
        document = what.document
        self._tally.set_aside(held.newly_aside(self._con, self._target, what.held))
        for batch in what.batches:
            text = document.join([part.text for part in batch])
            data = text.encode("utf-8") if self._write_to is None else self._written(document, text, self._write_to)
            self._tally.add(document.kind, len(batch), len(data))

    def _written(self, document: Document, text: str, directory: str) -> bytes:
        if self._sender is None:
            self._sender = self._make_sender()
        data = self._sender.pack(text)
        number = sum(sent.messages for sent in self._tally.sent.values()) + 1
        name = f"{self._target.rpartition('/')[2].replace(':', '-')}-{number:04d}-{document.kind}"
        try:
            # For this user alone, whatever the umask: messages have the names of users.
            with open_directory(directory, make=0o700) as folder, open(folder.create(name), "wb") as file:
                file.write(data)
        except OSError as error:
            raise InputError(
                f"{os.path.join(directory, name)}: cannot write: {error.strerror}; give an empty directory"
            ) from error
        return data
