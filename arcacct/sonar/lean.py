"""
`arcacct node sample` without the command line's library: Python's own start is most of what a sample costs.

It understands the options of the command that need no explanation; whatever else is asked for is left to
`arcacct.cli.node`, which does the same and says what is wrong. A test counts what is imported here.
"""

import os

from arcacct.sonar.sampling import sample
from arcacct.sonar.telling import Host, line

FAILED = 75
_VALUES = ("--cluster", "--node", "--job-variable")


def main(arguments: "list[str]") -> "int | None":
    """Print one sample; the exit code, or ``None`` with nothing done if the arguments want more than that."""
    given = dict.fromkeys(_VALUES, "")
    system_jobs = True
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--exclude-system-jobs":
            system_jobs = False
        elif name in _VALUES:
            told = value if equals else next(words, None)
            if told is None:
                return None
            given[name] = told
        else:
            return None
    if os.isatty(1):
        # Whoever prints for people knows how.
        return None
    host = Host(given["--cluster"], given["--node"])
    text, succeeded = line(
        lambda: sample(host, system_jobs=system_jobs, variable=given["--job-variable"] or None), "sample", host
    )
    try:
        rest = f"{text}\n".encode()
        while rest:
            rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        return 0
    except (OSError, UnicodeEncodeError):
        return None
    return 0 if succeeded else FAILED
