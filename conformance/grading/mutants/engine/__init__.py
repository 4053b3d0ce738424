"""One implementation of every operator in steps, the mutants of it, and their trials."""
