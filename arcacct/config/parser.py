"""The text of arc.conf, the files in arc.conf.d and arcacct.conf, cut into blocks and options with their lines."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from arcacct.errors import ConfigError
from arcacct.files.safe_open import read_regular

RUN_TIME_FILE = "/run/arched-arex.cfg"
"""The place where a running A-REX keeps its configuration with all defaults."""
ARC_CONF = "/etc/arc.conf"
OUR_CONF = "arcacct.conf"
RUN_TIME_FOLDERS = ("/run", "/var/run")


@dataclass(slots=True)
class Option:
    """One ``option = value`` line."""

    value: str
    file: str
    line: int


@dataclass(slots=True)
class Block:
    """
    One block with its options, each a list in the order of the files; ``file`` and ``line`` are its start.

    ``label`` is the part of its name after a colon; ``None`` without a colon.
    """

    kind: str
    label: str | None
    file: str
    line: int
    options: dict[str, list[Option]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The full name, without unnecessary blanks."""
        return self.kind if self.label is None else f"{self.kind}:{self.label}"


@dataclass(slots=True)
class ParseProblem:
    """A line that has no place in such a file."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def parse(text: str, file: str, complaints: list[ParseProblem] | None = None) -> list[Block]:
    """
    The blocks of a file in their order.

    A line that is neither block, option nor comment raises ConfigError with file and line. With ``complaints`` it is
    added to that list instead and ignored, as in ARC's own parser: an error in another service's block must not stop
    the recording of jobs.
    """
    blocks: list[Block] = []
    options: dict[str, list[Option]] | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            inside = line[1:-1]
            wrong = None
            if line[-1] != "]" or not inside.strip(" :\t") or "[" in inside or "]" in inside:
                wrong = f"{line!r} is not the name of a block; write [block] or [block:name] alone on its line"
            else:
                kind, colon, label = inside.strip().partition(":")
                blocks.append(Block(kind.rstrip(), label.strip() if colon else None, file, number))
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
            complaints.append(ParseProblem(file, number, wrong))
    return blocks


def _wrong_option(name: str, equals: str, options: dict[str, list[Option]] | None) -> str | None:
    if not name or " " in name or "\t" in name or "[" in name or "]" in name:
        # With a colon or an @ it may be a URL with a password.
        can_be_told = equals and name and ":" not in name and "@" not in name
        what = f"{name!r} is not the name of an option" if can_be_told else "this line has no option"
        return f"{what}; write option = value, and # before a comment"
    if options is None:
        return f"option {name} is before any block; write its [block] above it"
    return None


@dataclass(slots=True)
class Conf:
    """
    The content of the files: blocks by their full name, in the order of the files.

    ``files`` has the files that were read, ``arc_files`` those of them that A-REX reads. ``arc_conf`` and ``our_conf``
    are the expected paths. ``replaced`` has the blocks of A-REX's files that arcacct.conf has too. ``without_blocks``
    has those of the two files that have lines but no block: they are not configurations.
    """

    arc_conf: str
    our_conf: str
    blocks: dict[str, Block] = field(default_factory=dict)
    replaced: list[Block] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    arc_files: list[str] = field(default_factory=list)
    complaints: list[ParseProblem] = field(default_factory=list)
    without_blocks: list[str] = field(default_factory=list)

    def get(self, block: str, option: str, default: str | None = None) -> str | None:
        """
        Return the value of an option; of a repeated one the last, as in A-REX.

        An option without a value (``option =``) is not set.
        """
        found = self.option(block, option)
        return found.value if found is not None else default

    def option(self, block: str, option: str) -> Option | None:
        """Return the line that sets an option, the last if several do; one without a value sets nothing."""
        found = self.blocks.get(block)
        for line in reversed(found.options.get(option, ())) if found is not None else ():
            if line.value:
                return line
        return None

    def all(self, block: str, option: str) -> list[str]:
        """Every value of a repeated option, in order; empty ones are left out."""
        found = self.blocks.get(block)
        return [line.value for line in found.options.get(option, ()) if line.value] if found is not None else []

    def add(self, text: str, file: str, *, further: bool = False) -> None:
        """
        Add the blocks of a file.

        A block replaces the whole earlier block of the same name. In a ``further`` file of the same configuration (one
        of arc.conf.d) its options follow the earlier ones, as in ARC.
        """
        self.files.append(file)
        if further or file == self.arc_conf:
            self.arc_files.append(file)
        found: dict[str, Block] = {}
        complaints: list[ParseProblem] = []
        blocks = parse(text, file, complaints)
        if complaints and not blocks and not further:
            self.without_blocks.append(file)
        self.complaints += complaints
        for block in blocks:
            twice = found.pop(block.name, None)
            if twice is not None:
                what = f"this block replaces the one in line {twice.line}; combine them into one block"
                self.complaints.append(ParseProblem(file, block.line, f"[{block.name}] is set twice; {what}"))
            found[block.name] = block
        for name, block in found.items():
            earlier = self.blocks.get(name)
            if earlier is not None and further:
                for option, lines in block.options.items():
                    earlier.options.setdefault(option, []).extend(lines)
                continue
            if earlier is not None:
                self.replaced.append(self.blocks.pop(name))
            self.blocks[name] = block


def find_conf(config: str | None, environ: Mapping[str, str]) -> str:
    """Return the arc.conf to use: the given one, $ARC_CONFIG, the one A-REX runs with, /etc/arc.conf."""
    given = config or environ.get("ARC_CONFIG")
    if given:
        return given
    return RUN_TIME_FILE if os.path.exists(RUN_TIME_FILE) else ARC_CONF


def our_conf(arc_conf: str, environ: Mapping[str, str]) -> str:
    """The path of arcacct.conf: $ARCACCT_CONFIG, else next to arc.conf; /etc for A-REX's run-time file."""
    given = environ.get("ARCACCT_CONFIG")
    if given:
        return given
    return f"{'/etc' if is_run_time(arc_conf) else os.path.dirname(os.path.abspath(arc_conf))}/{OUR_CONF}"


def is_run_time(arc_conf: str) -> bool:
    """Whether A-REX runs with this file: arc.conf and arc.conf.d in one, as they were when it started."""
    return os.path.dirname(os.path.abspath(arc_conf)) in RUN_TIME_FOLDERS


def conf_d(arc_conf: str) -> list[str]:
    """
    Return the files in ``<arc.conf>.d`` in ARC's order; none for a file that A-REX runs with.

    As in `get_arc_conf_d` of ARC 7: names that end in ``.conf``, in the order of their bytes, then those in
    subdirectories. (An editor's files, ``*~`` and links ``.#*``, do not count.) Raises ConfigError.
    """
    return [] if is_run_time(arc_conf) else _conf_files(f"{arc_conf}.d")


def _conf_files(folder: str, above: tuple[tuple[int, int], ...] = ()) -> list[str]:
    """``above``: device and inode of the directories that it is in, since a link may lead back to one of them."""
    files, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    stat = entry.stat()
                    folders.append((entry.path, (stat.st_dev, stat.st_ino)))
                elif entry.name.endswith(".conf") and not entry.name.startswith(".#"):
                    files.append(entry.path)
        if folders and not above:
            stat = os.stat(folder)
            above = ((stat.st_dev, stat.st_ino),)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror}; run as a user who may read it") from error
    files.sort()
    for path, identity in sorted(folders):
        if identity not in above:
            files += _conf_files(path, (*above, identity))
    return files


def absolute(path: str) -> str:
    """`os.path.abspath`."""
    return os.path.abspath(path)


def load(config: str | None, environ: Mapping[str, str]) -> Conf:
    """
    Read arc.conf, then the files of arc.conf.d, which add to it, then arcacct.conf over both.

    A requested file (``config``, $ARC_CONFIG, $ARCACCT_CONFIG) must exist; one of the usual two may be missing: a host
    without A-REX has only arcacct.conf. Without [arcacct], [custom:arcacct] of arc.conf applies. Raises ConfigError for
    a file that cannot be read.
    """
    arc_conf = find_conf(config, environ)
    conf = Conf(arc_conf, our_conf(arc_conf, environ))
    _read(conf, conf.arc_conf, required=bool(config or environ.get("ARC_CONFIG")))
    for path in conf_d(conf.arc_conf):
        _read(conf, path, required=True, further=True)
    _read(conf, conf.our_conf, required=bool(environ.get("ARCACCT_CONFIG")))
    custom = conf.blocks.get("custom:arcacct")
    if custom is not None and "arcacct" not in conf.blocks:
        conf.blocks["arcacct"] = custom
    return conf


def _read(conf: Conf, path: str, *, required: bool, further: bool = False) -> None:
    try:
        # A comment may contain any bytes: ARC does not define the encoding of its files.
        text = read_regular(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        if required:
            todo = "fix or remove the link" if further else "give an existing configuration file"
            raise ConfigError(f"{path}: no such file; {todo}") from None
        return
    except IsADirectoryError:
        raise ConfigError(f"{path}: a directory; give the configuration file in it") from None
    except OSError as error:
        # Its type and size need no other user.
        is_other = error.errno in (errno.EINVAL, errno.EFBIG)
        todo = "give the configuration file" if is_other else "run as a user who may read it"
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; {todo}") from error
    # No file, host or command has a NUL in its name, and many functions raise an error for one.
    text = re.sub(r"\r\n?", "\n", text).replace("\0", "\N{REPLACEMENT CHARACTER}")
    conf.add(text, path, further=further)
