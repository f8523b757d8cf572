"""Everything that `arcacct config check` says: the files, what they name, and the callouts of A-REX."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from arcacct.benchmark import FALLBACK, FALLBACK_SHOWN, parsed_benchmark
from arcacct.conf import credentials, parser
from arcacct.conf.callouts import wrong_callouts
from arcacct.conf.credentials import Finding
from arcacct.conf.lookup import find
from arcacct.conf.parser import Block, Conf, Option
from arcacct.conf.places import benchmark
from arcacct.conf.problems import ERROR, WARNING, Problem, in_order
from arcacct.conf.settings import examine
from arcacct.conf.targets import Kinds, Target, targets
from arcacct.errors import ConfigError


def check(conf: Conf, kinds: Kinds, *, now: int | None = None) -> list[Problem]:
    """
    Every problem of the configuration and of the files it names, in the order of the files.

    ``now`` (UTC seconds) is when certificates have to be valid; default: the present.
    """
    problems = check_text(conf, kinds)
    # A configuration with errors still has targets whose files can be looked at.
    for target in targets(conf, kinds, None, []):
        block = conf.blocks[target.block]
        for option, finding in _findings(target, int(time.time()) if now is None else now):
            found = find(conf, block.name, next(spec for spec in kinds[block.kind].options if spec.name == option))
            # At the line that sets the option, be it the target's or one that it inherits; else at the target.
            line: Option | Block = found.lines[-1] if found.lines else block
            problems.append(Problem(finding.severity, line.file, line.line, found.block, option, finding.text))
    return in_order(problems, conf.files)


def check_text(conf: Conf, kinds: Kinds) -> list[Problem]:
    """The same without the files that targets name: what the text itself says, and A-REX's own file beside it."""
    if not conf.files:
        text = f"there is no such file, nor {conf.our_conf}; name one by --config or write it"
        return [Problem(ERROR, conf.arc_conf, None, None, None, text)]
    _, problems = examine(conf, kinds)
    return in_order([*problems, *_no_benchmark(conf), *_not_restarted(conf), *_callouts(conf)], conf.files)


def _no_benchmark(conf: Conf) -> Iterator[Problem]:
    """Where no line names a benchmark, jobs have one only if their .diag or their features do."""
    rating = {"lrms": "benchmark", "queue": "benchmark", "arcacct": "queue_benchmark node_benchmark"}
    for block in conf.blocks.values():
        names = rating.get("arcacct" if block.name == "custom:arcacct" else block.kind, "").split()
        lines = [line.value for name in names for line in block.options.get(name, ()) if line.value]
        # The default stands for none.
        if any(parsed_benchmark(benchmark(value)) != FALLBACK for value in lines):
            return
    text = (
        f"there is none, neither here nor for a queue or a kind of node: jobs are published with {FALLBACK_SHOWN}, and"
        " there are no normalised figures; measure one core and write benchmark=HEPscore23:VALUE"
    )
    yield Problem(WARNING, conf.files[0], None, "lrms", "benchmark", text)


def _not_restarted(conf: Conf) -> Iterator[Problem]:
    """A-REX goes on with the file that it made of the others when it started, and so do we."""
    if not parser.is_run_time(conf.arc_conf):
        return
    try:
        began_ns = os.stat(conf.arc_conf).st_mtime_ns
        for path in (parser.ARC_CONF, *parser.conf_d(parser.ARC_CONF)):
            if os.stat(path).st_mtime_ns > began_ns:
                text = (
                    f"A-REX runs with this file, and arcacct reads it, but {path} was changed since it was made; "
                    "restart A-REX"
                )
                yield Problem(WARNING, conf.arc_conf, None, None, None, text)
    except (OSError, ConfigError):
        return  # who may not see them is told nothing


def _findings(target: Target, now: int) -> Iterator[tuple[str, Finding]]:
    """What is wrong with what the options of a target name, by option."""
    for option, text in target.wrong():
        yield option, Finding(ERROR, text)
    shown = target.credentials()
    if shown is None:
        return
    yield from (("x509_host_cert", one) for one in credentials.certificate_findings(shown.x509_host_cert, now))
    yield from credentials.pair_findings(target)
    if shown.ca_file is not None:
        yield from (("ca_file", one) for one in credentials.ca_file_findings(shown.ca_file))
    yield from (("x509_cert_dir", one) for one in credentials.ca_directory_findings(shown.x509_cert_dir))


def _callouts(conf: Conf) -> Iterator[Problem]:
    for line, is_error, text in wrong_callouts(conf):
        yield Problem(ERROR if is_error else WARNING, line.file, line.line, "arex", "statecallout", text)
