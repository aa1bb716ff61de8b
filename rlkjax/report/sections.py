"""The parts of a run's page, each a pure function of what is known of the run."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlkjax.audit.checks import Finding, Record
from rlkjax.audit.elements import value_text
from rlkjax.report import bits
from rlkjax.report.facts import Facts, count, number
from rlkjax.report.markup import EMPTY, Html, join, tag

MOST_FINDINGS = 60
MOST_SETTINGS = 500


def block(name: str, title: str, *children: object) -> Html:
    """A section with its heading.

    Args:
      name: id of the section.
      title: heading.
      *children: content.

    Returns:
      Markup; nothing where there is no content.
    """
    if not any(children):
        return EMPTY
    return tag("section", tag("h2", title), *children, id=name)


def table(rows: Sequence[tuple[object, ...]], heads: Sequence[str] = ()) -> Html:
    """Rows whose first cell names the rest.

    Args:
      rows: cells.
      heads: headings of the columns; empty for none.

    Returns:
      A table; nothing where there are no rows.
    """
    if not rows:
        return EMPTY
    top = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    body = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", each) for each in rest))
        for first, *rest in rows
    ]
    kind = "plain even" if heads else "plain"
    filled = tag("table", top if heads else None, tag("tbody", *body), class_=kind)
    return tag("div", filled, class_="wide")


def headline(facts: Facts) -> str:
    """Task and seed.

    Args:
      facts: the run.

    Returns:
      Plain text.
    """
    task, seed = (words(facts.config.get(key, "unknown")) for key in ("task", "seed"))
    return f"{task}, seed {seed}"


def verdict(facts: Facts) -> Html:
    """What the verifier found, in one line and one sentence.

    Args:
      facts: the run.

    Returns:
      Markup.
    """
    report = facts.report
    good = report.verified
    line = tag("p", mark(good), "verified" if good else "NOT verified", class_="verdict")
    planned = count(facts.genesis.get("iterations"))
    of = "" if planned is None else f" of {planned:,}"
    digests = (("chain", report.chain.head), ("bits", report.chain.bits), ("root", report.root))
    heads = [(name, tag("code", digest)) for name, digest in digests]
    return tag(
        "div",
        line,
        tag("p", _sentence(facts)),
        table([*heads, ("iterations", f"{report.iterations:,}{of}")]),
        class_=f"panel {'good' if good else 'bad'}",
    )


def mark(good: bool) -> Html:
    """The sign of a verdict.

    Args:
      good: a tick; else a cross.

    Returns:
      An SVG element that stands beside words.
    """
    path = "M5 12.5l4.5 4.5L19 7" if good else "M6 6l12 12M18 6L6 18"
    return tag("svg", tag("path", d=path), viewBox="0 0 24 24", class_="mark", aria_hidden="true")


def _sentence(facts: Facts) -> str:
    report = facts.report
    if report.verified:
        return (
            "Every byte that the ledger speaks of is the byte that was recorded: each record, each "
            "line of metrics, the config, the fingerprint and every kept checkpoint and segment."
        )
    found = len(report.findings)
    parts = [f"{found:,} finding{'' if found == 1 else 's'}, listed below."] if found else []
    if report.halted is not None:
        parts.insert(0, f"The run halted in iteration {report.halted['iteration']:,}.")
    return " ".join(parts)


def halt(facts: Facts) -> Html:
    """Where a run halted, with both bit patterns.

    Args:
      facts: the run.

    Returns:
      Markup; nothing for a run that did not halt.
    """
    record = facts.report.halted
    if record is None:
        return EMPTY
    names = ("iteration", "stage", "buffer", "step", "environment", "element")
    place = [(name, words(record[name])) for name in names if record[name] not in (None, [])]
    return block(
        "halt",
        "The halt",
        tag("p", record["reason"], class_="lead"),
        table(place),
        _halt_bits(record, _dtype(facts.genesis, record["buffer"])),
    )


def _halt_bits(record: Record, dtype: str | None) -> Html:
    if record["expected"] is None or record["got"] is None:
        return EMPTY
    sides = [("expected", record["expected"]), ("got", record["got"])]
    return bits.pair([(name, digits, said(dtype, digits)) for name, digits in sides], dtype)


def said(dtype: str | None, digits: str) -> str:
    """A bit pattern as a number.

    Args:
      dtype: of the element, or None.
      digits: hex digits.

    Returns:
      The number; empty where dtype and digits do not fit.
    """
    try:
        return value_text(dtype or "", digits)
    except (TypeError, ValueError, KeyError, OverflowError):
        return ""


def _dtype(genesis: Record, buffer: object) -> str | None:
    schema = genesis.get("schema")
    for each in schema if isinstance(schema, list) else []:
        if isinstance(each, list) and len(each) == 3 and each[0] == buffer:
            return str(each[1])
    return None


def words(value: Any) -> str:
    """A value as a person reads it.

    Args:
      value: what JSON can hold.

    Returns:
      Plain text.
    """
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 2**63 else "a huge number"
    if isinstance(value, list | tuple | dict):
        # One level only: foreign files may be nested deeper than any stack.
        flat_list = not isinstance(value, dict) and not any(
            isinstance(each, list | tuple | dict) for each in value
        )
        return ", ".join(map(words, value)) or "none" if flat_list else "nested values"
    return str(value) or "none"


def findings(facts: Facts) -> Html:
    """Everything that is wrong, by file.

    Args:
      facts: the run.

    Returns:
      Markup; nothing where nothing is wrong.
    """
    found = facts.report.findings
    if not found:
        return EMPTY
    rest = len(found) - MOST_FINDINGS
    more = f"{rest:,} more; python -m rlkjax.verify RUN lists all of them." if rest > 0 else None
    return block(
        "findings",
        "Findings",
        table(
            [_finding(each) for each in found[:MOST_FINDINGS]],
            ("file", "record", "what", "expected", "got"),
        ),
        tag("p", more, class_="note") if more else None,
    )


def _finding(finding: Finding) -> tuple[object, ...]:
    place = "" if finding.record is None else f"{finding.record:,}"
    return finding.file, place, finding.what, finding.expected, finding.got


def basis(facts: Facts, certificate: Html = EMPTY) -> Html:
    """What the bits of the run rest on: numerics, certificate, programs, environment, switches.

    Args:
      facts: the run.
      certificate: of its stages, where they were traced.

    Returns:
      Markup.
    """
    genesis = facts.genesis
    if not genesis:
        return EMPTY
    exact = genesis.get("numerics") == "exact"
    promise = (
        "Exact numerics: every float32 operation has one defined result, so the bits depend on "
        "the inputs alone, not on device, threads, shapes or compiler."
        if exact
        else "Native numerics: plain XLA under fixed flags. The bits hold for one device, one set "
        "of versions, one number of worker threads and one set of shapes."
    )
    digests = [("certificate", "certificate of the traced stages")] if exact else []
    digests += [("program", "settings that move bits"), ("policy_graph", "lowered policy graph")]
    shown = [(name, tag("code", words(genesis[key]))) for key, name in digests if genesis.get(key)]
    environment = genesis.get("environment")
    switches = genesis.get("switches")
    costs = [words(each) for each in switches] if isinstance(switches, list) and switches else []
    return block(
        "basis",
        "What the bits rest on",
        tag("p", promise, class_="lead"),
        table(
            [
                ("numerics", words(genesis.get("numerics"))),
                ("platform", words(genesis.get("platform"))),
                *shown,
                *((f"environment {key}", value) for key, value in flat(environment)),
                (
                    "switches that cost a guarantee",
                    join(tag("p", each) for each in costs or ["none"]),
                ),
            ]
        ),
        certificate
        or tag(
            "p",
            "Operations of each stage and what they depend on: ",
            tag("code", "python -m rlkjax.report RUN --certify"),
            class_="note",
        ),
    )


def flat(tree: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted keys with their values in words.

    Args:
      tree: what JSON can hold.
      prefix: put before each key.

    Returns:
      (key, value), sorted; floats in hexadecimal form are shown as decimals.
    """
    found = []
    todo = [(prefix, tree)]
    while todo:  # no recursion: the file may be nested deeper than Python's stack
        name, value = todo.pop()
        if isinstance(value, Mapping) and value:
            todo += [(f"{name}.{key}" if name else str(key), each) for key, each in value.items()]
        elif name:
            found.append((name, _decimal(value)))
    return sorted(found)[:MOST_SETTINGS]


def _decimal(value: Any) -> str:
    if isinstance(value, str) and value[:3].lstrip("-").startswith("0x"):
        try:
            return repr(float.fromhex(value))
        except (ValueError, OverflowError):
            return value
    return words(value)


def settings(tree: Record, *, groups: bool) -> Html:
    """Settings as tables in columns.

    Args:
      tree: nested or dotted keys.
      groups: whether each first part of a key has a table of its own.

    Returns:
      Markup.
    """
    rows = flat(tree)
    if not groups:
        return tag("div", table(rows), class_="fine")
    named: dict[str, list[tuple[object, ...]]] = {}
    for key, value in rows:
        head, dot, rest = key.rpartition(".")
        named.setdefault(head if dot else "run", []).append((rest if dot else key, value))
    tables = [tag("div", tag("h3", head), table(named[head])) for head in sorted(named)]
    return tag("div", *tables, class_="columns")


def timing(facts: Facts) -> Html:
    """How long the run took: the one part of the page that comes from a clock.

    Args:
      facts: the run.

    Returns:
      Markup; nothing where no times were kept.
    """
    lines = [
        (each["iteration"], number(each.get("seconds")), number(each.get("audit_seconds")))
        for each in facts.timing
        if count(each.get("iteration")) is not None
    ]
    known = [(at, end, audit) for at, end, audit in lines if end is not None and audit is not None]
    if len(known) < 2:
        return EMPTY
    # A resumed run counts from zero again: only neighbours of one process are subtracted.
    spans = [b[1] - a[1] for a, b in zip(known, known[1:], strict=False) if b[1] >= a[1]]
    seconds, audits = sum(spans), sum(audit for _, _, audit in known[1:])
    steps = _steps_of_one(facts.metrics)
    rows = [("iterations timed", f"{len(spans):,}"), ("seconds", f"{seconds:,.1f}")]
    if steps and seconds > 0:
        rows.append(("environment steps a second", f"{steps * len(spans) / seconds:,.0f}"))
    if seconds > 0:
        share = f"{audits / seconds:.1%} of that time, beside the device's work"
        rows.append(("hashing and recording", share))
    return block(
        "timing",
        "Time",
        table(rows),
        tag("p", "From timing.jsonl, which nothing vouches for.", class_="note"),
    )


def _steps_of_one(metrics: Sequence[Record]) -> int | None:
    steps = [count(line.get("steps")) for line in metrics if line.get("kind") == "update"]
    return steps[0] if steps else None
