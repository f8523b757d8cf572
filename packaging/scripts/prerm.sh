case $1 in
    remove | 0)
        if ! called; then
            say "not removed, and nothing was changed."
            exit 1
        fi
        if command -v systemctl >/dev/null; then
            for unit in /usr/lib/systemd/system/arcacct-*.timer /usr/lib/systemd/system/arcacct-*.service; do
                systemctl --quiet --no-reload disable "${unit##*/}" 2>/dev/null || :
                ! systemd_runs || systemctl --quiet stop "${unit##*/}" || :
            done
        fi
        forget_byte_code "$OURS"
        # rpm has no purge: of the configuration it leaves the lines that an administrator wrote.
        [ "$1" != 0 ] || [ "$(cat "$SHARE/arcacct.conf.start")" != "$(cat /etc/arcacct.conf 2>/dev/null)" ] ||
            rm -f /etc/arcacct.conf
        ;;
esac
exit 0
