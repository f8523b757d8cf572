"""The meaning of the configuration: immutable, complete, with all complaints at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from arcacct import secrecy
from arcacct.config import options, paths, values
from arcacct.config.options import Kinds, Problem, Target
from arcacct.config.parser import Conf, Option
from arcacct.config.paths import Places, places
from arcacct.config.review import callouts, jura_targets, review
from arcacct.errors import ConfigError
from arcacct.wording import count_of


class Settings(NamedTuple):
    """Every setting with its value."""

    hostname: str
    places: Places
    jura_database: str
    """jura-ng's publishing.db, which shows how far it came with each target; it may not exist."""
    targets: tuple[Target, ...]
    publishes: bool
    """Whether this host should publish; if not, it has no targets."""
    allow_jura: bool
    jura_targets: tuple[str, ...]
    """Blocks in arc.conf: targets of A-REX's jura-ng. arcacct must not publish to them unless this is allowed."""
    lrms_host: str
    """SubmitHost, MachineName and recordId host of jobs without an endpoint."""
    local_group_prefix: str | None
    map: tuple[values.MapRule, ...]
    node_benchmarks: tuple[values.NodeBenchmark, ...]
    cores: tuple[values.InstalledCores, ...]
    """No two hold on the same day."""
    cpu_watts: tuple[values.CPUWatts, ...]
    core_watts: float | None
    pue: float | None
    carbon_intensity: str | None
    queue_benchmarks: tuple[paths.QueueBenchmark, ...]
    """Of several that hold for a queue the first: ``queue_benchmark`` lines, then ARC's [queue:NAME]."""
    launchers: tuple[str, ...]
    """Our programs that A-REX calls at changes of state, by their name."""
    keep_messages_days: int
    names_kept_months: int
    """After this number of whole months, pseudonyms replace names of users; 0: never."""
    settle_s: int
    thresholds: values.Thresholds
    warnings: tuple[Problem, ...]


def settings(conf: Conf, kinds: Kinds, *, database: str | None = None, to_publish: bool = True) -> Settings:
    """
    The settings of this host; ``database`` of the command line wins.

    ``kinds``: the possible kinds of targets (`arcacct.targets.kinds`). ``to_publish``: whether the command may send, so
    that targets of jura-ng in arc.conf are an error; other commands get them in `Settings.jura_targets`. Raises
    ConfigError with one line for each error of the configuration.
    """
    found, problems = examine(conf, kinds, database=database, to_publish=to_publish)
    if found is None:
        wrong = options.errors(problems)
        count = count_of(len(wrong), "error")
        raise ConfigError(f"{count} in the configuration:", *map(str, wrong))
    return found


def examine(
    conf: Conf, kinds: Kinds, *, database: str | None = None, to_publish: bool = True
) -> tuple[Settings | None, list[Problem]]:
    """Return the settings (``None`` if an error prevents them) and every problem in the order of the files."""
    remember_secrets(conf)
    problems: list[Problem] = []
    read = {
        kind: options.read_block(conf, kind, options.OPTIONS[kind], problems)
        for kind in ("common", "arex", "lrms", "arex/jura", "arcacct")
    }
    common, ours = read["common"], read["arcacct"]
    queues = []
    for block in conf.blocks.values():
        if block.kind == "queue" and block.label:
            rated = options.read_block(conf, block.name, options.OPTIONS["queue"], problems)["benchmark"]
            queues += [paths.QueueBenchmark(block.label, rated[0])] if rated else []
    publishes = ours["publishes"] is not False
    found = options.targets(conf, kinds, problems)
    problems += options.shared_receivers(conf, found)
    problems += review(conf, kinds, allow_jura=bool(ours["allow_jura"]) or not publishes or not to_publish)
    if not publishes:
        problems += _unwanted(conf, found)
        found = ()
    controldir = os.path.abspath(read["arex"]["controldir"] or paths.CONTROLDIR)
    for option, path, text in paths.misplaced_options(conf, controldir, database):
        line = None if database and option == "database" else conf.option("arcacct", option)
        if line is None:
            problems.append(Problem(options.ERROR, path, None, None, None, text))
        else:
            problems.append(Problem(options.ERROR, line.file, line.line, conf.blocks["arcacct"].name, option, text))
    problems += _contradicting(conf, "queue_benchmark", paths.queue_benchmark, lambda one: one.queue)
    # Patterns of CPU models are compared in small letters; the cores of the site have no name.
    problems += _contradicting(conf, "node_benchmark", values.node_benchmark, lambda one: one.pattern.lower())
    problems += _contradicting(conf, "cores", values.installed_cores, lambda _one: "")
    limits = thresholds(conf, problems)
    problems = options.in_order(problems, conf.files)
    if options.errors(problems):
        return None, problems
    where = places(conf, None, database)
    ours["lrms_host"] = ours["lrms_host"] or common["hostname"]
    made = Settings(
        hostname=common["hostname"],
        places=where,
        jura_database=where.controldir + "/accounting/publishing.db",
        targets=found,
        jura_targets=tuple(block.name for block in jura_targets(conf, kinds)),
        node_benchmarks=ours["node_benchmark"],
        queue_benchmarks=(*ours["queue_benchmark"], *queues),
        launchers=tuple(dict.fromkeys(one.program for one in callouts(conf))),
        thresholds=limits,
        warnings=tuple(problem for problem in problems if problem.severity == options.WARNING),
        **{field: value for field, value in ours.items() if field in Settings._fields},
    )
    return made, problems


def thresholds(conf: Conf, problems: list[Problem]) -> values.Thresholds:
    """The limits of [arcacct]; the defaults where ``problems``, to which it adds what is wrong, has errors."""
    given = options.read_block(conf, "arcacct", options.LIMITS, problems)
    limits = values.Thresholds().changed(given)
    for limit, *specs in zip(limits, options.LIMITS[::2], options.LIMITS[1::2], strict=True):
        is_beyond = limit.warning < limit.critical if limit.is_minimum else limit.warning > limit.critical
        if is_beyond and None not in (given[spec.field] for spec in specs):
            found = {spec.name: options.find(conf, "arcacct", spec) for spec in specs}
            name, line = next((name, one.lines[0]) for name, one in found.items() if one.lines)
            texts = " is beyond ".join(f"{name}={one.texts[0]}" for name, one in found.items())
            text = f"{texts}, so nothing is a warning before it is critical; change one of them"
            problems.append(Problem(options.ERROR, line.file, line.line, conf.blocks["arcacct"].name, name, text))
    return values.Thresholds() if options.errors(problems) else limits


def _unwanted(conf: Conf, found: Sequence[Target]) -> Iterator[Problem]:
    """
    Return targets of ours on a host that should not publish: one of the two settings is a mistake, and only a person
    can know which.
    """
    for target in found:
        block = conf.blocks[target.block]
        if block.file == conf.our_conf:
            text = "is a target, but [arcacct] publishes=no means that nothing is published; remove one of them"
            yield Problem(options.ERROR, block.file, block.line, block.name, None, text)


def _contradicting(conf: Conf, option: str, read: Callable[..., Any], name_of: Callable[..., str]) -> Iterator[Problem]:
    """Lines that hold for the same name on the same day as one before."""
    block = conf.blocks.get("arcacct")
    seen: list[tuple[str, paths.Validity, Option]] = []
    for line in block.options.get(option, ()) if block is not None else ():
        try:
            value = read(line.value)
        except ValueError:
            # The complaint is about the line itself.
            continue
        name, valid = name_of(value), value.valid
        other = next((there for known, held, there in seen if known == name and held.overlaps(valid)), None)
        if block is not None and other is not None:
            what = f'"{name}" has another benchmark' if name else "there is another number of cores"
            text = (
                f"{what} at the same time in line {other.line} of {other.file}; give one of them from= or to= so that"
                " no day has both"
            )
            yield Problem(options.ERROR, line.file, line.line, block.name, option, text)
        seen.append((name, valid, line))


def remember_secrets(conf: Conf) -> None:
    """
    Hide the password of every URL from now on, even if the option is misspelt or the URL is invalid.

    Also hide the part after its path: no URL of ours has a query, but another program's may have a token there.
    """
    for block in [*conf.blocks.values(), *conf.replaced]:
        for name, lines in block.options.items():
            if ":" in name:
                # No option has a colon in its name, but a URL on the wrong side of the equals sign does.
                _remember_url(name)
            for line in lines:
                # The colons of no_proxy belong to addresses.
                if (name.lower().endswith(("url", "proxy")) and name != "no_proxy") or "://" in line.value:
                    _remember_url(line.value)


def _remember_url(text: str) -> None:
    secrecy.keep_login(text.strip("'\""))
    if behind := re.search("[?#](.*)", text):
        for part in behind[1].strip("'\"").split("&"):
            secrecy.keep(part.partition("=")[2] or part)
