"""Numbers by which the kernels are tuned for a GPU, with the measurements that chose them."""

FEWEST_JOINED_BYTES = 2**20
"""Concatenations of fewer bytes run in XLA, which is as fast; H100."""

FEWEST_SLIDING_PIXELS = 20_000
"""Windows slide over at least so many output pixels: ResNet-50's first layer at batch 1, which has
fewer, takes 3.6 us sliding and 2.9 gathered; H200."""

SLIDING_COLUMNS = 64
"""Windows slide for so many output channels, where copies outlast products: res2's 3x3 layer at
batch 128 takes 33.0 us sliding and 40.3 gathered."""

MOST_SLIDING_BYTES = 108 * 1024
"""Shared memory of the pixels and the filter, so that two blocks fit: ResNet-50's first layer at
batch 32 takes 18.0 us with two blocks, 20.1 with three and 22.5 with four of smaller tiles."""

MOST_CACHED_PIXEL_BYTES, MOST_CACHED_COLUMNS = 32, 64
"""Windows of wider pixels or tiles were faster when their copies bypassed the L1 cache."""

FEWEST_PADDED_CHANNELS = 32
"""So many output channels are padded to whole words, which store faster."""

FEWEST_QUADS, MOST_QUADS = 16, 64
DEPTHWISE_WARPGROUPS, DEPTHWISE_BLOCKS = 2, 4
"""Quads of channels, warpgroups and blocks of depthwise tiles: MobileNetV2 takes 1.05 ms, and 1.14
with tiles of 128 channels."""

POOLING_WARPGROUPS = 2
"""Max pooling takes 32 us with blocks of 256 or 512 threads, 33 with 128 and 36 with 1,024."""

FEWEST_PADDED_OUTPUTS = 2**22
"""Fewer outputs of an odd number of columns are stored byte by byte; ViT-B/16 gained from whole
chunks of 208 columns instead of 197."""

MOST_UNROLLED_STEPS = 10
"""A block's only tile of more steps has a loop: up to 40 steps, ResNet-50 took 295 and 585 us at
batch 8 and 32 instead of 296 and 584."""

MOST_UNROLLED_BY_WARPS = 2
"""The same of a tile whose warps multiply: the assembler takes 4 s for eight steps of it."""

PRODUCTS_BEFORE_COPIES = 2
"""Products along the depth that warps begin before they copy a stage ahead: 25,216 rows of 768 by
3,072 columns take 202 us without, 198 with one and 186 with two; H200."""

FEWEST_STREAMED_BYTES = 2**23
"""Products of few rows by larger right matrices take tiles of 16 columns and four warps: 16 and 43
MiB take 7.6 and 17.0 us, and 8.1 and 18.4 us with twelve warps, four of which make the columns'
constants. With these warps 4 MiB take 3.5 us instead of 3.7; H100."""

MOST_UNROLLED_LOADS = 16
"""Products of few rows with more steps have a loop; no other number was recorded."""

SPANS_BYTES = 200 * 1024
"""Shared memory for the stages of a block that has a multiprocessor to itself: with stages of one
span, ResNet-50 took 328 and 609 us at batch 8 and 32 instead of 296 and 584."""

LOOKUP_WARPGROUPS, LOOKUP_BLOCKS = 2, 8
"""A block's warpgroups and a multiprocessor's blocks, for a table of bytes; fastest on an H200."""

PAIRS_WARPGROUPS, PAIRS_BLOCKS = 8, 1
"""A block's warpgroups and a multiprocessor's blocks, for a table of pairs; fastest on an H200."""

NORMALIZATION_BLOCKS = 4
"""Blocks of a multiprocessor: 25,216 rows of 768 take 15 us. Two, three, five and six blocks take
16.8, 15.4, 17.0 and 15.9."""

JOINING_BLOCKS = 4
"""Blocks of a multiprocessor, for concatenations; no other number was recorded."""

LEAST_ATTENTION_ROWS, MOST_ATTENTION_ROWS = 33, 256
"""Rows of an image that one kernel attends to: on an H200, 128 images of 197 rows take 121 us
instead of 167 by four kernels, and 32 of 300 rows took 101 instead of 91."""

NONZERO_FILLS = 8
"""Stores of 16 bytes that a thread does in an iteration; no other number was recorded."""

NONZERO_LOOK_BACK_WARPS = 2
"""States that a lane of a look-back reads at once: they take as long as one read."""

NONZERO_TILES = (2**22, (2, 16, 4)), (2**23, (8, 16, 1))
"""Tiles of fewer elements: warpgroups, elements of a thread, blocks of a multiprocessor; fastest on
an H200, as small inputs need tiles for every multiprocessor."""

NONZERO_LARGE_TILE = 4, 32, 1
"""The tile of more elements of up to 4 bytes; wider ones take the last of `NONZERO_TILES`."""
