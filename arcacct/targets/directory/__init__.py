"""Message files for a site's own sender."""
