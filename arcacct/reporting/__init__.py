"""The report of a month: what there is to say of it as tables, and these as a page to be forwarded."""
