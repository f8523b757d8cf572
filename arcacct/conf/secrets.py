"""The passwords of a configuration: known before anything is said of it."""

from __future__ import annotations

import re

from arcacct import secrecy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.conf.parser import Conf


def remember_secrets(conf: Conf) -> None:
    """
    Hide the password of every URL from now on, also where the option is misspelt or the URL is none.

    And what stands behind its path: no URL of ours has a query, but that of another program may have a token there.
    """
    for block in [*conf.blocks.values(), *conf.replaced]:
        for name, lines in block.options.items():
            if ":" in name:
                # No option has a colon in its name, but a URL on the wrong side of the equals sign has.
                _remember_url(name)
            for line in lines:
                if name.lower().endswith(("url", "proxy")) or "://" in line.value:
                    _remember_url(line.value)


def _remember_url(text: str) -> None:
    secrecy.keep_login(text.strip("'\""))
    if behind := re.search("[?#](.*)", text):
        for part in behind[1].strip("'\"").split("&"):
            secrecy.keep(part.partition("=")[2] or part)
