"""The public operators, a folder each, and their registry."""
