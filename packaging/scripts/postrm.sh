# A-REX itself starts only the launcher. While any callout names it, it stays, and spools each event.
remove_launcher() {
    [ -e "$LAUNCHER" ] || return 0
    if called; then
        rm -f "$LAUNCHER"
    else
        say "$LAUNCHER was left where it is, alone: jobs go on, and their events wait in the spool below the control"
        say "directory, for \`arcacct sweep\` of an arcacct that is installed again. When nothing calls it: rm $LAUNCHER"
    fi
}

case $1 in
    upgrade | 1)
        # dpkg removes the old files next, rpm has done it. The new package removes modules compiled meanwhile.
        if [ "$1" = upgrade ]; then
            forget_byte_code "$OURS"
        elif [ "$(readlink "$HOME_DIR/current")" != "versions/$VERSION" ]; then
            rm -rf "$OURS"
        fi
        ;;
    remove | 0 | purge)
        remove_launcher
        rm -f "$HOME_DIR/current" "$HOME_DIR/.current.new"
        [ ! -d "$OURS" ] || forget_byte_code "$OURS"
        [ ! -d "$HOME_DIR" ] || find "$HOME_DIR" -depth -type d -empty -delete
        # Directories that tmpfiles made, where nothing is in them.
        rmdir /var/lib/arcacct /var/backups/arcacct 2>/dev/null || :
        [ "$1" != purge ] || rm -f /etc/arcacct.conf
        ! systemd_runs || systemctl daemon-reload || :
        ;;
esac
exit 0
