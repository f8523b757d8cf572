"""The texts of `arcacct config check` and `arcacct config show`."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from arcacct.benchmark import FALLBACK, FALLBACK_SHOWN, parsed_benchmark
from arcacct.config import credentials, options, parser
from arcacct.config.credentials import Finding
from arcacct.config.options import Kinds, Problem, Spec, Target
from arcacct.config.parser import Block, Conf, Option
from arcacct.config.paths import HOOK, places
from arcacct.config.review import Callout, Release, all_callouts, misplaced_callouts, release, wrong_callouts
from arcacct.config.settings import examine, thresholds
from arcacct.errors import ConfigError, use_as
from arcacct.files.directories import unseen
from arcacct.secrecy import without_login

LAUNCHERS = ("/usr/libexec/arcacct-hook", "/usr/local/libexec/arcacct-hook")
"""The places of the launcher in packages and in the manual."""

# Everything that `arcacct config check` reports: the files, the paths in them, and the callouts of A-REX.


def check(conf: Conf, kinds: Kinds, *, now: int | None = None) -> list[Problem]:
    """
    Every problem of the configuration and of the files it names, in the order of the files.

    ``now`` (UTC seconds) is the time at which certificates must be valid; default: now.
    """
    problems = check_text(conf, kinds, release(conf))
    limit = thresholds(conf, problems).certificate_s
    # A configuration with errors still has targets whose files can be looked at.
    for target in options.targets(conf, kinds, []):
        block = conf.blocks[target.block]
        for option, finding in _findings(target, int(time.time()) if now is None else now, limit.warning):
            found = options.find(conf, block.name, options.named(kinds[block.kind].options, option))
            # At the line that sets the option, be it the target's or one that it inherits; else at the target.
            line: Option | Block = found.lines[-1] if found.lines else block
            problems.append(Problem(finding.severity, line.file, line.line, found.block, option, finding.text))
    return options.in_order(problems, conf.files)


def launcher_problem(program: str) -> Finding | None:
    """Return why A-REX cannot start a callout's program; a warning if this user cannot see it. ``None``: it can."""
    fails = "A-REX fails each job whose callout cannot be started"
    what = "the launcher" if HOOK in program else "the program of a callout"
    if not program.startswith("/"):
        return Finding(options.ERROR, f"{program}: {what} has no absolute path; write the path from /")
    try:
        mode = os.stat(program).st_mode
    except PermissionError:
        text = f"{program}: {what} {unseen(program)}: it is unknown whether A-REX can start it"
        return Finding(options.WARNING, f"{text}; {use_as(program, 'root')}")
    except OSError as error:
        reason = unseen(program) or f"does not exist ({(error.strerror or '').lower()})"
        others = (os.path.join(os.path.dirname(program), os.path.basename(LAUNCHERS[0])), *LAUNCHERS)
        other = next((one for one in others if one != program and os.path.isfile(one)), None)
        todo = f"{other} exists: did you mean it?" if other else "put etc/arcacct-hook there with mv, or fix the path"
        if HOOK not in program:
            todo = "install it, or fix the path"
        return Finding(options.ERROR, f"{program}: {what} {reason}: {fails}; {todo}")
    if not stat.S_ISREG(mode):
        return Finding(options.ERROR, f"{program}: {what} is not a regular file: {fails}; replace it")
    if not mode & 0o111:
        return Finding(options.ERROR, f"{program}: {what} is not an executable program: {fails}; chmod 755 {program}")
    return None


def check_text(conf: Conf, kinds: Kinds, arex: Release) -> list[Problem]:
    """Check only the text and A-REX's run-time file, not the files that targets name."""
    if not conf.files:
        text = f"no such file, and no {conf.our_conf}; pass one with --config, or create it"
        return [Problem(options.ERROR, conf.arc_conf, None, None, None, text)]
    _, problems = examine(conf, kinds)
    callouts = [
        Problem(options.ERROR if is_error else options.WARNING, line.file, line.line, "arex", "statecallout", text)
        for line, is_error, text in wrong_callouts(conf, arex)
    ]
    callouts += misplaced_callouts(conf)
    found = [*problems, *_no_benchmark(conf), *not_restarted(conf), *callouts, *_no_programs(conf)]
    return options.in_order(found, conf.files)


def _no_programs(conf: Conf) -> Iterator[Problem]:
    """Callouts that A-REX cannot start, ours and those of others."""
    programs: dict[str, Callout] = {}
    for one in all_callouts(conf):
        programs.setdefault(one.program, one)
    for program, one in programs.items():
        if program and (found := launcher_problem(program)):
            yield Problem(found.severity, one.line.file, one.line.line, "arex", "statecallout", found.text)


def _no_benchmark(conf: Conf) -> Iterator[Problem]:
    """If no line names a benchmark, jobs have one only from their .diag or their features."""
    rating = {"lrms": "benchmark", "queue": "benchmark", "arcacct": "queue_benchmark node_benchmark"}
    for block in conf.blocks.values():
        names = rating.get("arcacct" if block.name == "custom:arcacct" else block.kind, "").split()
        lines = [line.value for name in names for line in block.options.get(name, ()) if line.value]
        # The default means no benchmark.
        if any(parsed_benchmark(value) != FALLBACK for value in lines):
            return
    text = (
        f"none is set, here or for a queue or a kind of node: jobs are published with {FALLBACK_SHOWN}, without"
        " normalised figures; measure one core and set benchmark=HEPscore23:VALUE"
    )
    yield Problem(options.WARNING, conf.files[0], None, "lrms", "benchmark", text)


def not_restarted(conf: Conf) -> Iterator[Problem]:
    """Return a problem if A-REX runs with an older file: arcacct reads the file that A-REX made at its start."""
    if not parser.is_run_time(conf.arc_conf):
        return
    try:
        began_ns = os.stat(conf.arc_conf).st_mtime_ns
        for path in (parser.ARC_CONF, *parser.conf_d(parser.ARC_CONF)):
            if os.stat(path).st_mtime_ns > began_ns:
                text = (
                    f"A-REX runs with this file and arcacct reads it, but {path} was changed afterwards; restart A-REX"
                )
                yield Problem(options.WARNING, conf.arc_conf, None, None, None, text)
    except (OSError, ConfigError):
        return  # no message to a user who may not see them


def _findings(target: Target, now: int, soon_s: int) -> Iterator[tuple[str, Finding]]:
    """Return the problems of the paths in the options of a target, by option."""
    for option, text in target.wrong():
        yield option, Finding(options.ERROR, text)
    shown = target.credentials()
    if shown is None:
        return
    found = credentials.certificate_findings(shown.x509_host_cert, now, soon_s)
    yield from (("x509_host_cert", one) for one in found)
    yield from credentials.pair_findings(target)
    if shown.ca_file is not None:
        yield from (("ca_file", one) for one in credentials.ca_file_findings(shown.ca_file))
    yield from (("x509_cert_dir", one) for one in credentials.ca_directory_findings(shown.x509_cert_dir, now))


# The settings in use, as text of the same syntax: reading it again gives the same settings.


ALWAYS = ("common", "arex", "lrms", "arcacct")
"""Blocks whose defaults apply even if no file has them."""


def show(conf: Conf, kinds: Kinds, database: str | None = None) -> str:
    """
    Return each option that has a value, under a comment with the line that sets it.

    ``database`` comes from the command line, which wins.
    """
    specs = options.options_of(kinds)
    names = [*ALWAYS, *(name for name in conf.blocks if name not in ALWAYS and conf.blocks[name].kind in specs)]
    lines = []
    for name in names:
        lines.append(f"[{name}]")
        for spec in specs[name.partition(":")[0]]:
            if name == "arcacct" and spec.name == "database" and database:
                lines += ["# --database", f"database = {database}"]
            else:
                lines += [*_set(conf, name, spec)] or _computed(conf, name, spec)
        lines.append("")
    return "\n".join(lines)


def _set(conf: Conf, block: str, spec: Spec) -> Iterator[str]:
    found = options.find(conf, block, spec)
    for text, line in zip(found.texts, found.lines, strict=False):
        yield f"# {line.file}:{line.line}" + (f" [{found.block}]" if found.block != block else "")
        yield f"{spec.name} = {without_login(text) if spec.is_url else text}"
    if found.lines and not found.texts:
        yield f"# {found.lines[-1].file}:{found.lines[-1].line}"
        yield f"{spec.name} ="


def _computed(conf: Conf, block: str, spec: Spec) -> Iterator[str]:
    """A default, where ARC has an expression or we have a rule its outcome."""
    value = spec.default
    if block == "common" and spec.name == "hostname":
        value = spec.read(spec.default or "")
    elif block == "arcacct" and spec.name == "lrms_host":
        value = conf.get("common", "hostname") or options.OPTIONS["common"][0].read("$EXEC{hostname -f}")
    elif block == "arcacct" and spec.name == "database":
        with suppress(ConfigError):  # `config check` reports errors.
            value = places(conf).database
    if value is not None:
        yield "# default"
        yield f"{spec.name} = {value}"
