"""
`systemctl` for a host that has no systemd, as far as an administrator uses it, and A-REX as one of its services.

Units are read where systemd reads them. A service starts as its ``ExecStart=`` says, a timer starts its service once.
A restart of A-REX checks what A-REX reads only then: its configuration, into the file that A-REX writes.
"""

from __future__ import annotations

import pathlib

RUNNING = "/run/arched-arex.cfg"
"""The configuration that A-REX was started with."""
_SCRIPT = r"""#!/bin/sh
ROOT='@ROOT@'
now= words=
for word; do
    case $word in
        --now) now=yes ;;
        --*) ;;
        *) words="$words $word" ;;
    esac
done
set -- $words
verb=$1
shift

find_unit() {
    for folder in "$ROOT/etc/systemd/system" "$ROOT/usr/lib/systemd/system"; do
        unit=$folder/$1
        [ ! -f "$unit" ] || return 0
    done
    echo "Unit $1 not found." >&2
    exit 5
}

start() {
    case $1 in *.timer) set -- "${1%.timer}.service" ;; esac
    find_unit "$1"
    command=$(sed -n 's/^ExecStart=//p' "$unit" | sed "s,/opt/,$ROOT/opt/,")
    log=$ROOT/run/$1.log
    if grep -q '^Type=oneshot' "$unit"; then
        (cd / && exec $command) </dev/null >>"$log" 2>&1 || { echo "Job for $1 failed."; cat "$log"; exit 1; } >&2
    else
        (cd / && exec setsid $command) </dev/null >>"$log" 2>&1 &
        echo $! >"$ROOT/run/$1.pid"
    fi
}

wanted="$ROOT/etc/systemd/system"
mkdir -p "$ROOT/run"
case "$verb $*" in
    'restart arc-arex')
        # A-REX writes each block once; [arex] is the last one of arc.conf here.
        more=$(ls -d "$ROOT"/etc/arc.conf.d/*.conf 2>/dev/null)
        { cat "$ROOT/etc/arc.conf"; [ -z "$more" ] || grep -v '^\[arex\]' $more; } >"$ROOT@RUNNING@"
        ;;
    daemon-reload*) ;;
    start*) for one; do start "$one"; done ;;
    enable*)
        for one; do
            find_unit "$one"
            folder=$wanted/$(sed -n 's/^WantedBy=//p' "$unit").wants
            mkdir -p "$folder" && ln -sf "$unit" "$folder/$one"
            [ -z "$now" ] || start "$one"
        done
        ;;
    is-enabled*)
        # As Debian 12's says it.
        (find_unit "$1") 2>/dev/null ||
            { echo "Failed to get unit file state for $1: No such file or directory" >&2; exit 1; }
        ls "$wanted"/*.wants/"$1" >/dev/null 2>&1 && echo enabled || { echo disabled; exit 1; }
        ;;
    is-active*)
        case $1 in
            # A timer runs while it is enabled here.
            *.timer) ls "$wanted"/*.wants/"$1" >/dev/null 2>&1 ;;
            *) [ -f "$ROOT/run/$1.pid" ] && kill -0 "$(cat "$ROOT/run/$1.pid")" 2>/dev/null ;;
        esac && echo active || { echo inactive; exit 3; }
        ;;
    *) echo "no such service here: $verb $*" >&2; exit 5 ;;
esac
"""


def install(path: pathlib.Path, root: str = "") -> None:
    """Write the program; ``root`` is where the host's ``/`` is, as the program sees it."""
    path.write_text(_SCRIPT.replace("@ROOT@", root).replace("@RUNNING@", RUNNING))
    path.chmod(0o755)
