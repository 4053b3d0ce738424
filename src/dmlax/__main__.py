"""`python -m dmlax` prints what this machine runs, and why it does not run the rest."""

from dmlax._explain import explain


def main() -> None:
    """Prints it."""
    print(explain())


if __name__ == "__main__":
    main()
