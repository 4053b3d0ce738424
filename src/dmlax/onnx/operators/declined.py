"""The operators of ONNX that are declined, by the reason."""

_WHY = {
    "draws random numbers, and a pure function has no state: make them an input": (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    ),
    "has a size that depends on values: take the tensors before it with outputs=": ("Unique",),
    "has sequences or optional values, and values are tensors": (
        *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SequenceMap", "SplitToSequence"),
    ),
    "reads strings or files, and JAX has numbers only": (
        *("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
        "TfIdfVectorizer",
    ),
    "is not known": ("BitCast", "Col2Im", "DeformConv", "Det", "MaxRoiPool"),
}
EXPANDED = (
    *("CausalConvWithState", "LinearAttention", "NegativeLogLikelihoodLoss"),
    *("SoftmaxCrossEntropyLoss", "SwiGLU"),
)
"""Operators that are the functions by which ONNX defines them."""
DECLINED = {op: why for why, ops in _WHY.items() for op in ops}
