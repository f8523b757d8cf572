"""Messages that are being sent while the next are made: most of a run is waiting for the receiver."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Semaphore, Thread

from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.ledger import Message
from arcacct.publishing.plug import Sender


class SendAhead:
    """
    Some messages of the ledger, sent by a thread one after the other until one of them is not accepted.

    It sends the next when it is told that the answer to the last is in the ledger: whatever kills us, one message at
    most is sent again. Until `stop` has returned nobody else may send.
    """

    def __init__(self, sender: Sender, messages: Sequence[Message], groups: Sequence[str | None]) -> None:
        """Begin."""
        self.messages = messages
        self.groups = groups
        self.answers: list[Answer] = []
        """To the first messages; only the last of them may be other than accepted."""
        self.noted = 0
        """How many answers are in the ledger."""
        self.error: Exception | None = None
        """What sending the message after them raised."""
        self._sender = sender
        self._stopping = False
        self._go_on = Semaphore(0)
        # A daemon: who interrupts us a second time does not wait for a receiver that says nothing.
        self._thread = Thread(target=self._send, daemon=True)
        self._thread.start()

    def accepted(self) -> tuple[Message, Answer] | None:
        """A message that was accepted, which is not in the ledger yet."""
        if len(self.answers) == self.noted or self.answers[self.noted].kind != Outcome.ACCEPTED:
            return None
        return self.messages[self.noted], self.answers[self.noted]

    def resume(self) -> None:
        """That is in the ledger now."""
        self.noted += 1
        self._go_on.release()

    def stop(self) -> None:
        """Wait for the answer to the message that is just being sent, and send no other one."""
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
        except Exception as error:  # noqa: BLE001  whatever it is, the thread that waits for us raises it
            self.error = error
