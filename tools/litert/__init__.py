"""Random `.tflite` files of one operator or a small network, computed by dmlax and by LiteRT."""
