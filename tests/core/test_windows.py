"""Window arithmetic in plain integers."""

import numpy as np
import pytest

from dmlax._core import windows

pytestmark = pytest.mark.oldest


@pytest.mark.parametrize(
    ("kernel", "dilation", "span"), [(1, 5, 1), (3, 1, 3), (3, 4, 9), (2, 7, 8)]
)
def test_a_dilated_kernel_spans_from_its_first_to_its_last_pixel(kernel, dilation, span):
    assert (
        windows.dilated_size(kernel, dilation)
        == span
        == 1 + max(range(0, kernel * dilation, dilation))
    )


@pytest.mark.parametrize("span", range(1, 5))
@pytest.mark.parametrize("stride", range(1, 5))
def test_the_output_size_counts_the_windows_that_fit(span, stride):
    for padded in range(span, 20):
        fitting = [start for start in range(0, padded, stride) if start + span <= padded]
        assert windows.output_size(padded, span, stride) == len(fitting)


def test_taps_are_row_major():
    assert list(windows.taps((2, 3))) == list(np.ndindex(2, 3))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_a_tap_meets_one_cell_a_window(stride, dilation):
    pixels, kernel = np.arange(17), 3
    size = windows.output_size(pixels.size, windows.dilated_size(kernel, dilation), stride)
    for (tap,) in windows.taps((kernel,)):
        (met,) = windows.tap_slices((tap,), (size,), (stride,), (dilation,))
        assert pixels[met].tolist() == [o * stride + tap * dilation for o in range(size)]
