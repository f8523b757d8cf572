"""The passwords of a configuration: known before anything is said of it."""

from __future__ import annotations

from arcacct import secrecy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.conf.parser import Conf


def remember_secrets(conf: Conf) -> None:
    """Hide the password of every URL from now on, also where the option is misspelt or the URL is none."""
    for block in [*conf.blocks.values(), *conf.replaced]:
        for name, lines in block.options.items():
            for line in lines:
                if "@" in line.value and (name.lower().endswith(("url", "proxy")) or "://" in line.value):
                    secrecy.keep_login(line.value.strip("'\""))
