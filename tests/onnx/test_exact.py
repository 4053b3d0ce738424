"""A model loaded with `arithmetic="exact"` has one answer, and a digest of it."""

import functools
import hashlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import dmlax.onnx
from dmlax import SpecError, UnsupportedError, reproducible
from dmlax._core import exact
from dmlax.onnx.__main__ import main
from dmlax.onnx.digest import canonical_bytes
from support import exact_models
from support.instruction_sets import NAMES
from support.onnx_files import File


@functools.cache
def here():
    return exact_models.digests()


def _of_model(name):
    model, inputs = exact_models.MODELS[name]()
    return dmlax.onnx.load(model, arithmetic="exact"), inputs


@pytest.mark.parametrize(
    ("kernels", "processor"),
    [("portable", "SSE4_2"), ("none", "AVX2")],
)
def test_other_kernels_and_instructions_have_the_same_digests(kernels, processor):
    assert NAMES[-1] == "portable"
    flags = f"--xla_cpu_max_isa={processor}"
    environment = {"DMLAX_NATIVE_ISA": kernels, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "support.exact_models"],
        env=os.environ | environment,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == here()


@pytest.mark.parametrize("name", exact_models.MODELS)
def test_a_batch_has_the_bits_of_its_images(name):
    (file, inputs), (model, _) = exact_models.MODELS[name](), _of_model(name)
    whole = {key: np.asarray(x) for key, x in model(inputs).items()}
    shapes = {key: (1, *x.shape[1:]) for key, x in inputs.items()}
    single = dmlax.onnx.load(file, arithmetic="exact", input_shapes=shapes)
    parts = [single({key: x[i : i + 1] for key, x in inputs.items()}) for i in range(3)]
    for key, x in whole.items():
        joined = np.concatenate([np.asarray(part[key]) for part in parts])
        np.testing.assert_array_equal(joined.view(np.int32), x.view(np.int32))


def test_eager_and_exported_calls_have_the_bits_of_a_jitted_one():
    model, inputs = _of_model("random 0")
    wanted = model(inputs)
    exported = model.export(inputs)
    reloaded = jax.export.deserialize(exported.serialize())
    others = (model.apply(model.params, inputs), reloaded.call(model.params, inputs))
    for found in others:
        for key, x in wanted.items():
            np.testing.assert_array_equal(
                np.asarray(found[key]).view(np.int32), np.asarray(x).view(np.int32)
            )


@pytest.mark.parametrize(
    ("op", "options"),
    [
        ("AveragePool", {"kernel_shape": [2, 2, 2], "pads": [1, 0, 0, 1, 1, 0]}),
        ("AveragePool", {"kernel_shape": [3, 2, 2], "pads": [1, 0, 1, 1, 1, 0]}),
        ("LpPool", {"kernel_shape": [2, 2, 3], "pads": [1, 1, 0, 0, 1, 0]}),
        ("LRN", {"size": 5}),
    ],
)
def test_windows_of_padded_volumes(op, options):
    """XLA's CPU compiler fails on a chain of sums whose terms are slices of one padded array."""
    file = File(19)
    strides = {} if op == "LRN" else {"strides": [3, 1, 1]}
    x = file.input(np.random.default_rng(0).standard_normal((2, 9, 2, 2, 3)).astype(np.float32))
    y = file.node(op, x, **options, **strides)
    file.output(y, np.float32)
    exact, near = (
        np.asarray(dmlax.onnx.load(file.model(), arithmetic=arithmetic)(file.inputs)[y])
        for arithmetic in ("exact", "float32")
    )
    np.testing.assert_allclose(exact, near, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("op", "filter"), [("Conv", (3, 0, 2)), ("ConvTranspose", (0, 3, 2))])
def test_a_convolution_of_no_channels_is_zero(op, filter):
    file = File(19)
    x = file.input(np.zeros((2, 0, 5), np.float32))
    y = file.node(op, x, file.constant(np.zeros(filter, np.float32)))
    file.output(y, np.float32)
    found = np.asarray(dmlax.onnx.load(file.model(), arithmetic="exact")(file.inputs)[y])
    np.testing.assert_array_equal(found, np.zeros((2, 3, 4 if op == "Conv" else 6), np.float32))


@pytest.mark.parametrize(
    ("mode", "shape", "sizes"),
    [("cubic", (1, 4, 2, 2), [1, 4, 7, 3]), ("linear", (2, 2, 2, 3), [2, 1, 3, 6])],
)
def test_a_resize_compiles(mode, shape, sizes):
    """It gathers, and adds many terms; XLA would compute each of them again, for minutes."""
    random, file = np.random.default_rng(6), File(19)
    x = file.input(random.standard_normal(shape).astype(np.float16))
    file.output(
        file.node("Resize", x, "", "", file.constant(np.array(sizes)), mode=mode), np.float16
    )
    exactly, usual = (
        dmlax.onnx.load(file.model(), arithmetic=arithmetic)(file.inputs)
        for arithmetic in ("exact", "float32")
    )
    for name in usual:
        np.testing.assert_allclose(exactly[name], usual[name], atol=2e-3)


@pytest.mark.parametrize("op", ["Exp", "Log", "Tanh", "Sigmoid", "Erf", "Softplus", "Sin", "Sqrt"])
def test_functions_are_those_of_reproducible(op):
    file = File(22)
    x = np.float32([-2.5, -0.0, 1e-39, 0.3, 7.0, np.nan, np.inf]).repeat(3)
    file.output(file.node(op, file.input(x)), np.float32)
    (found,) = dmlax.onnx.load(file.model(), arithmetic="exact")(file.inputs).values()
    wanted = getattr(reproducible, op.lower())(x)
    np.testing.assert_array_equal(
        np.asarray(found).view(np.int32), np.asarray(wanted).view(np.int32)
    )


@pytest.mark.parametrize("depth", [1, 15, 64, 100, 700])
def test_a_product_has_the_bits_of_dot_and_its_usual_gradient(depth):
    random = np.random.default_rng(depth)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((5, depth), (depth, 3)))
    product = exact.of(jax.numpy.matmul)
    wanted = reproducible.dot(x[:, None], y.T[None])
    np.testing.assert_array_equal(jax.jit(product)(x, y), wanted)
    gradient = jax.grad(lambda x: product(x, y).sum())(x)
    np.testing.assert_allclose(gradient, np.broadcast_to(y.sum(1), x.shape), rtol=1e-5, atol=1e-5)


def test_a_decoder_has_one_digest_of_its_steps_and_so_has_its_saved_model(tmp_path, capsys):
    path, saved, known = (tmp_path / name for name in ("m.onnx", "m.dmlax", "digest.txt"))
    example = runpy.run_path(str(Path(__file__).parents[2] / "docs/examples/tiny_decoder.py"))
    file = example["make_file"](example["Sizes"](), example["Sizes"]().random_weights(), bits=4)
    path.write_bytes(file.SerializeToString())
    prompt = {"input_ids": np.int64([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])}
    model = dmlax.onnx.load(path, arithmetic="exact")
    lines = dmlax.onnx.digest(model, prompt, steps=4)
    assert [x.name for x in lines[1:]] == [*(f"step {i} scores" for i in range(1, 5)), "tokens"]
    assert lines[-1].type == "int32[2,4]"
    alone = [dmlax.onnx.digest(model, {"input_ids": x[None]}, steps=4) for x in prompt["input_ids"]]
    state = model.init_state(2, 9)
    outputs, state = model.step(state, prompt)
    tokens = [np.asarray(outputs["scores"][:, -1]).argmax(-1)]
    for _ in range(3):
        outputs, state = model.step(state, tokens[-1][:, None])
        tokens.append(np.asarray(outputs["scores"][:, -1]).argmax(-1))
    for row, found in enumerate(alone):
        wanted = np.int32([[x[row] for x in tokens]])
        assert found[-1].sha256 == hashlib.sha256(canonical_bytes(wanted)).hexdigest()
    model.save(saved)
    np.savez(tmp_path / "x.npz", **prompt)
    command = ["--digest", "--steps", "4", "--inputs", str(tmp_path / "x.npz")]
    assert main([str(path), *command]) == 0
    known.write_text(capsys.readouterr().out)
    assert known.read_text().splitlines()[1:] == list(map(str, lines))
    assert main([str(saved), *command, "--expect", str(known)]) == 0
    assert main([str(path), "--digest", "--steps", "2"]) == 0
    with pytest.raises(SpecError) as caught:
        dmlax.onnx.digest(model, prompt, steps=2, tensors=True)
    assert caught.value.code == "option"
    with pytest.raises(SpecError, match=r"inputs are mask, expected one of tokens"):
        dmlax.onnx.digest(model, {"mask": np.ones((1, 1, 2))}, steps=2)


def test_all_that_has_no_exact_form_is_one_error():
    file = File(22)
    x = file.input(np.ones(3, np.float32))
    for op in ("Tan", "Cosh", "Exp"):
        file.output(file.node(op, x), np.float32)
    with pytest.raises(UnsupportedError) as caught:
        dmlax.onnx.load(file.model(), arithmetic="exact")
    text = str(caught.value)
    assert "Tan" in text
    assert "Cosh" in text
    assert "Exp" not in text
    assert 'take arithmetic="float32"' in text


def test_the_canonical_form_has_one_nan_and_two_zeros():
    bits = np.uint32([0x7FC12345, 0xFFC00000, 0x80000000, 0x3F800000])
    wanted = b"float32[2,2]\n" + np.uint32([0x7FC00000, 0x7FC00000, *bits[2:]]).tobytes()
    assert canonical_bytes(bits.view(np.float32).reshape(2, 2)) == wanted
    assert canonical_bytes(np.asarray([True, False])) == b"bool[2]\n\x01\x00"


def test_the_command_prints_a_digest_and_finds_the_first_tensor_that_differs(tmp_path, capsys):
    file = File(22)
    x = file.input(np.float32([[1, 2, 3]]))
    y = file.node("Exp", x)
    file.output(file.node("Add", y, y), np.float32)
    path, inputs, known = (tmp_path / name for name in ("m.onnx", "x.npz", "digest.txt"))
    path.write_bytes(file.model().SerializeToString())
    np.savez(inputs, **file.inputs)
    command = [str(path), "--digest", "--tensors", "--inputs", str(inputs)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    first, *lines = printed.splitlines()
    assert first == "# exact-1"
    assert [line.split()[1:] for line in lines] == [
        ["float32[1,3]", "input", "x0"],
        ["float32[1,3]", "Exp0_0"],
        ["float32[1,3]", "Add1_0"],
    ]
    known.write_text(printed)
    assert main([*command, "--expect", str(known)]) == 0
    model = dmlax.onnx.load(path, arithmetic="exact")
    assert list(map(str, dmlax.onnx.digest(model, file.inputs, tensors=True))) == lines
    np.savez(inputs, x0=np.float32([[1, 2, 4]]))
    known.write_text("\n".join([first, lines[0], *lines[1:]]))
    capsys.readouterr()
    assert main([*command, "--expect", str(known)]) == 1
    assert "the first tensor that differs: input x0\n" in capsys.readouterr().err
    assert main([*command, "--arithmetic", "float32", "--expect", str(known)]) == 1
    assert "begins with '# exact-1', expected '# float32'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(path), "--tensors"])
