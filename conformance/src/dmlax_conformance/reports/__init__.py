"""Reports of a run: JSON lines, JUnit XML, one HTML page, and what changed between two."""
