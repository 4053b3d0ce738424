"""The meaning of each operator in Python integers and fractions: slow, plain, independent."""
