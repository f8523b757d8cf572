"""
The state-change hook, ``arcacct-record CONTROLDIR JOBID STATE [CONF]``: records an event and always exits 0.

A-REX runs it inside its only job loop: a delay here holds every job of the site, and a failure fails this job. So it
uses only the standard library, and little of it (a test checks the imports), and makes one transaction. An event that
the database cannot take within the deadline becomes a file in the spool. While Python waits, the deadline raises an
exception and the hook spools the event. While SQLite or the disk works in C, where no exception can be raised, the
deadline ends the process and the launcher spools (INVARIANTS 13). Syncs are left to children for which A-REX does not
wait.
"""

import gc
import marshal
import posix
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from _signal import SIG_DFL, SIG_UNBLOCK, SIGALRM, pthread_sigmask, setitimer, signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    from arcacct.arex.control_files import JobFiles
    from arcacct.config.paths import Places
    from arcacct.database.connection import Connection


_ITIMER_REAL = 0
_LARGEST_PYC = 1 << 16
_SPOOL_S = 1.0
"""Seconds for writing into the spool, before the launcher does it."""
_BREAK_S = 30
"""Seconds for which the hooks after a slow one spool at once; the launcher's pause."""
_APART_S = 60.0
"""Seconds that a child may work in parallel to A-REX."""
_MOST_FDS = 256
_SYNC = "/bin/sync"
USAGE = "usage: arcacct-record CONTROLDIR JOBID STATE [CONF]"
LAUNCHED = b"ARCACCT_LAUNCHED"
"""The launcher sets it in the environment. It spools what the hook cannot, and needs its exit code for that."""

_NEEDED = (
    "errors",
    "config/",
    "config/parser",
    "config/paths",
    "records/",
    "records/states",
    "arex/control_files",
    "arex/job_facts",
    "database/",
    "database/connection",
    "records/recorder",
)
"""
The modules that every hook imports, each after the modules that it imports itself. Packages, whose __init__ has only a
docstring, end in a slash. Tests check the list.
"""
_NEEDED_AT_THE_END = (*_NEEDED, "records/packing")
"""Those of a job that has finished."""


class DeadlineError(Exception):
    """The time of a hook is over."""


class NotKeptError(Exception):
    """The event is neither in the database nor in the spool."""


def main() -> None:
    """Record the event of the command line. It never returns and never fails the job."""
    posix.umask(0o077)
    # No object needs to be freed before the end.
    gc.disable()
    exit_code = 0
    try:
        complaint = run(sys.argv[1:])
    except BaseException as error:  # noqa: BLE001  no error may affect the job
        complaint = str(error) if isinstance(error, NotKeptError) else f"{type(error).__name__}: {error}"
        exit_code = 1 if _is_launched() else 0
    if complaint:
        _complain(complaint)
    # Skip the interpreter's teardown and the closing of the database: closing would checkpoint (INVARIANTS 7).
    posix._exit(exit_code)  # noqa: SLF001  the name that os._exit has there


def _complain(text: str) -> None:
    line = f"arcacct-record: {' '.join(text.split())}"
    try:
        from arcacct.wording import sanitise_line  # noqa: PLC0415  only here

        line = sanitise_line(line)
    except Exception:  # noqa: BLE001  also complain if the installation is incomplete
        line = ascii(line)
    try:
        posix.write(2, f"{line}\n".encode())
    except OSError:
        return


def run(arguments: list[str]) -> str:
    """Record or spool an event; return a complaint for stderr, empty on success. Raises if neither was possible."""
    if arguments[2:3] != ["DELETED"]:
        _load_needed(_NEEDED_AT_THE_END if arguments[2:3] == ["FINISHED"] else _NEEDED)
    # Imports are in functions, so that nothing can fail before main's guard.
    from arcacct.arex.control_files import STATES, is_job_id  # noqa: PLC0415
    from arcacct.config.parser import absolute  # noqa: PLC0415

    if len(arguments) not in (3, 4) or not is_job_id(arguments[1]) or arguments[2] not in STATES:
        return f"{USAGE} (got {arguments!r})"
    controldir, job_id, state = absolute(arguments[0]), arguments[1], arguments[2]
    if state == "DELETED":
        return ""
    problem, here = _places(controldir, arguments[3] if len(arguments) == 4 else None)
    # The time starts here. Its end raises DeadlineError or, with `_in_c`, ends the process.
    _in_c(False)
    # The parent may have blocked the signal, and a process inherits that.
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))
    setitimer(_ITIMER_REAL, here.deadline_s)
    files = None
    try:
        from arcacct.arex.control_files import read_job  # noqa: PLC0415

        files = read_job(controldir, job_id, state)
        problem = problem or _broken(here.breaker)
        if not problem:
            write_back_apart(here.database, here.maintenance)
            record_event(here, files)
            if state == "FINISHED":
                _sync_apart(here.database + "-wal")
            return ""
    except BaseException as error:  # noqa: BLE001  the spool is for every reason
        said = f"not done after {here.deadline_s:g} s" if isinstance(error, DeadlineError) else error
        problem = f"{type(error).__name__}: {said}"
    left_s = setitimer(_ITIMER_REAL, _SPOOL_S if _is_launched() else 0)[0]
    _in_c(True)
    if left_s <= here.deadline_s / 2:
        _break(here.breaker)
    return _spool(here, files, (controldir, job_id, state), problem)


def _load_needed(needed: "tuple[str, ...]") -> None:
    """
    Load the modules of the hook from their .pyc files, by the import system's rules but in half of its time.

    (The import system searches each module along a path and in directories, which takes an eighth of a hook.)
    From the first unexpected module on (no .pyc, or a newer source), the import system loads the rest.
    """
    folder = __file__.rpartition("/")[0].rpartition("/")[0]
    for name in needed:
        try:
            if name[-1] == "/":
                if f"arcacct.{name[:-1]}" not in sys.modules:
                    # Its __init__ does nothing and is not run.
                    package = sys.modules[f"arcacct.{name[:-1]}"] = type(sys)(f"arcacct.{name[:-1]}")
                    package.__path__ = [f"{folder}/{name[:-1]}"]
                    setattr(sys.modules["arcacct"], name[:-1], package)
                continue
            code = _compiled(folder, name)
            if code is None:
                return
            _run_module(folder, name, code)
        except Exception:  # noqa: BLE001  an import that fails will say why
            return


def _compiled(folder: str, name: str) -> "CodeType | None":
    """Return the code of a module if its .pyc fits this Python and the present source; else None. Raises OSError."""
    place, _, last = f"{folder}/{name}".rpartition("/")
    fd = posix.open(f"{place}/__pycache__/{last}.{sys.implementation.cache_tag}.pyc", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        content = posix.read(fd, _LARGEST_PYC)
    finally:
        posix.close(fd)
    source = posix.stat(f"{folder}/{name}.py")
    # A .pyc starts with: version, flags (0: checked by time and size), time and size, both modulo 2^32.
    begin = MAGIC_NUMBER + bytes(4)
    for number in (int(source.st_mtime), source.st_size):
        begin += (number & 0xFFFFFFFF).to_bytes(4, "little")
    if content[:16] != begin or sys.flags.optimize:
        return None
    code: CodeType = marshal.loads(memoryview(content)[16:])  # noqa: S302  what an import does
    return code


def _run_module(folder: str, name: str, code: "CodeType") -> None:
    parent, _, last = f"arcacct/{name}".replace("/", ".").rpartition(".")
    full = f"{parent}.{last}"
    if full in sys.modules:
        return
    module = sys.modules[full] = type(sys)(full)
    module.__file__ = f"{folder}/{name}.py"
    try:
        exec(code, module.__dict__)  # noqa: S102  what an import does
    except BaseException:
        del sys.modules[full]
        raise
    setattr(sys.modules[parent], last, module)


def _places(controldir: str, config: str | None) -> "tuple[str, Places]":
    from arcacct.config.parser import load  # noqa: PLC0415
    from arcacct.config.paths import places  # noqa: PLC0415

    environment = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in posix.environ.items()
    }
    try:
        try:
            conf = load(config, environment)
        except Exception:
            if config is not None or _is_there("/etc/arc.conf"):
                raise
            # Without any configuration the control directory comes from the command line, and the rest has defaults.
            conf = None
        return "", places(conf, controldir)
    except Exception as error:  # noqa: BLE001  with a broken configuration the event is spooled in the usual place
        return f"{type(error).__name__}: {error}", places(None, controldir)


def _is_there(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _in_c(yes: bool) -> None:
    """
    Say whether the next step may work in C for any time, where no signal handler runs.

    The deadline then ends the process, but only under the launcher, which spools. Any other parent waits for C.
    """
    signal(SIGALRM, SIG_DFL if yes and _is_launched() else _over)


def _is_launched() -> bool:
    return LAUNCHED in posix.environ


def _over(_number: int, _frame: object) -> None:
    raise DeadlineError


def _waits(begins: bool) -> None:
    """Switch to an exception at the deadline while `Transaction` waits in the queue."""
    _in_c(not begins)


def _broken(path: str) -> str:
    """Return why the database is not tried: another hook was too slow just now. Empty if there is no reason."""
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except OSError:
        return ""
    try:
        text = posix.read(fd, 32).strip()
    finally:
        posix.close(fd)
    from time import time  # noqa: PLC0415  only here

    # An impossible time, from a wrong clock, is ignored.
    if text.isdigit() and 0 < int(text) - time() <= _BREAK_S:
        return f"{path}: a hook was too slow just now"
    return ""


def _break(path: str) -> None:
    """Make the next hooks spool at once, so that a burst of events costs A-REX only one deadline."""
    from time import time  # noqa: PLC0415  only here

    from arcacct.files.directories import private_directory  # noqa: PLC0415

    try:
        private_directory(path.rpartition("/")[0])
        fd = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600)
        try:
            posix.write(fd, b"%d\n" % (time() + _BREAK_S))
        finally:
            posix.close(fd)
    except OSError:
        return


def write_back_apart(database: str, maintenance: str) -> None:
    """
    Let a child write back a WAL above its limit, so that A-REX does not wait for the syncs.

    It does nothing during maintenance (the file ``maintenance`` exists), which waits for processes with open databases.
    """
    from arcacct.database.connection import WAL_LIMIT_BYTES  # noqa: PLC0415

    try:
        if posix.stat(database + "-wal").st_size <= WAL_LIMIT_BYTES:
            return
    except OSError:
        return
    from arcacct.database import checkpoint  # noqa: PLC0415

    fd = checkpoint.begun(database)
    if fd < 0:
        return

    def work() -> None:
        from arcacct.database.connection import ACCOUNTING_SCHEMA, open_database  # noqa: PLC0415

        _refuse_maintenance(maintenance)
        con = open_database(database, ACCOUNTING_SCHEMA)
        _refuse_maintenance(maintenance)
        checkpoint.shrink_begun(con, database)
        # Exit with the database open: closing would remove the WAL, and the next hook would sync a new one.
        posix._exit(0)  # noqa: SLF001  the name that os._exit has there

    # Fork before this process opens the database: SQLite's connections and locks do not survive a fork.
    apart(work, keep=fd)
    posix.close(fd)


def _sync_apart(*paths: str) -> None:
    """
    Let `sync` make these files durable: the client may clean a finished job, and then the power may fail.

    (Starting a program costs A-REX a fifth of the cost of a fork of this process.)
    """
    quiet = [(posix.POSIX_SPAWN_OPEN, fd, "/dev/null", posix.O_RDWR, 0) for fd in range(3)]
    try:
        posix.posix_spawn(_SYNC, ["sync", "--", *paths], {}, file_actions=quiet)
    except OSError:
        return


def apart(work: "object", keep: int = -1) -> None:
    """
    Run ``work`` in a child without waiting for it: in its own session, without output, for a minute at most.

    The child keeps only the descriptor ``keep`` open: A-REX would wait for the end of the pipes.
    """
    try:
        if posix.fork():
            return
    except OSError:
        return
    try:
        signal(SIGALRM, SIG_DFL)
        setitimer(_ITIMER_REAL, _APART_S)
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR)
        for fd in range(3):
            posix.dup2(null, fd)
        posix.closerange(3, max(3, keep))
        posix.closerange(max(3, keep + 1), _MOST_FDS)
        work()  # type: ignore[operator]  # typing.Callable costs an import
    except BaseException:  # noqa: BLE001, S110  the next process does it
        pass
    finally:
        posix._exit(0)  # noqa: SLF001  the name that os._exit has there


def record_event(here: "Places", files: "JobFiles", con: "Connection | None" = None) -> str:
    """
    Record one event in the database, in one transaction in the queue; return what was new (`recorder.NEW_JOB`, ...).

    ``con`` is for callers with an open database. Without it the hook opens it and never closes it. Raises InputError
    if the job has no .local to read, StoreError if the database is missing, not ours, of another version or under
    maintenance.
    """
    from arcacct.arex.job_facts import job_facts  # noqa: PLC0415
    from arcacct.database.connection import ACCOUNTING_SCHEMA, Transaction, open_database  # noqa: PLC0415
    from arcacct.errors import InputError  # noqa: PLC0415
    from arcacct.records.recorder import record  # noqa: PLC0415

    facts = job_facts(files, here.rules)
    if not facts.known:
        raise InputError(f"{files.controldir}: job {files.job_id} has no .local to read")
    _refuse_maintenance(here.maintenance)
    patient = None
    if con is None:
        _in_c(True)
        patient = _waits
        # Wait for another program's lock for half of the time at most: the other half is for the spool.
        con = open_database(here.database, ACCOUNTING_SCHEMA, timeout_s=here.deadline_s / 2)
    with Transaction(con, here.database, here.queue_lock, patient):
        _refuse_maintenance(here.maintenance)
        return record(con, facts)


def _refuse_maintenance(path: str) -> None:
    from arcacct.errors import StoreBusy  # noqa: PLC0415

    if _is_there(path):
        raise StoreBusy(f"{path} exists: database maintenance is running, try again later")


def _spool(here: "Places", files: "JobFiles | None", event: tuple[str, str, str], problem: str) -> str:
    from arcacct.arex import spool  # noqa: PLC0415
    from arcacct.arex.control_files import JobFiles  # noqa: PLC0415

    complaints = []
    for folder in (here.spool, here.spool_fallback):
        if folder is None:
            continue
        try:
            path = spool.write(folder, files if files is not None else JobFiles(*event))
        except Exception as error:  # noqa: BLE001  there is another one, and the launcher
            complaints.append(str(error))
            continue
        # Also the file's name and the spool's name.
        _sync_apart(path, folder, folder.rpartition("/")[0])
        return f"{event[1]} {event[2]}: spooled as {path}: {problem}"
    # The last resort is a line in A-REX's log.
    raise NotKeptError(
        f"{event[1]} {event[2]}: not recorded ({problem}) and not spooled ({'; '.join(complaints)});"
        " `arcacct sweep` finds it"
    )
