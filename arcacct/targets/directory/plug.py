"""How a directory of messages is dealt with: what a site's own sender takes out of it goes to APEL."""

from __future__ import annotations

from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Answer, Sender
from arcacct.targets.apel.plug import APELMessages
from arcacct.targets.apel.text import ssm_text
from arcacct.targets.directory.options import DirectoryTarget
from arcacct.targets.directory.sending import MessageDirectory, new_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.transport import TimeoutPolicy


class DirectoryPlugin(APELMessages):
    """Unsigned messages as files."""

    target: DirectoryTarget
    confirmation_level = "written"

    def sender(self, _timeouts: TimeoutPolicy | None = None) -> Sender:
        return DirectorySender(self.target)


class DirectorySender(Sender):
    """A directory answers at once, or the file system hangs: nobody can help that."""

    def __init__(self, target: DirectoryTarget) -> None:
        self._directory = MessageDirectory(target.path, target.layout)
        self.destination = target.url

    def name(self) -> str | None:
        return new_name()

    def pack(self, text: str) -> bytes:
        return ssm_text(text)

    def send(self, message: Message) -> Answer:
        return self._directory.write(self.unpack(message.data), message.empaid or new_name())


PLUGIN = DirectoryPlugin
