"""Dated results of many implementations, small enough to check in."""
