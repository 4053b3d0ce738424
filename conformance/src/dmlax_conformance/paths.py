"""Paths of vectors, models and schemas: inside a wheel, or beside `src` in a checkout."""

from pathlib import Path


def _root() -> Path:
    package = Path(__file__).resolve().parent
    return package if (package / "schemas").is_dir() else package.parents[1]


def vectors_dir() -> Path:
    """Return the folder with one subfolder per operator."""
    return _root() / "vectors"


def models_dir() -> Path:
    """Return the folder of the whole models."""
    return _root() / "golden_models"


def schema_file() -> Path:
    """Return the schema that every vector file obeys."""
    return _root() / "schemas" / "vectors-1.json"


def protocol_file() -> Path:
    """Return the schema of the lines that an adapter in another process reads and writes."""
    return _root() / "schemas" / "protocol-1.json"
