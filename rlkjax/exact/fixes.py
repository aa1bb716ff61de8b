"""Inputs whose true value lies so near a rounding boundary that float64 cannot tell the side.

name -> ((bits of the input, bits of the nearest result), …). Found by
`python -m benchmarks.exact_functions --all --hard`, decided by mpmath.
"""

Fix = tuple[int, int]

SIGN = 0x80000000


def odd(*fixes: Fix) -> tuple[Fix, ...]:
    """The fixes of an odd function, for both signs."""
    return (*fixes, *((x ^ SIGN, y ^ SIGN) for x, y in fixes))


FIXES: dict[str, tuple[Fix, ...]] = {
    "log": (
        (0x3C413D3A, 0xC08E158F),
        (0x41178FEB, 0x400FE5E7),
        (0x4C5D65A5, 0x418F034B),
        (0x65D890D3, 0x4254D1F9),
        (0x6F31A8EC, 0x42845A89),
    ),
    "log1p": (
        (0x35400003, 0x353FFFFF),
        (0x3710001B, 0x370FFFF3),
        (0x3EFD81AD, 0x3ECDEEE1),
        (0x41078FEB, 0x400FE5E7),
        (0x65D890D3, 0x4254D1F9),
        (0x6F31A8EC, 0x42845A89),
        (0xB53FFFFD, 0xB5400001),
        (0xB70FFFE5, 0xB710000D),
        (0xBB0EC8C4, 0xBB0EF0A5),
    ),
    "logistic": ((0xBA928601, 0x3EFFDB5F),),
    "exp2": ((0x3B429D37, 0x3F804385), (0xBCF3A937, 0x3F7AC6B1)),
    "sin": odd((0x46199998, 0xBEB1FA5D)),
    "acos": ((0x328885A3, 0x3FC90FDB), (0x39826222, 0x3FC907B5)),
    "atan": odd((0x3D8D6B23, 0x3D8D31C3)),
    "sinh": odd((0x3A1285FF, 0x3A1285FF)),
    "asinh": odd((0x4BDD65A5, 0x418F034B), (0x655890D3, 0x4254D1F9), (0x6EB1A8EC, 0x42845A89)),
    "acosh": ((0x655890D3, 0x4254D1F9), (0x6EB1A8EC, 0x42845A89)),
}
