"""The health of a host and a site: facts, the verdicts on them, and the commands that show them."""
