# The common part of all maintainer scripts: each starts with this. dpkg calls them with words (Debian policy, 6.5),
# rpm with the number of installed versions that there will be (0: it is removed, 1: the only one, 2: an upgrade).

VERSION=@VERSION@
HOME_DIR=/opt/arcacct
SHARE=/usr/share/arcacct
LAUNCHER=/usr/libexec/arcacct-hook
OURS=$HOME_DIR/versions/$VERSION
NEW_RECORDER=/run/arcacct-recorder.new

say() {
    printf 'arcacct: %s\n' "$*" >&2
}

still_called() (
@CHECK@
)

called() {
    still_called "$LAUNCHER" "$HOME_DIR/bin/arcacct-record" "$HOME_DIR/bin/arcacct"
}

systemd_runs() {
    [ -d /run/systemd/system ] && command -v systemctl >/dev/null
}

forget_byte_code() {
    [ ! -d "$1" ] || find "$1" -type d -name __pycache__ -prune -exec rm -rf {} +
}
