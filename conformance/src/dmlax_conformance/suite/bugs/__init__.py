"""Planted bugs: one implementation of every operator in steps, and the catalogue that breaks it."""
