"""Pixels of images, numbered row by row."""

from dmlax._cuda.ir import Value


def split_pixel(pixel: Value, rows: int, columns: int) -> tuple[Value, Value, Value]:
    """The image, the row and the column of a pixel of all images."""
    image, rest = divmod(pixel, rows * columns)
    return image, *divmod(rest, columns)
