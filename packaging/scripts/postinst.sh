compile() {
    # If A-REX does not run as root, Python cannot keep compiled modules, and would compile them at each event.
    "$HOME_DIR/bin/python3" -I -m compileall -q -f "$OURS/site-packages" >/dev/null ||
        say "some files could not be compiled; arcacct works, and starts more slowly"
}

fits_python() {
    found=$("$HOME_DIR/bin/python3" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [ ! -L "$HOME_DIR/lib/python$found" ] || return 0
    say "it has no parts for Python ${found:-(none that starts)}: $HOME_DIR/lib has those that it knows."
    say "Nothing is lost: events wait in the spool. Install a newer arcacct, then run: arcacct sweep"
    return 1
}

# The versioned directory is whole when this link changes: no program ever sees files of two versions. Until then dpkg
# has removed what the link leads to, and the launcher spools.
switch() {
    ln -sfn "versions/$VERSION" "$HOME_DIR/.current.new" && mv -fT "$HOME_DIR/.current.new" "$HOME_DIR/current"
    for other in "$HOME_DIR"/versions/*; do
        # Modules that a program compiled there during the removal.
        [ "$other" = "$OURS" ] || [ -n "$(find "$other" -type f ! -name '*.pyc' | head -n 1)" ] || rm -rf "$other"
    done
}

# The lines of the launcher that an administrator edits stay unchanged.
install_launcher() {
    new=${LAUNCHER%/*}/.arcacct-hook.new
    mkdir -p "${LAUNCHER%/*}" && cp "$SHARE/arcacct-hook" "$new" || return
    if [ -r "$LAUNCHER" ] && grep -q 'arcacct-hook CONTROLDIR' "$LAUNCHER"; then
        for name in spool fallback; do
            kept=$(sed -n "/^$name=/{p;q;}" "$LAUNCHER")
            [ -n "$kept" ] && [ "$kept" != "$(sed -n "/^$name=/{p;q;}" "$new")" ] || continue
            kept=$kept awk -v name="$name=" 'index($0, name) == 1 && !done { print ENVIRON["kept"]; done = 1; next } 1' \
                "$new" >"$new.kept" && mv -f "$new.kept" "$new" && say "the launcher keeps its line $kept"
        done
    fi
    # On disk before it has its name: after a power cut an empty launcher would fail jobs.
    chmod 755 "$new" && sync -- "$new" && mv -f "$new" "$LAUNCHER" || return
    ! command -v restorecon >/dev/null || restorecon "$LAUNCHER" 2>/dev/null || :
}

configure() {
    if [ ! -e /etc/arcacct.conf ] && [ ! -L /etc/arcacct.conf ]; then
        cp "$SHARE/arcacct.conf.start" /etc/.arcacct.conf.new && chmod 644 /etc/.arcacct.conf.new &&
            mv -n /etc/.arcacct.conf.new /etc/arcacct.conf
    fi
    if command -v systemd-tmpfiles >/dev/null; then
        systemd-tmpfiles --create arcacct.conf 2>/dev/null || :
    fi
    if systemd_runs; then
        systemctl daemon-reload || :
        systemctl try-restart arcacct-recorder.service arcacct-portal.service || :
    fi
}

# Once: whoever disables it later means it. It starts where there is a database by now; else with the next boot, so that
# the first database is not created at an unwanted place.
switch_recorder_on() {
    [ -e "$NEW_RECORDER" ] || return 0
    rm -f "$NEW_RECORDER"
    command -v systemctl >/dev/null || return 0
    systemctl --quiet enable arcacct-recorder.service || return 0
    path=$(database)
    if systemd_runs && [ -n "$path" ] && [ -f "$path" ]; then
        systemctl --no-block start arcacct-recorder.service || :
    fi
}

# Prints the path of the accounting database of this host, which need not be there.
database() {
    "$HOME_DIR/bin/python3" -I -c '
import os

from arcacct.config.parser import load
from arcacct.config.paths import places

print(places(load(None, os.environ)).database)
' 2>/dev/null
}

# Databases that an older version made, as their owner: a recorder of another user cannot write root's files next to them.
take_databases_forward() {
    path=$(database)
    [ -n "$path" ] && [ -f "$path" ] || return 0
    owner=$(stat -c %U "$path")
    if [ "$owner" = root ]; then
        set --
    else
        set -- runuser -u "$owner" --
    fi
    told=$(cd / && "$@" timeout 1800 "$HOME_DIR/bin/arcacct" db upgrade 2>&1 </dev/null)
    code=$?
    if [ $code = 0 ]; then
        printf '%s\n' "$told" | grep 'upgraded to schema' >&2 || :
        return 0
    fi
    printf '%s\n' "$told" | tail -n 5 >&2
    say "\`arcacct db upgrade\` ended with $code. What it did not finish, it does when it is run again."
    say "Nothing is lost: events wait in the spool until a sweep can record them."
    case $told in
        *'this program supports'*)
            say "A newer arcacct made these databases. Either install it again; or put back what it copied before that:"
            for name in publishing accounting; do
                # The newest, which is from before the last upgrade.
                copy=$(ls -1t "${path%/*}/$name".db.before-schema-* 2>/dev/null | head -n 1)
                [ -z "$copy" ] || say "    arcacct db restore $copy"
            done
            say "in this order, then: arcacct sweep, arcacct import arex"
            ;;
        *) say "Fix that, then run as $owner: arcacct db upgrade, then: arcacct sweep" ;;
    esac
}

case $1 in
    configure | 1 | 2 | abort-*)
        fits=yes
        fits_python || fits=no
        [ $fits = no ] || compile
        switch
        install_launcher || { say "the launcher could not be written to $LAUNCHER"; exit 1; }
        configure
        case $1 in
            abort-*) ;;
            *)
                [ $fits = no ] || take_databases_forward
                switch_recorder_on
                ;;
        esac
        if [ "$1" = 1 ] || { [ "$1" = configure ] && [ -z "$2" ]; }; then
            say "installed, and not in use yet: the next steps are in /usr/share/doc/arcacct/howto/install-packages.md"
        fi
        ;;
    triggered)
        # Python was exchanged below us.
        fits_python || exit 0
        compile
        ;;
esac
exit 0
