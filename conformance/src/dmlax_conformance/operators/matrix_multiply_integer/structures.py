"""Value classes and structures of MATRIX_MULTIPLY_INTEGER."""

from .._shared.cross import LINES, Cross, Meeting, each_at, impossible
from .._shared.matmul_structures import STRUCTURES, MatmulView
from .._shared.sum_structures import CLASSES

IMPOSSIBLE = {
    **impossible(
        "there is no difference",
        ("intmatmul-a-difference-*", "no zero point of A"),
        ("intmatmul-b-difference-*", "no zero point of B"),
    ),
    **impossible(
        "the product of two differences has 17 bits",
        *each_at(("* 24 bits", "lost in float32", "*-24-bits", "*-float32"), ("one product",)),
    ),
}
OF_ITS_OWN = ("intmatmul-only-*", "intmatmul-*-lost", "intmatmul-sums-saturate", "*-never-wrap")
MEETING = Meeting(
    ("above 16 bits", "below 16 bits", "within 16 bits"),
    ("*int8 A, *", "* output", "*zero point*", "*scale*", "*bias*", "A repeats", "B repeats"),
    LINES,
)
CROSS: Cross[MatmulView] = Cross(MatmulView, CLASSES, STRUCTURES, IMPOSSIBLE, OF_ITS_OWN, MEETING)
