"""The sources of jobs other than A-REX. No source uses another one."""
