"""Jobs in accounting: written and read in the same way for all sources; monthly usage."""
