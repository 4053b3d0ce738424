"""Part of grading."""
