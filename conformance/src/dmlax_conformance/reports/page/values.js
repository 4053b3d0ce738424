// Elements as the suite writes them: integers, and floats as bit patterns.

const FLOATS = {
  float16: { digits: 4, mantissa: 10, bias: 15 },
  float32: { digits: 8, mantissa: 23, bias: 127 },
  float64: { digits: 16, mantissa: 52, bias: 1023 },
};

const wordsOf = (tensor) => (tensor && (tensor.data ?? tensor.bits)) ?? null;
const countOf = (sizes) => sizes.reduce((product, size) => product * size, 1);

/** Return the number that a bit pattern means. */
function decodeFloat(dtype, bits) {
  const { mantissa, bias, digits } = FLOATS[dtype];
  const word = BigInt(`0x${bits}`);
  const width = BigInt(digits * 4);
  const sign = word >> (width - 1n) ? -1 : 1;
  const fraction = Number(word & ((1n << BigInt(mantissa)) - 1n)) / 2 ** mantissa;
  const exponent = Number((word >> BigInt(mantissa)) & ((1n << (width - 1n - BigInt(mantissa))) - 1n));
  if (exponent === 2 * bias + 1) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias);
  return sign * (1 + fraction) * 2 ** (exponent - bias);
}

/** Return the fewest decimal digits that mean this number and no other of its type. */
function shortest(dtype, value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  for (let digits = 1; digits < 17; digits++) {
    const near = Number(value.toPrecision(digits));
    if (near === value || isNearest(dtype, value, near)) return String(near);
  }
  return String(value);
}

/** Say whether `value` is the number of its type that is nearest to `near`. */
function isNearest(dtype, value, near) {
  const { mantissa, bias } = FLOATS[dtype];
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(near))), 1 - bias);
  const step = 2 ** (exponent - mantissa);
  return step > 0 && Math.abs(near - value) < step / 2 && Number.isInteger(value / step);
}

/** Return one element as text. */
function show(dtype, word, asBits = false) {
  if (dtype === "complex64") {
    if (asBits) return `0x${word}`;
    const [imaginary, real] = [word.slice(0, 8), word.slice(8)].map((half) => show("float32", half));
    return `${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}i`;
  }
  if (!(dtype in FLOATS)) return String(word);
  return asBits ? `0x${word}` : shortest(dtype, decodeFloat(dtype, word));
}

/** Return a number for colouring, or null where there is none. */
function magnitude(dtype, word) {
  if (dtype === "complex64") return null;
  const value = dtype in FLOATS ? decodeFloat(dtype, word) : Number(word);
  return Number.isFinite(value) ? value : null;
}

/** Return how far `have` is from `want`: a number for integers, steps of the type for floats. */
function distance(dtype, want, have) {
  const signed = (number) => (number > 0n ? `+${number}` : String(number));
  if (dtype === "bool" || dtype === "complex64") return "≠";
  if (!(dtype in FLOATS)) return signed(BigInt(have) - BigInt(want));
  if ([want, have].some((word) => magnitude(dtype, word) === null)) return "≠";
  const steps = ordered(dtype, have) - ordered(dtype, want);
  return steps === 0n ? "-0 ≠ 0" : `${signed(steps)} ulp`;
}

/** Return the place of a float among all floats of its type. */
function ordered(dtype, bits) {
  const word = BigInt(`0x${bits}`);
  const sign = 1n << BigInt(FLOATS[dtype].digits * 4 - 1);
  return word & sign ? -(word - sign) : word;
}

const typeOf = (tensor) => `${tensor.dtype} [${tensor.sizes.join(", ")}]`;
