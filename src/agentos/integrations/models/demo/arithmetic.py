"""Sums such as `12 * (7 + 1)`, worked out exactly and without running any code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

_LONGEST = 100
# Numbers of more bits than this are not worked out: nobody would read them.
_MOST_BITS = 512

_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def work_out(expression: str) -> str | None:
    """The value, as people write it; None if this is no sum, or one without a value."""
    if len(expression) > _LONGEST:
        return None
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
        return _written(_value(tree.body))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(Fraction(str(number)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _bounded(Fraction(_OPERATORS[type(op)](_value(left), _value(right))))
    raise ValueError("not a sum")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if exponent.denominator != 1 or bits * abs(exponent.numerator) > _MOST_BITS:
        raise ValueError("too large, or not rational")
    return Fraction(base**exponent.numerator)


def _bounded(number: Fraction) -> Fraction:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        raise ValueError("too large")
    return number


def _written(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.10g}"
