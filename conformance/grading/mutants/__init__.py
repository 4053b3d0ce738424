"""Mutants of every operator, which the vectors must kill."""
