"""Refuses the former name of `dmlax.directml`."""

raise ImportError("dmlax.spec is now dmlax.directml")
