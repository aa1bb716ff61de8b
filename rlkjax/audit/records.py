"""What a ledger record may hold: the kinds, their keys, and the strict reading of one line."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from rlkjax.audit.canonical import canonical_json
from rlkjax.errors import ConsistencyError, InputError

FORMAT = "rlkjax-ledger/1"
CHAIN_KEYS = ("bits", "index", "kind", "prev")
CLAIMS = ("log_prob", "value")  # the fields of a segment that the rescoring recomputes
TRAIN, POLICY = "train/", "policy/"  # how the tensors of a train state, and its policy, begin

Check = Callable[[Any], bool]

_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_digest(value: Any) -> bool:
    """Whether a value is 64 lower-case hex digits.

    Args:
      value: anything.

    Returns:
      True for a digest as records spell it.
    """
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def is_count(value: Any) -> bool:
    """Whether a value is an integer from 0 to 2^64 - 1, and no boolean.

    Args:
      value: anything.

    Returns:
      True for a count as records spell it.
    """
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_element(value: Any) -> bool:
    return _is_list(value) and all(map(is_count, value))


_WANT: dict[Check, str] = {
    is_digest: "64 lower-case hex digits",
    is_count: "an integer from 0 to 2^64 - 1",
    _is_text: "a string",
    _is_object: "an object",
    _is_list: "an array",
}

# Required keys of each kind, besides the four that every record has.
PAYLOADS: dict[str, dict[str, Check]] = {
    "genesis": {
        "format": lambda value: value == FORMAT,
        "config": is_digest,
        "program": is_digest,
        "fingerprint": is_digest,
        "seed": is_count,
        "numerics": _is_text,
        "platform": _is_text,
        "environment": _is_object,
        "schema": _is_list,
        "switches": _is_list,
        "versions": _is_object,
    },
    "resume": {"iteration": is_count, "fingerprint": is_digest},
    "rollout": {
        "iteration": is_count,
        "sequence": is_count,
        "seed": is_count,
        "policy": is_digest,
        "root": is_digest,
        "leaves": is_count,
        "graph": is_digest,
        "nonfinite": is_count,
    },
    "rescore": {
        "iteration": is_count,
        "sequence": is_count,
        "root": is_digest,
        "graph": is_digest,
        "rollout_root": is_digest,
    },
    "advantages": {"iteration": is_count, "root": is_digest},
    "update": {"iteration": is_count, "root": is_digest, "metrics": is_digest},
    "evaluation": {"iteration": is_count, "root": is_digest, "metrics": is_digest},
    "reference": {
        "iteration": is_count,
        "segment": is_digest,
        "state": is_digest,
        "past": is_count,
        "metrics": is_digest,
    },
    "acknowledge": {"iteration": is_count, "reason": _is_text},
    "checkpoint": {"iteration": is_count, "manifest": is_digest},
    "halt": {
        "iteration": is_count,
        "stage": _is_text,
        "buffer": _or_null(_is_text),
        "step": _or_null(is_count),
        "environment": _or_null(is_count),
        "element": _or_null(_is_element),
        "expected": _or_null(_is_text),
        "got": _or_null(_is_text),
        "reason": _is_text,
    },
}

OPTIONAL: dict[str, dict[str, Check]] = {
    "genesis": {"policy_graph": is_digest, "iterations": is_count, "certificate": is_digest},
}

BITS_KINDS = frozenset({"rollout", "rescore", "advantages", "update", "evaluation"})
METRICS_KINDS = frozenset({"update", "evaluation", "reference"})


def check_payload(kind: str, payload: Mapping[str, Any]) -> None:
    """Refuses a payload that lacks a key, has one too many, or a value of the wrong type.

    Args:
      kind: kind of the record.
      payload: its keys without index, kind, prev and bits.

    Raises:
      InputError: naming the kind and the key.
    """
    if kind not in PAYLOADS:
        raise InputError(f"kind: got {kind!r}, want one of {', '.join(PAYLOADS)}; name one of them")
    checks = PAYLOADS[kind] | {
        key: check for key, check in OPTIONAL.get(kind, {}).items() if key in payload
    }
    for key in sorted(set(checks) ^ set(payload)):
        state = "missing" if key in checks else "unknown"
        raise InputError(
            f"record {kind!r}: got key {key!r} {state}, want exactly {', '.join(sorted(checks))}; "
            "a new key needs a new format number"
        )
    for key, check in checks.items():
        if not check(payload[key]):
            want = _WANT.get(check, "a value as docs/ledger-format.md states it")
            raise InputError(
                f"record {kind!r}: got {key} = {str(payload[key])[:80]!r}, want {want}; "
                "convert it before it is recorded"
            )


def _refuse_number(text: str) -> NoReturn:
    raise ConsistencyError(f"got the number {text[:40]}, want integers only")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twins = sorted({name for name in names if names.count(name) > 1})
        raise ConsistencyError(f"got key {twins[0]!r} more than once, want each key once")
    return result


def parse_canonical(data: bytes, what: str) -> dict[str, Any]:
    """Reads a canonical JSON object, refusing every other spelling of it.

    Args:
      data: the bytes, without a line end.
      what: name of the thing, for the message.

    Returns:
      The object.

    Raises:
      ConsistencyError: not JSON, not an object, a float, a key twice, too deep, or bytes other than
        `canonical_json` writes.
    """
    try:
        value = json.loads(
            data.decode("ascii"),
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
            object_pairs_hook=_refuse_twins,
        )
        spelled = canonical_json(value)
    except ConsistencyError as error:
        raise ConsistencyError(f"{what}: {error}; restore the file from a copy") from None
    except RecursionError:
        raise ConsistencyError(
            f"{what}: got JSON nested too deep to read, want a flat object; restore the file"
        ) from None
    except (ValueError, InputError) as error:
        raise ConsistencyError(
            f"{what}: got bytes that are no canonical JSON ({error}), want one ASCII object; "
            "restore the file from a copy"
        ) from None
    if not isinstance(value, dict):
        raise ConsistencyError(
            f"{what}: got a JSON {type(value).__name__}, want an object; restore the file"
        )
    if spelled != data:
        raise ConsistencyError(
            f"{what}: got another spelling of the same JSON, want sorted keys without spaces or "
            "line ends; restore the file from a copy"
        )
    return value


def parse(line: bytes) -> dict[str, Any]:
    """Reads one ledger record strictly.

    Args:
      line: the line without its line end.

    Returns:
      The record, with all keys of its kind.

    Raises:
      ConsistencyError: the line is not a canonical record of a known kind.
    """
    record = parse_canonical(line, "ledger record")
    checks = {"bits": is_digest, "index": is_count, "kind": _is_text, "prev": is_digest}
    for key, check in checks.items():
        if not check(record.get(key)):
            raise ConsistencyError(
                f"ledger record: got {key} = {str(record.get(key))[:80]!r}, want {_WANT[check]}; "
                "restore the file from a copy"
            )
    payload = {key: value for key, value in record.items() if key not in CHAIN_KEYS}
    try:
        check_payload(record["kind"], payload)
    except InputError as error:
        raise ConsistencyError(str(error)) from None
    return record
