"""Parts of a meaning that several operators share."""
