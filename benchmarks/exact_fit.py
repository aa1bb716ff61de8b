"""Makes the polynomial coefficients of exact's functions: `python -m benchmarks.exact_fit`.

Each polynomial interpolates its function at Chebyshev nodes with 60 digits, and its coefficients
are then rounded to float64. So does the fraction that stands for tanh. Needs mpmath.
"""

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60


def interpolate(fn: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, terms: int) -> list:
    """Coefficients, lowest first, of the polynomial through `terms` Chebyshev nodes of [low, high].

    Args:
      fn: function of one mpmath number.
      low: left end.
      high: right end.
      terms: number of coefficients.

    Returns:
      mpmath numbers.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * terms)) for i in range(terms)]
    rows = mp.matrix([[x**power for power in range(terms)] for x in nodes])
    values = mp.matrix([fn(x) for x in nodes])
    return list(mp.lu_solve(rows, values))


def fraction(fn: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf) -> tuple[list, list]:
    """Two quadratics whose quotient is 1 at 0 and fn at 4 Chebyshev nodes of [low, high].

    Args:
      fn: function of one mpmath number.
      low: left end.
      high: right end.

    Returns:
      Coefficients of both, lowest first; the last one of the denominator is 1.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / 8) for i in range(4)]
    rows = mp.matrix([[x, x**2, -fn(x) * x, -fn(x) * x**2] for x in nodes])
    above1, above2, below1, below2 = mp.lu_solve(rows, mp.matrix([fn(x) - 1 for x in nodes]))
    return [1 / below2, above1 / below2, above2 / below2], [1 / below2, below1 / below2, mp.mpf(1)]


def worst(fn: Callable[[mp.mpf], mp.mpf], coefficients: list[float], low: mp.mpf, high: mp.mpf):
    """log2 of the largest absolute error on 500 points."""
    points = [low + (high - low) * i / 499 for i in range(1, 500)]
    return float(mp.log(max(abs(fn(x) - mp.polyval(coefficients[::-1], x)) for x in points), 2))


def series(fn: Callable[[int], mp.mpf]) -> Callable[[mp.mpf], mp.mpf]:
    """The power series with coefficients fn(0), fn(1), …, summed to 40 terms."""
    return lambda x: mp.fsum(fn(j) * x**j for j in range(40))


def erf_around(centre: float) -> Callable[[mp.mpf], mp.mpf]:
    """The error function, moved to a centre."""
    return lambda t: mp.erf(centre + t)


def polynomials() -> dict[str, tuple[Callable[[mp.mpf], mp.mpf], mp.mpf, mp.mpf, int]]:
    """name -> (function, low, high, terms)."""
    half_ln2 = mp.log(2) / 2 * mp.mpf("1.0001")
    log_end = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
    sin_end = (mp.pi / 2) ** 2 * mp.mpf("1.0001")
    return {
        # e^r = 1 + r + r^2 EXP(r)
        "EXP": (series(lambda j: 1 / mp.factorial(j + 2)), -half_ln2, half_ln2, 10),
        # 2^r = 1 + r EXP2(r)
        "EXP2": (
            series(lambda j: mp.log(2) ** (j + 1) / mp.factorial(j + 1)),
            mp.mpf("-0.5001"),
            mp.mpf("0.5001"),
            12,
        ),
        # log((1 + s) / (1 - s)) = 2 s + 2 s z LOG(z), z = s^2
        "LOG": (series(lambda j: mp.mpf(1) / (2 * j + 3)), mp.mpf(0), log_end, 7),
        # sin r = r + r z SIN(z), z = r^2
        "SIN": (series(lambda j: (-1) ** (j + 1) / mp.factorial(2 * j + 3)), mp.mpf(0), sin_end, 8),
        # atan t = t + t z ATAN(z), z = t^2
        "ATAN": (
            series(lambda j: mp.mpf((-1) ** (j + 1)) / (2 * j + 3)),
            mp.mpf(0),
            mp.mpf("0.125") ** 2 * mp.mpf("1.01"),
            7,
        ),
        # erf x = x CENTRE(x^2) for |x| < 1
        "CENTRE": (
            lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z else 2 / mp.sqrt(mp.pi),
            mp.mpf(0),
            mp.mpf(1),
            12,
        ),
    } | {
        # erf(centre + t), |t| <= 1/2
        f"AT_{int(centre * 10)}": (erf_around(centre), mp.mpf("-0.5"), mp.mpf("0.5"), 17)
        for centre in (1.5, 2.5, 3.5)
    }


def tangent() -> tuple[list[float], list[float], float]:
    """tanh r = r ABOVE(z) / BELOW(z), z = r^2; and log2 of the largest relative error."""

    def fn(z: mp.mpf) -> mp.mpf:
        return mp.tanh(mp.sqrt(z)) / mp.sqrt(z)

    end = (mp.log(2) / 4 * mp.mpf("1.0001")) ** 2
    above, below = ([float(c) for c in side] for side in fraction(fn, mp.mpf(0), end))
    points = [end * i / 500 for i in range(1, 501)]
    errors = [mp.polyval(above[::-1], z) / mp.polyval(below[::-1], z) / fn(z) - 1 for z in points]
    return above, below, float(mp.log(max(map(abs, errors)), 2))


def show(name: str, coefficients: list[float]) -> None:
    """Prints coefficients as Python has them."""
    print(f"{name} = (")
    for value in coefficients:
        print(f"    {value!r},")
    print(")")


def main() -> None:
    """Prints every polynomial and its largest error, and the fraction."""
    for name, (fn, low, high, terms) in polynomials().items():
        coefficients = [float(c) for c in interpolate(fn, low, high, terms)]
        print(f"# largest error 2^{worst(fn, coefficients, low, high):.1f}")
        show(name, coefficients)
    above, below, error = tangent()
    print(f"# largest error of the fraction 2^{error:.1f}")
    show("TANH_ABOVE", above)
    show("TANH_BELOW", below)


if __name__ == "__main__":
    main()
