"""Names and numbers of LiteRT's format: operators, their options, dtypes."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from dmlax.litert.flatbuffer import Table
from dmlax.onnx.errors import ModelError

IDENTIFIER = b"TFL3"
_NAMES = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL
CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST
PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN
TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW
ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK
REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR
LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS
WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM
MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
"""
BUILTINS = _NAMES.split()
"""The operators, by their numbers."""
PLACEHOLDER = BUILTINS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")
DTYPES: dict[int, Any] = {
    number: np.dtype(getattr(jnp, name))
    for number, name in {
        0: "float32",
        1: "float16",
        2: "int32",
        3: "uint8",
        4: "int64",
        6: "bool_",
        7: "int16",
        8: "complex64",
        9: "int8",
        10: "float64",
        12: "uint64",
        15: "uint32",
        16: "uint16",
        17: "int4",
        18: "bfloat16",
        19: "int2",
    }.items()
}
RESOURCE = 13
_TYPE_NAMES = {5: "STRING", RESOURCE: "RESOURCE", 14: "VARIANT"}
ACTIVATIONS = ("", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
PADDINGS = ("SAME", "VALID")
_POOL = "padding stride_w stride_h filter_w filter_h activation"
_REDUCE = "keep_dims?"
_FIELDS = {  # the fields of an operator's options, in the schema's order; "-" is one left out
    "ADD": "activation pot_scale_int16?=1",
    "ARG_MAX": "output_type.",
    "ARG_MIN": "output_type.",
    "AVERAGE_POOL_2D": _POOL,
    "BATCH_MATMUL": "adj_x? adj_y? asymmetric?",
    "CALL_ONCE": "init_graph",
    "CAST": "in_type. out_type.",
    "CONCATENATION": "axis activation",
    "CONV_2D": "padding stride_w stride_h activation dilation_w=1 dilation_h=1 bias_type.",
    "CUMSUM": "exclusive? reverse?",
    "DEPTHWISE_CONV_2D": "padding stride_w stride_h multiplier activation dilation_w=1 "
    "dilation_h=1",
    "DEPTH_TO_SPACE": "block_size",
    "DIV": "activation",
    "FULLY_CONNECTED": "activation weights_format. keep_num_dims? asymmetric? bias_type.",
    "GATHER": "axis batch_dims",
    "GELU": "approximate?",
    "IF": "then_graph else_graph",
    "L2_NORMALIZATION": "activation",
    "L2_POOL_2D": _POOL,
    "LEAKY_RELU": "alpha%",
    "LOCAL_RESPONSE_NORMALIZATION": "radius bias% alpha% beta%",
    "MAX_POOL_2D": _POOL,
    "MEAN": _REDUCE,
    "MIRROR_PAD": "mode.",
    "MUL": "activation",
    "ONE_HOT": "axis",
    "PACK": "- axis",
    "REDUCE_ALL": _REDUCE,
    "REDUCE_ANY": _REDUCE,
    "REDUCE_MAX": _REDUCE,
    "REDUCE_MIN": _REDUCE,
    "REDUCE_PROD": _REDUCE,
    "RESHAPE": "new_shape*",
    "RESIZE_BILINEAR": "- - align_corners? half_pixel_centers?",
    "RESIZE_NEAREST_NEIGHBOR": "align_corners? half_pixel_centers?",
    "SHAPE": "out_type.",
    "SOFTMAX": "beta%",
    "SPACE_TO_DEPTH": "block_size",
    "SPLIT": "num_splits",
    "SPLIT_V": "num_splits",
    "SQUEEZE": "squeeze_dims*",
    "STRIDED_SLICE": "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask offset?",
    "SUB": "activation pot_scale_int16?=1",
    "SUM": _REDUCE,
    "SVDF": "rank activation asymmetric?",
    "TRANSPOSE_CONV": "padding stride_w stride_h activation bias_type.",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "activation cell_clip% proj_clip% time_major? asymmetric? "
    "diagonal?",
    "UNPACK": "num axis",
    "VAR_HANDLE": 'container" shared_name"',
    "WHILE": "condition_graph body_graph",
}
_CUSTOM_FIELDS = {  # the names in the maps of custom operators' options
    "TFLite_Detection_PostProcess": "max_detections max_classes_per_detection "
    "detections_per_class=100 use_regular_nms? nms_score_threshold% nms_iou_threshold% num_classes "
    "y_scale% x_scale% h_scale% w_scale%",
}
_KINDS = {"?": ("?", bool), ".": ("b", int), "%": ("f", float)}


class Field:
    """A field of an operator's options."""

    def __init__(self, slot: int, text: str) -> None:
        text, _, default = text.partition("=")
        self.slot, self.name = slot, text.rstrip('?.%*"')
        self.mark, self.default = text[len(self.name) :], int(default or 0)
        self.type: Any = {"*": tuple[int, ...], '"': str}.get(self.mark, int)
        if self.name in ("padding", "activation"):
            self.type = str
        elif self.mark in _KINDS:
            self.type = _KINDS[self.mark][1]

    def read(self, options: Table | None) -> Any:
        """The field's value; absent options have defaults."""
        if self.mark == "*":
            return options.numbers(self.slot, "int32", self.name) if options else ()
        if self.mark == '"':
            return options.text(self.slot, self.name) if options else ""
        if self.name in ("padding", "activation"):
            names = PADDINGS if self.name == "padding" else ACTIVATIONS
            number = options.number(self.slot, "b") if options else 0
            if options and not 0 <= number < len(names):
                raise ModelError(f"{options.place} has the {self.name} {number}")
            return names[number]
        code, kind = _KINDS.get(self.mark, ("i", int))
        return kind(options.number(self.slot, code, self.default) if options else self.default)


OPTIONS, CUSTOM_OPTIONS = (
    {
        op: [Field(slot, text) for slot, text in enumerate(fields.split()) if text != "-"]
        for op, fields in table.items()
    }
    for table in (_FIELDS, _CUSTOM_FIELDS)
)


def type_name(number: int) -> str:
    """The name of a dtype that NumPy lacks."""
    return _TYPE_NAMES.get(number, f"type {number}")
