"""
The text of arc.conf and arcacct.conf, cut into blocks and options with their lines.

The hook reads both files at each state change of a job, so this module needs nothing but ``posix`` (what ``os`` is
made of: importing ``os`` as well would cost the hook a tenth of its time) and string methods.
The syntax is ARC's: ``[block]`` or ``[block:name]`` lines, ``option = value`` lines, whole lines of comment that
begin with ``#``, options that may be repeated. Values are literal: no quotes, no continuation, no comment behind them.
"""

import posix

from arcacct.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_TIME_FILE = "/run/arched-arex.cfg"
"""Where a running A-REX keeps its configuration with every default filled in."""
ARC_CONF = "/etc/arc.conf"
OUR_CONF = "arcacct.conf"
RUN_TIME_FOLDERS = ("/run", "/var/run")


class Option:
    """One ``option = value`` line."""

    __slots__ = ("file", "line", "value")

    def __init__(self, value: str, file: str, line: int) -> None:
        self.value = value
        self.file = file
        self.line = line


class Block:
    """One block with its options, each a list in the order of the file."""

    __slots__ = ("file", "kind", "label", "line", "name", "options")

    def __init__(self, name: str, file: str, line: int) -> None:
        kind, colon, label = name.partition(":")
        self.kind = kind.rstrip()
        self.label = label.strip() if colon else None
        self.name = f"{self.kind}:{self.label}" if colon else self.kind
        self.file = file
        self.line = line
        self.options: dict[str, list[Option]] = {}


class Complaint:
    """A line that has no place in such a file."""

    __slots__ = ("file", "line", "text")

    def __init__(self, file: str, line: int, text: str) -> None:
        self.file = file
        self.line = line
        self.text = text

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def parse(text: str, file: str, complaints: list[Complaint] | None = None) -> list[Block]:
    """
    The blocks of a file in their order.

    A line that is neither block, option nor comment raises ConfigError with file and line.
    With ``complaints`` it is added to that list instead and passed over, as ARC's own parser does:
    a slip in some other service's block must not stop the recording of jobs.
    """
    blocks: list[Block] = []
    options: dict[str, list[Option]] | None = None
    number = 0
    for raw in text.split("\n"):
        number += 1
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            wrong = _wrong_block(line)
            if wrong is None:
                blocks.append(Block(line[1:-1].strip(), file, number))
                options = blocks[-1].options
        else:
            name, equals, value = line.partition("=")
            name = name.rstrip()
            wrong = _wrong_option(name, equals, options)
            if options is not None and wrong is None:
                options.setdefault(name, []).append(Option(value.lstrip(), file, number))
        if wrong is not None:
            if complaints is None:
                raise ConfigError(f"{file}:{number}: {wrong}")
            complaints.append(Complaint(file, number, wrong))
    return blocks


def _wrong_block(line: str) -> str | None:
    inside = line[1:-1]
    if line[-1] != "]" or not inside.strip(" :\t") or "[" in inside or "]" in inside:
        return f"{line!r} is not the name of a block; write [block] or [block:name] alone on its line"
    return None


def _wrong_option(name: str, equals: str, options: dict[str, list[Option]] | None) -> str | None:
    if not name or " " in name or "\t" in name or "[" in name or "]" in name:
        what = f"{name!r} is not the name of an option" if equals and name else "this line has no option"
        return f"{what}; write option = value, and # before a comment"
    if options is None:
        return f"option {name} stands before any block; write the [block] it belongs to above it"
    return None


class Conf:
    """
    What the files say: blocks by their full name, in the order of the files.

    ``files`` has the files that were read, ``arc_conf`` and ``our_conf`` the paths that were looked for,
    ``replaced`` the blocks of arc.conf that arcacct.conf has too: A-REX still sees those.
    """

    __slots__ = ("arc_conf", "blocks", "complaints", "files", "our_conf", "replaced")

    def __init__(self, arc_conf: str, our_conf: str) -> None:
        self.arc_conf = arc_conf
        self.our_conf = our_conf
        self.blocks: dict[str, Block] = {}
        self.replaced: list[Block] = []
        self.files: list[str] = []
        self.complaints: list[Complaint] = []

    def get(self, block: str, option: str, default: str | None = None) -> str | None:
        """
        The value of an option; of a repeated one the last, as A-REX takes it.

        An option without a value (``option =``) is one that was not set.
        """
        found = self.option(block, option)
        return found.value if found is not None and found.value else default

    def option(self, block: str, option: str) -> Option | None:
        """The line that sets an option, the last if several do."""
        found = self.blocks.get(block)
        lines = found.options.get(option) if found is not None else None
        return lines[-1] if lines else None

    def all(self, block: str, option: str) -> list[str]:
        """Every value of a repeated option, in order; empty ones are left out."""
        found = self.blocks.get(block)
        return [line.value for line in found.options.get(option, ()) if line.value] if found is not None else []

    def add(self, text: str, file: str) -> None:
        """Take in the blocks of a file; a block replaces the whole block of the same name that was there before."""
        self.files.append(file)
        for block in parse(text, file, self.complaints):
            earlier = self.blocks.pop(block.name, None)
            if earlier is not None and earlier.file != file:
                self.replaced.append(earlier)
            elif earlier is not None:
                self.complaints.append(
                    Complaint(
                        file,
                        block.line,
                        f"[{block.name}] is there twice and this one replaces the one of line {earlier.line}; "
                        "make them one block",
                    )
                )
            self.blocks[block.name] = block


def find_conf(config: str | None, environ: "Mapping[str, str]") -> str:
    """Which arc.conf holds: the given one, $ARC_CONFIG, the one A-REX runs with, /etc/arc.conf."""
    given = config or environ.get("ARC_CONFIG")
    if given:
        return given
    try:
        posix.stat(RUN_TIME_FILE)
    except OSError:
        return ARC_CONF
    return RUN_TIME_FILE


def our_conf(arc_conf: str, environ: "Mapping[str, str]") -> str:
    """The path of arcacct.conf: $ARCACCT_CONFIG, else beside arc.conf; /etc for A-REX's run-time file."""
    given = environ.get("ARCACCT_CONFIG")
    if given:
        return given
    folder = absolute(arc_conf).rpartition("/")[0]
    return f"{'/etc' if folder in RUN_TIME_FOLDERS else folder}/{OUR_CONF}"


def absolute(path: str) -> str:
    """`os.path.abspath`, without the import of `os` for a path that is absolute and plain already."""
    if path.startswith("/") and "//" not in path and "/." not in path and not path.endswith("/"):
        return path
    import os  # noqa: PLC0415

    return os.path.abspath(path)


def load(config: str | None, environ: "Mapping[str, str]") -> Conf:
    """
    Read arc.conf, then arcacct.conf over it.

    A file that was asked for (``config``, $ARC_CONFIG, $ARCACCT_CONFIG) has to be there; of the usual ones either
    may be missing: a host without A-REX has only arcacct.conf.
    [custom:arcacct] of arc.conf serves as [arcacct] where there is none.
    Raises ConfigError for a file that cannot be read.
    """
    arc_conf = find_conf(config, environ)
    conf = Conf(arc_conf, our_conf(arc_conf, environ))
    _read(conf, conf.arc_conf, required=bool(config or environ.get("ARC_CONFIG")))
    _read(conf, conf.our_conf, required=bool(environ.get("ARCACCT_CONFIG")))
    custom = conf.blocks.get("custom:arcacct")
    if custom is not None and "arcacct" not in conf.blocks:
        conf.blocks["arcacct"] = custom
    return conf


def _read(conf: Conf, path: str, *, required: bool) -> None:
    try:
        # Any bytes in a comment are welcome: ARC does not say which encoding its files are in.
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except FileNotFoundError:
        if required:
            raise ConfigError(f"{path}: there is no such file; name an existing arc.conf") from None
        return
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; run as a user who may read it") from error
    conf.add(text, path)
