"""Numbers by which XLA's or a CPU's path is chosen, with the measurements that chose them."""

FEWEST_PANEL_ROWS = 16
"""`choose_path` of convolution.cc takes planes, not panels, for groups of fewer filters."""

PRODUCT_COLUMNS = 512
"""Output pixels of a matrix product on a CPU: im2col windows of so many stay in the caches."""

MOST_MERGED_CHANNELS = 64
"""Groups are merged up to so many channels: the added products cost a GPU less than narrow ones."""

MOST_SINGLE_TAPS = 8
"""Windows of so many elements along an axis are combined one by one, larger ones by doubling."""

MOST_SINGLE_PIXELS = 64
"""So many pixels are summed one by one: XLA's reduction took four times as long on a GPU."""

MOST_WORD_TAPS = 25
"""Windows of so many elements are maxima of words on a GPU: max pooling takes 61 us, not 92."""

MOST_BLOCK_ROWS = 32
"""Rows by 4-bit blocks on a CPU: for up to so many the kernel is 1.1 to 5 times as fast as XLA."""

CPU_SCATTERED = 2**20
"""Elements that nonzero's scatter takes at a time on a CPU: they stay in its caches."""

SCATTERED = 2**30
"""Elements that nonzero's scatter takes at a time on a GPU or a TPU: all there are."""

SYMBOLIC_SCATTERED = 2**16
"""Elements that nonzero's scatter takes at a time if their number is a symbol."""
