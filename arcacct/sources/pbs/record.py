"""The grammar of PBS's records: the place of each key's value in a line."""

from __future__ import annotations

import re

# OpenPBS, PBS Professional and Torque write a record in one order, ``key=value`` with a blank between:
#
#   gridname="..." user= group= account="..." project= accounting_id="..." jobname= queue= resvname= resvID=
#   ctime= qtime= etime= start= ... exec_host= exec_vnode=     (Torque has start_count= and owner= among them)
#   Resource_List.*=                                           (and Torque x=)
#   session= ... end= Exit_status= resources_used.*= run_count=
#
# Users choose gridname, account, project, jobname, resvname, Resource_List.* and x. Nothing in them is escaped: such a
# text may contain whole records. The server writes its own values in two runs without a text between: the times with
# the hosts, directly after the queue, and the end. Each line has both runs. So a run that occurs once is the server's.
# If one occurs twice, nothing decides. The texts are cut at keys in the same way.
#
# A line without such a run of times is of another writer: some tools sort the keys.


_OF_TIMES = "ctime|qtime|etime|start_count|start|owner|array_indices|exec_host|exec_vnode"
_OF_END = "total_execution_slots|unique_node_count|end|Exit_status"
_TIMES = re.compile(rf" (?:queue|resvID)=[^ ]*((?: (?:{_OF_TIMES}|session|{_OF_END})=[^ ]*)+)")
_END = re.compile(rf" (?:session=[^ ]* )?(?:{_OF_END})=[^ ]*(?: (?:{_OF_END})=[^ ]*)*")
_RESERVED = re.compile(r" queue=([^ ]*) resvname=")
_BEGIN = re.compile(r"(?: Exit_status=[^ ]*)? (?:gridname|user)=")
_OWNER = re.compile(
    r"((?: Exit_status=[^ ]*)?)(?: user=(.*?))?(?: group=(.*?))?((?: Exit_status=[^ ]*)?)"
    r"(?= (?:account|project|accounting_id|jobname)=|$)",
    re.DOTALL,
)
_PROJECT = re.compile(r"""("[^" ]* [^"]*"|[^ "][^ ]*|) accounting_id="[^"]*\"""")
_REQUEST = re.compile(r""" (Resource_List\.[^ =]+)=((?!["'])[^ ]*|"[^" ]* [^"]*(?<!=)"|'[^' ]* [^']*(?<!=)')(?![^ ])""")
_USED = re.compile(
    r" (resources_used\.(?:walltime|cput|mem|vmem|ncpus|ngpus)|Resource_List\.[^ =]+|Exit_status)=([^ ]*)"
)
_DECIDES = re.compile(r" (Resource_List\.(?:ncpus|nodes|ngpus|gpus|select|mppwidth))=")
_KEY = re.compile(r" ([A-Za-z_][\w.]*)=", re.ASCII)


class _TwiceError(Exception):
    """A key that may be a part of a text, with nothing that decides."""


def values_by_key(message: str, unusable: set[str]) -> dict[str, str]:
    """
    Return the values of a record's keys, without quotes. Adds the keys of doubtful requests to ``unusable``.

    Raises ValueError, with the key and both places, when a text of a user looks like a value of the server.
    """
    text = f" {message.rstrip(' ')}"
    try:
        runs = [
            one for one in _TIMES.finditer(text) if " ctime=" in one[1] and " qtime=" in one[1] and " etime=" in one[1]
        ]
        if not runs or not _BEGIN.match(text):
            return _of_sorted(text) if " ctime=" in text else {}
        times = _only(runs, "ctime")
        said: dict[str, str] = {}
        _add(said, times[1])
        _of_head(text[: times.start(1)], said, is_reserved=times[0].startswith(" resvID="))
        at = times.end()
        if "end" not in said:
            ends = [one for one in _END.finditer(text, at) if " end=" in one[0]]
            if not ends:
                return said
            end = _only([one for one in ends if " Exit_status=" in one[0]] or ends, "end")
            _add(said, end[0])
            _of_request(text[at : end.start()], said, unusable)
            at = end.end()
        _of_usage(text[at:], said)
    except _TwiceError as error:
        key = str(error)
        places = [str(one.start() + 1) for one in re.finditer(f" {re.escape(key)}=", text)]
        raise ValueError(
            f"{key} is at character {' and '.join(dict.fromkeys((places[0], places[-1])))} after the job's ID, and"
            " a user's text may contain it; correct the line, or drop the record"
        ) from error
    return said


def _only(places: list[re.Match[str]], key: str) -> re.Match[str]:
    if len(places) != 1:
        raise _TwiceError(key)
    return places[0]


def _cut(text: str, key: str, quote: str = "") -> tuple[str, str]:
    """Return the text before and after the only place of a key."""
    parts = text.split(f"{quote} {key}=", 2)
    if len(parts) > 2:
        raise _TwiceError(key)
    return parts[0], parts[-1] if len(parts) > 1 else ""


def _add(said: dict[str, str], run: str) -> None:
    """Add the values of a run. No value has a blank."""
    for part in run[1:].split(" "):
        key, _, value = part.partition("=")
        if key in said:
            raise _TwiceError(key)
        said[key] = value


def _of_head(text: str, said: dict[str, str], *, is_reserved: bool) -> None:
    """Add the texts before the times, and the queue."""
    if is_reserved:
        place = _only(list(_RESERVED.finditer(text)), "queue")
        said["queue"], text = place[1], text[: place.start()]
    else:
        text, _, said["queue"] = text.rpartition(" queue=")
    if text.startswith(" gridname="):
        text = " user=" + _cut(text, "user", '"')[1]
    if owner := _OWNER.match(text):
        early, said["user"], group, later = owner.groups("")
        said["group"] = _unquoted(group)
        for run in filter(None, (early, later)):
            _add(said, run)
        text = text[owner.end() :]
    key, _, text = text[1:].partition("=")
    if key == "account":
        after = [one for one in ("project", "accounting_id", "jobname") if f'" {one}=' in text]
        if text.startswith('"') and after and "owner" not in said:
            key = after[0]
            said["account"], text = _cut(text[1:], key, '"')
        else:
            # Torque has no project.
            key = "jobname"
            account, text = _cut(text, key)
            said["account"] = _unquoted(account)
    if key in ("project", "accounting_id"):
        project, text = _cut(text, "jobname")
        if key == "project":
            said["project"] = _project(project)
    said["jobname"] = text


def _project(text: str) -> str:
    """Return the project, which has quotes only if it has a blank, without an accounting_id behind it."""
    if " accounting_id=" in text:
        match = _PROJECT.fullmatch(text)
        if match is None:
            raise _TwiceError("accounting_id")
        text = match[1]
    return _unquoted(text) if " " in text else text


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _of_request(text: str, said: dict[str, str], unusable: set[str]) -> None:
    """Add what the job asked for. What a text with blanks and without quotes may hold is unusable."""
    at = 0
    while match := _REQUEST.match(text, at):
        if match[1] in said:
            raise _TwiceError(match[1])
        said[match[1]] = match[2]
        at = match.end()
    # Torque writes x= last, and other keys without quotes.
    is_torque = "exec_vnode" not in said
    if at < len(text) and not (is_torque and text.startswith(" x=", at)):
        for key in _DECIDES.findall(text, at if is_torque and _KEY.match(text, at) else 0):
            said.pop(key, None)
            unusable.add(key)


def _of_usage(text: str, said: dict[str, str]) -> None:
    """Add what the job used, and the account, which some servers write at the end."""
    before, found, account = text.partition(" account=")
    if found and "account" not in said:
        if " resources_used." in before:
            text = before
        else:
            account = account.partition(" resources_used.")[0]
        said["account"] = _unquoted(account)
    for key, value in _USED.findall(text):
        if key in said:
            raise _TwiceError(key)
        said[key] = value


def _of_sorted(text: str) -> dict[str, str]:
    """Return the values of a line that is sorted by its keys, which a key in a text of a user is not."""
    _, *parts = _KEY.split(text)
    keys = parts[::2]
    of_pro = ("accounting_id", "project")
    said: dict[str, str] = {}
    for key, value, after in zip(keys, parts[1::2], [*keys[1:], "~"], strict=True):
        is_text = key in ("account", "project", "jobname")
        if after <= key or (is_text and after not in ("ctime", "owner", "qtime", *of_pro)):
            raise _TwiceError(after)
        if key in of_pro and "exec_vnode" not in keys:
            raise _TwiceError(key)
        said[key] = value if key == "jobname" else _unquoted(value)
    return said
