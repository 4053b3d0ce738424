"""Makes a `.tflite` file of one operator, and runs it with LiteRT's resolvers."""

import flatbuffers
import numpy as np
from ai_edge_litert import interpreter
from ai_edge_litert import schema_py_generated as schema

TYPES = {"float32": 0, "int32": 2, "int8": 9}
RESOLVERS = {
    "XNNPACK": interpreter.OpResolverType.AUTO,
    "builtin": interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": interpreter.OpResolverType.BUILTIN_REF,
}


def one_operator(op, tensors, options=None):
    """Return a file. The last tensor is computed.

    A tensor is its shape, its dtype, its scale or None, its zero point, and its constant or None.
    """
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, graph.tensors = 3, [schema.BufferT()], []
    for i, (shape, dtype, scale, zero_point, constant) in enumerate(tensors):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = f"t{i}", list(shape), TYPES[dtype]
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [zero_point]
        if constant is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.asarray(constant, dtype).tobytes(), np.uint8)
            tensor.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(tensor)
    code, node = schema.OperatorCodeT(), schema.OperatorT()
    last = len(tensors) - 1
    node.inputs, node.outputs = np.arange(last, dtype=np.int32), np.int32([last])
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    if options is not None:
        node.builtinOptionsType = getattr(
            schema.BuiltinOptions, type(options).__name__.removesuffix("T")
        )
        node.builtinOptions = options
    graph.inputs = np.int32([i for i in range(last) if tensors[i][4] is None])
    graph.outputs, graph.operators = np.int32([last]), [node]
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(file, *inputs):
    """Return the output of each resolver by its name."""
    outputs = {}
    for name, resolver in RESOLVERS.items():
        runtime = interpreter.Interpreter(
            model_content=file, experimental_op_resolver_type=resolver
        )
        runtime.allocate_tensors()
        for detail, x in zip(runtime.get_input_details(), inputs, strict=True):
            runtime.set_tensor(detail["index"], x)
        runtime.invoke()
        outputs[name] = runtime.get_tensor(runtime.get_output_details()[0]["index"])
    return outputs
