for one in $HOME_DIR/lib/python3.*/site-packages/arcacct; do
    # In our own environment, lib/python3.X is a link.
    lib=${one%/site-packages/arcacct}
    if [ -d "$one" ] && [ ! -L "$lib" ]; then
        say "$HOME_DIR is an environment that pip made, and this package brings its own. Nothing was changed."
        say "Move it away, install again, and remove it when all is well: mv $HOME_DIR $HOME_DIR.pip"
        say "Until the package is installed, the launcher in /usr/local/libexec puts events into the spool; it may stay."
        exit 1
    fi
done
# The recorder comes with this package for the first time: postinst switches it on. It does what a service of another
# name did.
if [ ! -e /usr/lib/systemd/system/arcacct-recorder.service ]; then
    mkdir -p /run && : >"$NEW_RECORDER"
    if command -v systemctl >/dev/null && [ -e /usr/lib/systemd/system/arcacct-sweep-follow.service ]; then
        systemctl --quiet --no-reload disable arcacct-sweep-follow.service 2>/dev/null || :
        ! systemd_runs || systemctl --quiet stop arcacct-sweep-follow.service || :
    fi
fi
exit 0
