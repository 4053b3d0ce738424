"""Reading an optimised program's text, as libtpu's compiler prints it."""

import re
from typing import NamedTuple

_DEFINITION = re.compile(r"^\s*(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<dtype>\w+)\[(?P<sizes>[\d,]*)\]")
# A tuple's type has spaces and parentheses of its own, so the opcode is what ` %` or `)` follows.
_OPCODE = re.compile(r" = .*?[})\]] (?P<opcode>[a-z][a-z\d\-]*)\((?P<operands>[^)]*)\)")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
HOST = {"infeed", "outfeed", "send", "recv", "send-done", "recv-done"}


class Product(NamedTuple):
    """One convolution or dot: its dtypes, and how many elements it gives."""

    left: str
    right: str
    result: str
    elements: int


class Program(NamedTuple):
    """The facts read from a text."""

    dtypes: set[str]
    opcodes: set[str]
    custom_calls: set[str]
    products: list[Product]


def read(text: str) -> Program:
    """All instructions, those inside fusions too."""
    types = {
        match["name"]: match for line in text.splitlines() if (match := _DEFINITION.match(line))
    }
    calls = [match for line in text.splitlines() if (match := _OPCODE.search(line))]
    products = [_product(types, call) for call in calls if call["opcode"] in ("convolution", "dot")]
    return Program(
        set(re.findall(r"\b(pred|bf16|[sufc]\d+\w*)\[", text)),
        {call["opcode"] for call in calls},
        set(_TARGET.findall(text)),
        products,
    )


def _product(types: dict[str, re.Match[str]], call: re.Match[str]) -> Product:
    result = _DEFINITION.match(call.string)
    assert result is not None
    elements = 1
    for size in filter(None, result["sizes"].split(",")):
        elements *= int(size)
    left, right = (types[name]["dtype"] for name in re.findall(r"%([\w.\-]+)", call["operands"]))
    return Product(left, right, result["dtype"], elements)
