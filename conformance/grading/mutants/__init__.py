"""Mutants of the oracle, and their trials."""
