"""Grading of the vectors: verification, coverage, mutants, and adding vectors."""
