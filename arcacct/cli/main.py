"""The command line: the table of commands, and the only place where an error becomes a line and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import re
import sys
import threading
from functools import partial
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple, NoReturn

import click

from arcacct import __version__, entry_points
from arcacct.cli.console import block, print_deprecated, print_error, print_line, report_error
from arcacct.errors import ArcacctError, StoreError, UsageError, cannot_load, use_as

COMMANDS = {
    "setup": "Guide the installation: check everything before A-REX restarts, and show the next steps.",
    "sweep": "Record the events in the spool, and what callouts missed.",
    "switch": "Take over from jura-ng without counting a job twice.",
    "publish": "Send new records to every configured target.",
    "republish": "Send the records of a period again.",
    "quarantine": "List, retry, drop or decide on records that are not sent.",
    "job": "Show everything about one job: record, events, transfers, and what was sent, or why it was not.",
    "stats": "Sum jobs, in arcctl's format or by month, VO, user, ...",
    "report": "Report a month: usage, pledge, failures, users, energy and publishing.",
    "export": "Write the finished jobs of this CE into a dataset of many CEs, as Parquet.",
    "query": "Run one read-only SQL query.",
    "fleet": "Query many CEs at once, from the files of `arcacct export`.",
    "status": "Show the health of everything, on one screen and by exit code.",
    "metrics": "Print health metrics for Prometheus, or write them for its textfile collector.",
    "verify": "Compare a month's counts and hours in all places that have them.",
    "import": "Import jobs that other programs have recorded.",
    "node": "Print data about this host in Sonar's format.",
    "features": "Write, show and check machine and job features.",
    "db": "Create, check and maintain the database.",
    "config": "Check and show the configuration.",
    "doctor": "Check everything that recording and publishing need; change and send nothing.",
    "sandbox": "Run receivers on this machine, to rehearse publishing.",
    "demo": "Record and publish a small, real control directory.",
    "help": "Show a page of the manual, or search it.",
}
"""Name and help of each command, in the order of a job's life."""
HIDDEN = ("record",)
"""Commands that no list shows."""
GROUP = "arcacct.commands"
"""Entry points of optional parts and other packages: the name of a command, and the command, an object of click."""


class FormerWords(NamedTuple):
    """The present form of a former command."""

    runs: str
    new: str | None
    """The new form, for the line on stderr; ``None`` for words of arcctl, which stay."""


FORMER = {
    **{f"job {section}": FormerWords(f"job --only {section}", None) for section in ("info", "events", "transfers")},
    "job why": FormerWords("job --only why", "`job JOBID`, or `job --only why JOBID`"),
    "quarantine show": FormerWords("quarantine show", "`job JOBID`"),
    "features machine write": FormerWords("features write machine", "`features write machine DIRECTORY KEY=VALUE`"),
    "features job write": FormerWords("features write job", "`features write job DIRECTORY KEY=VALUE`"),
    "features job set": FormerWords("features set", "`features write job --no-environment DIRECTORY KEY=VALUE`"),
    "features job remove": FormerWords("features remove", "`features remove DIRECTORY`"),
    "features shutdown set": FormerWords("features shutdown", "`features shutdown DIRECTORY WHEN`"),
    "features shutdown clear": FormerWords("features shutdown --cancel", "`features shutdown --cancel DIRECTORY`"),
}
"""By the words that were a command. All but arcctl's are gone in the next release."""
MODULES = {"sweep": "record", "query": "job", "import": "imports", "db": "database", "doctor": "config"}
"""The module of a command below `arcacct.cli`, where it is not called as the command."""


_ADVICE = {
    errno.ENOSPC: "free space on that disk (df)",
    errno.EDQUOT: "the quota of this user is used up",
    errno.ENOLCK: "put the databases on a local disk, or start the lock service of that file system",
    errno.ENOENT: "check the path: its directory must exist, or it must be possible to create it",
    errno.ENOTDIR: "a part of this path is a file; name a directory",
    errno.EROFS: "its file system is read-only: name another directory, or mount it read-write",
    errno.EMFILE: "raise the limit of open files (ulimit -n, LimitNOFILE)",
    errno.ENOMEM: "raise the limit of memory (ulimit -v, MemoryMax)",
}
"""What to do about errors of the system."""


_NUMBER = re.compile(r"is not a valid (?:float|integer)(?: range)?(?=\.?$)")
"""The text of click about a value that is not a number."""


def commands() -> dict[str, str]:
    """Return name and help of every installed command: ours from the table, then those of other packages."""
    registered = entry_points.names(GROUP)
    found = {
        name: text for name, text in COMMANDS.items() if name not in entry_points.PARTS[GROUP] or name in registered
    }
    for name in registered:
        if name not in {*COMMANDS, *HIDDEN}:
            try:
                command = _registered(name)
            except ArcacctError as error:
                entry_points.complain(str(error))
            else:
                found[name] = command.get_short_help_str(200) if command else ""
    return found


def _registered(name: str) -> click.Command | None:
    """Return the command that a package has registered; ``None``: none has. Raises ConfigError if it is unusable."""

    def use(command: Any) -> tuple[click.Command, str]:
        is_command = isinstance(command, click.Command)
        return command, "" if is_command else f"it is a {type(command).__name__}, not a command of click"

    return entry_points.load(GROUP, name, f"command {name}", use)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return [*commands(), *HIDDEN]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for words, former in FORMER.items():
            parts = words.split()
            if args[: len(parts)] == parts:
                if former.new and not ctx.resilient_parsing:
                    print_deprecated(f"`{words}`", former.new)
                args = [*former.runs.split(), *args[len(parts) :]]
                break
        if not args[0].startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            if any(f"--{args[0]}" in param.opts for param in self.params):
                raise click.UsageError(f"{args[0]!r} is not a command; did you mean `arcacct --{args[0]}`?", ctx)
            if args[0] in entry_points.PARTS[GROUP]:
                raise UsageError(f"command {args[0]} {entry_points.NOT_INSTALLED}")
            # click knows only commands that are imported: it would suggest none.
            raise click.exceptions.NoSuchCommand(args[0], possibilities=commands(), ctx=ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        command: click.Command | None
        if cmd_name in {*COMMANDS, *HIDDEN}.difference(entry_points.PARTS[GROUP]):
            module = import_module(f"arcacct.cli.{MODULES.get(cmd_name, cmd_name)}")
            # No function can be called `import`.
            command = getattr(module, f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name)
        else:
            command = _registered(cmd_name)
        if command is None:
            return None
        if not gc.isenabled():
            # As in etc/arcacct: the objects loaded so far never become garbage.
            gc.freeze()
            gc.enable()
        # In full, for the help of a group, and for shells that show it next to a completion.
        for one in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
            one.short_help = one.get_short_help_str(200)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Commands return their exit code. SystemExit comes from another package, and must not look like success.
            raise as_ours(error) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        # From the table, so that `arcacct --help` imports no command of ours.
        with formatter.section("Commands"):
            formatter.write_dl(list(commands().items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExamples:\n  arcacct status\n  arcacct publish --dry-run\n  arcacct stats --by month,vo",
)
@click.version_option(__version__, prog_name="arcacct")
@click.option("--config", metavar="FILE", help="Read this arc.conf instead of the host's.")
@click.option("--database", metavar="FILE", help="Use this accounting database instead of the configured one.")
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.pass_context
def arcacct(ctx: click.Context, config: str | None, database: str | None, debug: bool) -> None:
    """Accounting of an ARC computing element: record every job, publish it once, answer every question."""
    ctx.obj = {"config": config, "database": database, "debug": debug}


def main(args: list[str] | None = None) -> None:
    """Run a command; the only place where an error becomes a line on stderr and an exit code."""
    debug = "--debug" in (sys.argv if args is None else args)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The caller may have closed a stream. Printing must then not fail, and no file of ours may get the stream's
            # number, which is the lowest free one.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  open as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # If the terminal's encoding lacks a character, show it as an escape.
            stream.reconfigure(errors="backslashreplace")
    if "_ARCACCT_COMPLETE" not in os.environ:
        entry_points.complain = print_error
    try:
        code = _run(args)
        if args is None:
            _end(code)
        sys.exit(code)
    except Exception as error:  # noqa: BLE001  whatever it is, a user meets a line and no traceback
        known = as_ours(error)
        if debug:
            import traceback  # noqa: PLC0415  only then

            block("".join(traceback.format_exception(error)), partial(print_line, err=True))
        report_error(known)
        if isinstance(error, OSError) and error.filename is None:
            # Do not try again at exit what stdout could not take.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(known.exit_code)


def _end(code: int) -> NoReturn:
    """
    End this process as the interpreter would, but leave its memory to the system: emptying it takes 10 to 30 ms.

    Raises OSError if the output cannot be written.
    """
    # The interpreter calls this first at exit: it waits for threads that are no daemons, and calls the registered
    # functions.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def as_ours(error: BaseException) -> ArcacctError:
    """Return an error of the tree for any exception: no user sees a traceback."""
    if isinstance(error, ArcacctError):
        return error
    name = type(error).__name__
    if of_system := _of_system(error):
        return StoreError(of_system)
    if isinstance(error, UnicodeEncodeError):
        # Python keeps undecodable bytes of the command line as lone surrogates.
        for given in sys.argv:
            if any("\ud800" <= letter <= "\udfff" for letter in given):
                return UsageError(f"{given!a}: not UTF-8, so no database can store or find it; use another name")
    from arcacct.database.access import blamed  # noqa: PLC0415  only then

    # A value from a damaged database may make any code fail.
    if (known := blamed(error)) is not None:
        return known
    return ArcacctError(f"internal error: {name}: {error}; please report the output of `arcacct --debug ...`")


def _of_system(error: BaseException) -> str:
    """Return the problem, the place and what to do, if the error is of the system; else empty."""
    if isinstance(error, MemoryError):
        return (
            "not enough memory: this process is at its limit; request less at once, or raise the limit (ulimit -v,"
            " MemoryMax of its service)"
        )
    if isinstance(error, OSError):
        advice = _ADVICE.get(error.errno or 0)
        if error.errno == errno.EACCES:
            advice = use_as(str(error.filename), "a user who may use it, usually root or the user of A-REX")
        return f"{error.filename or 'system'}: {error.strerror or error}{f'; {advice}' if advice else ''}"
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return cannot_load(error)
    return ""


def _parsed(error: BaseException) -> click.Context | None:
    """Return the command whose options click parsed at an error: click does not name it if a value is missing."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        ctx = trace.tb_frame.f_locals.get("ctx")
        found, trace = ctx if isinstance(ctx, click.Context) else found, trace.tb_next
    return found


def _allowed(ctx: click.Context, option: str) -> str:
    """Return the allowed values of an option as the end of a sentence; empty if it has no list of values."""
    kind = next((one.type for one in ctx.command.params if option in one.opts), None)
    if not isinstance(kind, click.Choice):
        return ""
    *words, last = kind.choices
    return f": {', '.join(words)} or {last}"


def _run(args: list[str] | None) -> int:
    try:
        result: Any = arcacct.main(args, prog_name="arcacct", standalone_mode=False)
    except click.Abort:
        print_line("arcacct: stopped", err=True)
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.ClickException as error:
        words = _NUMBER.sub("is not a number", " ".join(error.format_message().split())).rstrip(".")
        ctx = (error.ctx if isinstance(error, click.UsageError) else None) or _parsed(error)
        if isinstance(error, click.BadOptionUsage) and ctx is not None:
            words += _allowed(ctx, error.option_name) if words.endswith("requires an argument") else ""
        if isinstance(error, click.NoSuchOption) and any(error.option_name in one.opts for one in arcacct.params):
            words = f"{error.option_name} belongs before the command: `arcacct {error.option_name} ... COMMAND`"
        raise UsageError(f"{words}; see `{ctx.command_path if ctx else 'arcacct'} --help`") from error
    except SystemExit:
        if "_ARCACCT_COMPLETE" in os.environ:
            raise
        # Otherwise click itself exits only when the reader of our output is gone (`arcacct ... | head`): this is no
        # error.
        return 0
    return result if isinstance(result, int) else 0
