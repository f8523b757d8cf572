"""What every command begins with: the configuration that the global options ask for."""

from __future__ import annotations

import os

import click

from arcacct.cli.speech import print_error
from arcacct.config.parser import Conf, load
from arcacct.config.paths import Places, places
from arcacct.config.settings import Settings, remember_secrets, settings
from arcacct.errors import ConfigError
from arcacct.targets import kinds


def conf_of(ctx: click.Context) -> Conf:
    """arc.conf and arcacct.conf of this host, or those that --config names. Raises ConfigError."""
    conf = load(ctx.obj["config"], os.environ)
    remember_secrets(conf)
    return conf


def places_of(ctx: click.Context, controldir: str | None = None) -> Places:
    """
    Where this host keeps its accounting; ``controldir`` and --database of the command line win.

    Raises ConfigError, also when neither a configuration nor the command line says where that is: the hook goes by
    ARC's defaults then, a person has more likely forgotten something.
    """
    conf = conf_of(ctx)
    if not conf.files and not controldir and not ctx.obj["database"]:
        raise ConfigError(
            f"{conf.arc_conf}: there is no such file, nor {conf.our_conf}; name a configuration with --config, "
            "or the control directory"
        )
    return places(conf, controldir, ctx.obj["database"])


def settings_of(ctx: click.Context, *, to_publish: bool = False, warns: bool = True) -> Settings:
    """
    Every setting. Raises ConfigError with every complaint.

    ``to_publish``: for a command that sends. Only there it is an error that jura-ng sends to the same targets.
    ``warns``: whether to say what is worth a warning, which is nothing for a command that asks for little of it.
    """
    found = settings(conf_of(ctx), kinds(), database=ctx.obj["database"], to_publish=to_publish)
    for problem in found.warnings if warns else ():
        print_error(f"warning: {problem}")
    return found


def name_of_user() -> str:
    """The user who gives the command, also behind sudo."""
    import getpass  # noqa: PLC0415  of few commands

    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
