"""Rules of arithmetic: float32 results to nearest even, integers as XLA defines them."""

from collections.abc import Callable, Sequence
from typing import Any

from rlkjax.exact.errors import UnsupportedPrimitiveError
from rlkjax.exact.interpret import Rule, line_of


def binary(method: str) -> Rule:
    """A primitive of two operands that is an instruction of its own."""
    return Rule("defined", lambda ops, eqn, args: [getattr(ops, method)(*args)])


def square(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """x * x."""
    return [ops.mul(args[0], args[0])]


def one_minus_square(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """1 - x * x, two roundings, as earlier versions of JAX wrote it out."""
    (x,) = args
    return [ops.sub(ops.fill(ops.literal(1, eqn.invars[0].aval.dtype), x), ops.mul(x, x))]


def integer_pow(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """x^n by squaring, lowest bit of n first, each product rounded; x^-n = 1 / x^n."""
    (x,), power = args, eqn.params["y"]
    one = ops.literal(1, eqn.invars[0].aval.dtype)
    if power == 0:
        return [ops.fill(one, x)]
    rest, result = abs(power), None
    while rest:
        if rest & 1:
            result = x if result is None else ops.mul(result, x)
        rest >>= 1
        if rest:
            x = ops.mul(x, x)
    return [ops.div(ops.fill(one, x), result) if power < 0 else result]


def polynomial(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Horner's rule from the highest coefficient, each product and each sum rounded."""
    x, *coefficients = args
    aval = eqn.outvars[0].aval
    total, *rest = (ops.fill(c, aval) for c in reversed(coefficients))
    for value in rest:
        total = ops.add(ops.mul(total, ops.fill(x, aval)), value)
    return [total]


def sqrt(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Square root."""
    return [ops.sqrt(args[0])]


def convert(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """convert_element_type."""
    return [ops.convert(args[0], eqn.params["new_dtype"])]


def bitcast(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """bitcast_convert_type."""
    return [ops.bitcast(args[0], eqn.params["new_dtype"])]


def reduce_precision(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A promise to keep all bits of a float32."""
    if eqn.params["exponent_bits"] < 8 or eqn.params["mantissa_bits"] < 23:
        raise UnsupportedPrimitiveError(
            f"exact has no rule for 'reduce_precision' to {eqn.params['exponent_bits']} and "
            f"{eqn.params['mantissa_bits']} bits at {line_of(ops, eqn)}, only for 8 and 23: "
            "exact defines float32 results only"
        )
    return args


def moved(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """No rounding: the primitive itself."""
    return ops.move(eqn, args)


def select(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """select_n; between a value and itself it is that value."""
    _, first, *others = args
    return [first] if all(x is first for x in others) else ops.move(eqn, args)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    defined: dict[str, Callable[[Any, Any, Sequence[Any]], Sequence[Any]]] = {
        "square": square,
        "integer_pow": integer_pow,
        "one_minus_square": one_minus_square,
        "polynomial": polynomial,
        "sqrt": sqrt,
        "convert_element_type": convert,
        "bitcast_convert_type": bitcast,
    }
    table = {name: Rule("defined", fn) for name, fn in defined.items()}
    table |= {name: binary(name) for name in ("add", "sub", "mul", "div", "rem")}
    table["add_any"] = binary("add")
    names = (
        "neg abs sign max min floor ceil round clamp is_finite eq ne lt le gt ge "
        "and or xor not shift_left shift_right_logical shift_right_arithmetic population_count clz"
    )
    table["select_n"] = Rule("moved", select)
    table["reduce_precision"] = Rule("moved", reduce_precision)
    return table | {name: Rule("moved", moved) for name in names.split()}
