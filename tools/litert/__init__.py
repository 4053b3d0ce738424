"""Random `.tflite` files of one operator, computed by dmlax and by LiteRT."""
