"""The generator: authors write the calls, the operators give the expectations."""
