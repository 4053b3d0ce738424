"""The exit codes of the command."""

FINE = 0  # all as expected
FAILED = 1  # a failure, or something got worse
USAGE = 2  # wrong usage, or an adapter that does not start
UNUSABLE = 3  # malformed vectors or reports, or too few applicable cases
