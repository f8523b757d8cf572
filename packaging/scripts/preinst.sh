for one in $HOME_DIR/lib/python3.*/site-packages/arcacct; do
    # Of ours, lib/python3.X is a link.
    lib=${one%/site-packages/arcacct}
    if [ -d "$one" ] && [ ! -L "$lib" ]; then
        say "$HOME_DIR is an environment that pip made, and this package brings its own. Nothing was changed."
        say "Move it away, install again, and remove it when all is well: mv $HOME_DIR $HOME_DIR.pip"
        say "Until the package is there, the launcher in /usr/local/libexec puts events into the spool; it may stay."
        exit 1
    fi
done
exit 0
