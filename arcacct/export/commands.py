"""`arcacct export`: the jobs of this CE as part of a dataset of many, which every engine reads."""

from __future__ import annotations

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import settings_of
from arcacct.cli.progress import progress
from arcacct.config.paths import refuse_of_arex
from arcacct.database import access
from arcacct.errors import InputError, UsageError
from arcacct.export.dataset import NAMES, key_name
from arcacct.wording import count_of


@click.command(
    epilog=examples(
        "arcacct export /srv/accounting",
        "arcacct export --names hashed s3://accounting/wlcg",
        "arcacct export --site NO-NORGRID --ce ce1.example.org /srv/accounting",
    )
)
@click.argument("directory", metavar="DIR")
@click.option("--site", metavar="NAME", help="Site, instead of the gocdb_name of the targets.")
@click.option("--ce", metavar="HOST", help="Name of this CE, instead of [common] hostname.")
@click.option(
    "--names",
    type=click.Choice(NAMES),
    default="plain",
    show_default=True,
    help="Names of users: plain, hashed with the key of this site, or left out.",
)
@click.pass_context
def export(ctx: click.Context, directory: str, site: str | None, ce: str | None, names: str) -> int:
    """
    Write the finished jobs of this CE into a dataset of many CEs, as Parquet.

    DIR is a directory, or a URL such as s3://bucket/path. Only months that changed are written. Readers see each month
    either before or after the change, never a part of it. Anything that cannot be exported is named, the rest is
    exported, and the exit code is 65.
    """
    # The import of pyarrow takes a moment, and few hosts have it.
    from arcacct.export.storage import open_store  # noqa: PLC0415

    settings = settings_of(ctx)
    if site is None:
        sites = sorted({one for target in settings.targets if (one := getattr(target, "gocdb_name", None))})
        if len(sites) != 1:
            known = f"the targets have several ({', '.join(sites)})" if sites else "no target has a gocdb_name"
            raise UsageError(f"unknown site: {known}: name it with --site")
        site = sites[0]
    ce = ce or settings.hostname
    key_name(site, "--site")
    key_name(ce, "--ce")
    if "://" not in directory:
        refuse_of_arex(directory, settings.places.controldir)
    store = open_store(directory)
    store.make()
    from arcacct.export.writer import ExportOptions  # noqa: PLC0415
    from arcacct.export.writer import export as exported  # noqa: PLC0415

    with access.translating(settings.places.database), progress("exporting") as tell:
        done = exported(settings.places, store, ExportOptions(site, ce, names), tell)
    if done.written:
        print_line(
            f"{count_of(len(done.written), 'month')} of {ce} written, {count_of(done.jobs, 'job')},"
            f" {done.bytes / 1e6:.1f} MB; {done.unchanged} unchanged"
        )
    else:
        print_line(f"nothing to write: {count_of(done.unchanged, 'month')} of {ce} unchanged")
    print_error(*done.problems)
    return InputError.exit_code if done.problems else 0
