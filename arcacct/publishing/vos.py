"""VOs that a target is limited to and that no recorded job has: a slip of the pen stops everything there."""

from __future__ import annotations

from contextlib import closing
from difflib import get_close_matches

from arcacct.config.options import WARNING, Kinds, Problem
from arcacct.config.parser import Conf
from arcacct.config.settings import examine
from arcacct.database import access
from arcacct.errors import ArcacctError
from arcacct.records import reader


def unknown_vos(conf: Conf, kinds: Kinds, database: str | None = None) -> list[Problem]:
    """A warning for each ``vofilter`` that selects no job of the database; none where there is no database to ask."""
    try:
        found, _problems = examine(conf, kinds, database=database)
        if found is None or not any(target.vofilter for target in found.targets):
            return []
        here = found.places
        with access.translating(here.database), closing(access.read_accounting(here)) as con:
            known = reader.vos(con)
    except ArcacctError:
        # Why it cannot be asked is for others to say.
        return []
    problems = []
    for target in found.targets:
        for vo in target.vofilter if known else ():
            if vo not in known:
                block = conf.blocks[target.block]
                line = next(one for one in block.options["vofilter"] if one.value == vo)
                like = get_close_matches(vo, known, 1)
                text = f"no recorded job is of VO {vo!r}; {f'did you mean {like[0]}?' if like else 'is it right?'}"
                problems.append(Problem(WARNING, line.file, line.line, block.name, "vofilter", text))
    return problems
