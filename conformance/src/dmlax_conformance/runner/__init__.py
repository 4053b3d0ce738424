"""The runner, the checks of the suite and the generator of its files."""
