"""A run beside another one: heads, settings and fingerprints that differ."""

from rlkjax.audit.checks import Record
from rlkjax.platform import fingerprint
from rlkjax.report.facts import Facts
from rlkjax.report.markup import Html, tag
from rlkjax.report.sections import block, flat, table

LONG_LIST = 12  # words, such as the features of a processor


def section(facts: Facts, other: Facts) -> Html:
    """What differs between two runs outside their numbers, and whether these are equal.

    Args:
      facts: the run of the page.
      other: the run beside it.

    Returns:
      Markup.
    """
    config = _settings(facts.config, other.config)
    machine = fingerprint.differences(_texts(facts.fingerprint), _texts(other.fingerprint))
    return block(
        "against",
        "Beside the other run",
        tag("p", _sentence(facts, other), class_="lead"),
        table(_heads(facts, other), ("", "this run", "other run")),
        tag("h3", "Config"),
        table(config, ("key", "this run", "other run"))
        or tag("p", "The same in every key.", class_="note"),
        tag("h3", "Fingerprint"),
        table(
            [(each.key, *apart(str(each.a), str(each.b)), each.effect) for each in machine],
            ("entry", "this run", "other run", "what it can change"),
        )
        or tag("p", "The same in every entry.", class_="note"),
    )


def apart(a: str, b: str) -> tuple[str, str]:
    """Two values as they are shown beside each other: of long lists only what one side has.

    Args:
      a: one value.
      b: the other, not equal.

    Returns:
      Both, shortened where both are long lists of words.
    """
    lists = [each.split() for each in (a, b)]
    if min(map(len, lists)) <= LONG_LIST:
        return a, b
    mine, theirs = (
        " ".join(word for word in one if word not in set(other))
        for one, other in (lists, lists[::-1])
    )
    return f"only here: {mine or 'none'}", f"only here: {theirs or 'none'}"


def _sentence(facts: Facts, other: Facts) -> str:
    a, b = facts.report.chain, other.report.chain
    if not (facts.report.verified and other.report.verified):
        return "One of the two is not verified, so equal or unequal heads prove nothing."
    if a.head == b.head:
        return "Equal chains: every record of the two is the same, the machine included."
    if a.bits == b.bits:
        return "Equal bits: all buffers and parameters are the same; settings around them differ."
    return "Unequal bits: python -m rlkjax.diff names the first difference."


def _heads(facts: Facts, other: Facts) -> list[tuple[object, ...]]:
    both = [each.report for each in (facts, other)]
    return [
        ("state", *("verified" if each.verified else "NOT verified" for each in both)),
        ("chain", *(tag("code", each.chain.head) for each in both)),
        ("bits", *(tag("code", each.chain.bits) for each in both)),
        ("iterations", *(f"{each.iterations:,}" for each in both)),
    ]


def _settings(a: Record, b: Record) -> list[tuple[object, ...]]:
    mine, theirs = dict(flat(a)), dict(flat(b))
    keys = sorted({*mine, *theirs})
    rows = [(key, mine.get(key, "absent"), theirs.get(key, "absent")) for key in keys]
    return [row for row in rows if row[1] != row[2]]


def _texts(tree: Record) -> dict[str, str | int]:
    return dict(flat(tree))
