"""The counts of elements that every operator is called with."""

COUNTS = tuple(middle + step for middle in (128, 256, 1000, 65_536) for step in (-1, 0, 1))
