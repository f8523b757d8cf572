"""`arcacct config`: is the configuration right, and what does it come to?"""

from __future__ import annotations

from collections.abc import Iterator

import click

from arcacct.cli.context import conf_of
from arcacct.cli.speech import block, examples, print_line
from arcacct.config.check import check, show
from arcacct.config.options import WARNING, Problem, errors
from arcacct.config.parser import Conf
from arcacct.config.paths import places
from arcacct.database.location import misplaced
from arcacct.errors import ConfigError
from arcacct.queries.doctor_checks import unknown_vos
from arcacct.targets import kinds
from arcacct.wording import count_of


@click.group(epilog=examples("arcacct config check", "arcacct config show"))
def config() -> None:
    """Check and show the configuration."""


@config.command("check", epilog=examples("arcacct --config /tmp/arc.conf config check"))
@click.pass_context
def check_command(ctx: click.Context) -> int:
    """
    List everything that is wrong: file, line, block, option, what is wrong, what would be right.

    Looks at arc.conf, arc.conf.d, arcacct.conf and the files they name (certificate, key, CA directory).
    Exits with 78 if there is an error, with 0 if there are only warnings.
    """
    conf = conf_of(ctx)
    given = ctx.obj["database"]
    problems = [*check(conf, kinds()), *_astray(conf, given), *unknown_vos(conf, kinds(), given)]
    for problem in problems:
        print_line(str(problem))
    wrong = len(errors(problems))
    counts = f"{count_of(wrong, 'error')}, {count_of(len(problems) - wrong, 'warning')}"
    print_line(f"{'not ok' if wrong else 'ok'}: {', '.join(conf.files)}: {counts}", err=True)
    return ConfigError.exit_code if wrong else 0


@config.command("show", epilog=examples("arcacct config show"))
@click.pass_context
def show_command(ctx: click.Context) -> None:
    """
    Print the settings in force, each under the file and line that sets it.

    The output has the syntax of arcacct.conf; it names key files but never what is in them.
    """
    block(show(conf_of(ctx), kinds(), ctx.obj["database"]))


def _astray(conf: Conf, database: str | None) -> Iterator[Problem]:
    """No error: A-REX may not have been started yet."""
    try:
        here = places(conf, None, database)
    except ConfigError:
        return  # is among the problems already
    what = misplaced(here) if conf.files else ""
    if what:
        line = conf.option("arex", "controldir")
        text = (
            f"{here.controldir}: {what}; no database is begun below it before A-REX was started with it (on a host "
            "without A-REX set database= in [arcacct])"
        )
        file, number = (conf.arc_conf, None) if line is None else (line.file, line.line)
        yield Problem(WARNING, file, number, "arex", "controldir", text)
