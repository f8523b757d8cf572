"""
Senders around a target's own: one in a thread, while the next messages are being made, since most of a run's time is
waiting for the receiver; one that is created when there is something to send, since keys, certificates and TLS are the
largest cost of a run; and one for plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Semaphore, Thread

from arcacct.config.options import Target
from arcacct.errors import CredentialError, InputError
from arcacct.files.safe_open import open_directory, read_regular
from arcacct.publishing.answers import Answer, Outcome, RunDeadline
from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Sender, TargetPlugin


class SendAhead:
    """
    Sends some messages of the ledger in a thread, one after the other, until one of them is not accepted.

    The thread sends the next message only after `resume` confirms that the ledger has the previous answer. So a kill
    makes at most one message be sent twice. Nothing else may send until `stop` has returned.
    """

    def __init__(self, sender: Sender, messages: Sequence[Message]) -> None:
        """Start the thread."""
        self.messages = messages
        self.answers: list[Answer] = []
        """The answers to the first messages. Only the last answer can be other than accepted."""
        self.noted = 0
        """How many answers are in the ledger."""
        self.error: Exception | None = None
        """The exception raised while sending the message after them."""
        self._sender = sender
        self._stopping = False
        self._go_on = Semaphore(0)
        # A daemon: after a second interrupt the program does not wait for a receiver that does not answer.
        self._thread = Thread(target=self._send, daemon=True)
        self._thread.start()

    def accepted(self) -> tuple[Message, Answer] | None:
        """Return the next accepted message that the ledger does not have as accepted yet; ``None`` if there is none."""
        if len(self.answers) == self.noted or self.answers[self.noted].kind != Outcome.ACCEPTED:
            return None
        return self.messages[self.noted], self.answers[self.noted]

    def resume(self) -> None:
        """Confirm that the ledger has the answer, so that the next message may be sent."""
        self.noted += 1
        self._go_on.release()

    def stop(self) -> None:
        """Wait for the answer to the message that is being sent, and send no other message."""
        self._stopping = True
        self._go_on.release()
        self._thread.join()

    def _send(self) -> None:
        try:
            for message in self.messages:
                if self._stopping:
                    return
                answer = self._sender.send(message)
                self.answers.append(answer)
                if answer.kind != Outcome.ACCEPTED:
                    return
                self._go_on.acquire()
        except Exception as error:  # noqa: BLE001  the waiting thread raises it
            self.error = error


class LazySender(Sender):
    """
    A `Sender` that is created when it is first used: for the first message of this run or of an earlier one.

    It then raises the errors of its creation, before anything is sent or stored.
    """

    def __init__(self, target: Target, make: Callable[[], Sender]) -> None:
        """
        Check that the certificate and key can be opened, even if there is nothing to send.

        Their contents are checked when they are used. `arcacct status` warns before they expire. Raises CredentialError
        for a file that cannot be read.
        """
        self._make = make
        self._made: Sender | None = None
        self._deadline = RunDeadline()
        shown = target.credentials()
        for path in () if shown is None else (shown.x509_host_cert, shown.x509_host_key):
            try:
                read_regular(path)
            except OSError as exc:
                what = f"{path}: cannot be read ({exc.strerror}); correct the path, or run as the file's owner"
                raise CredentialError(what) from exc

    @property
    def destination(self) -> str:  # type: ignore[override]  # known by the sender alone
        return self._sender().destination

    def send(self, message: Message) -> Answer:
        return self._sender().send(message)

    def name(self) -> str | None:
        return self._sender().name()

    def pack(self, text: str) -> bytes:
        return self._sender().pack(text)

    def unpack(self, data: bytes) -> str:
        return self._sender().unpack(data)

    def renewed(self, data: bytes) -> bytes:
        return self._sender().renewed(data)

    def set_deadline(self, deadline: RunDeadline) -> None:
        self._deadline = deadline

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _sender(self) -> Sender:
        if self._made is None:
            self._made = self._make()
            self._made.set_deadline(self._deadline)
        return self._made


class PlannedSender(Sender):
    """
    Replaces a target's `Sender` in a dry run: it accepts each message and sends none.

    With ``write_to`` it writes each message to a file, with exactly the bytes that would be sent. Only then is ``make``
    called, since signing needs the host's key.
    """

    def __init__(self, make: Callable[[TargetPlugin], Sender], write_to: str | None, plugin: TargetPlugin) -> None:
        self._target = plugin.target.block
        self._made = make(plugin) if write_to is not None else None
        self._write_to = write_to
        self._written = 0
        self.destination = plugin.target.url

    def send(self, message: Message) -> Answer:
        """Accept a message, and write it to a file if asked. Raises InputError if it cannot be written."""
        self._written += 1
        if self._write_to is not None:
            name = f"{self._target.rpartition('/')[2].replace(':', '-')}-{self._written:04d}-{message.message_format}"
            try:
                # Readable by this user only, with any umask: messages contain names of users.
                with open_directory(self._write_to, make=0o700) as folder, open(folder.create(name), "wb") as file:
                    file.write(message.data)
            except OSError as error:
                what = f"{os.path.join(self._write_to, name)}: cannot write: {error.strerror}; give an empty directory"
                raise InputError(what) from error
        return Answer(Outcome.ACCEPTED, receiver_id="planned")

    def pack(self, text: str) -> bytes:
        return text.encode("utf-8") if self._made is None else self._made.pack(text)

    def unpack(self, data: bytes) -> str:
        return data.decode("utf-8") if self._made is None else self._made.unpack(data)

    def renewed(self, data: bytes) -> bytes:
        return data if self._made is None else self._made.renewed(data)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
