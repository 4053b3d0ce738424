"""JAX's operations whose results are elements of their first operand, in other places."""

MOVES = frozenset(
    (
        *("broadcast_in_dim", "copy", "dynamic_slice", "expand_dims", "gather", "reshape", "rev"),
        *("slice", "squeeze", "stop_gradient", "tile", "transpose"),
    )
)
