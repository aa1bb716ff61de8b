"""Signed notes: a text, an empty line, and one line for each signature. The standard library alone.

Making and checking the signatures themselves stands in `sign`, which needs the extra `sign`.
"""

import base64
import binascii
import hashlib
import re
from typing import NamedTuple

from rlkjax.errors import ConsistencyError, InputError

ED25519 = b"\x01"  # signature type, the first byte of every key
SECRET = "PRIVATE+KEY+"
MOST = 64  # signatures that are read
_NAME = re.compile(r"[!-*,-~]{1,200}", re.ASCII)  # printable, no space, no plus
_DASH = "\N{EM DASH} "


class Signature(NamedTuple):
    """One signature line.

    Attributes:
      name: name of the key.
      key_id: 4 bytes.
      signature: 64 bytes of Ed25519.
    """

    name: str
    key_id: bytes
    signature: bytes


class Note(NamedTuple):
    """A text and what signs it; the text ends in a line feed."""

    text: str
    signatures: tuple[Signature, ...]


class Key(NamedTuple):
    """A key, public or secret.

    Attributes:
      name: printable ASCII without space and plus.
      key_id: 4 bytes.
      data: 32 bytes: the public key, or the seed of a secret one.
    """

    name: str
    key_id: bytes
    data: bytes


def key_id(name: str, public: bytes) -> bytes:
    """SHA-256(name || 0x0A || 0x01 || public key), of which the first 4 bytes.

    Args:
      name: name of the key.
      public: 32 bytes, Ed25519.

    Returns:
      4 bytes.

    Source: C2SP signed-note, signature type 0x01.
    """
    return hashlib.sha256(name.encode() + b"\n" + ED25519 + public).digest()[:4]


def check_name(name: str) -> str:
    """The name of a key, if it may be one.

    Args:
      name: any text.

    Returns:
      The name.

    Raises:
      InputError: empty, too long, or with a space, a plus or a character outside ASCII.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"key name: got {name[:80]!r}, want 1 to 200 printable ASCII characters without space "
            "and plus; for example example.com/training"
        )
    return name


def write_key(key: Key, *, secret: bool) -> str:
    """A key as one line of text without its end: NAME+ID+DATA, or PRIVATE+KEY+NAME+ID+DATA.

    Args:
      key: the key.
      secret: whether it is a secret one.

    Returns:
      ASCII text.
    """
    data = base64.b64encode(ED25519 + key.data).decode()
    return f"{SECRET if secret else ''}{key.name}+{key.key_id.hex()}+{data}"


def parse_key(text: str, what: str, *, secret: bool) -> Key:
    """Reads a key.

    Args:
      text: as `write_key` makes it; white space around it does not matter.
      what: name of the file, for the message.
      secret: whether a secret one is wanted.

    Returns:
      The key. That a public one has the identity of its name and data is checked.

    Raises:
      InputError: another text; a secret one is never repeated in the message.
    """
    text = text.strip()
    name, _, rest = text.removeprefix(SECRET if secret else "").partition("+")
    identity, _, data = rest.partition("+")
    raw = _decode(data)
    if _NAME.fullmatch(name) and re.fullmatch(r"[0-9a-f]{8}", identity) and len(raw) == 33:
        key = Key(name, bytes.fromhex(identity), raw[1:])
        known = secret or key_id(name, key.data) == key.key_id
        if known and raw[:1] == ED25519 and write_key(key, secret=secret) == text:
            return key
    kind = "secret" if secret else "public"
    raise InputError(
        f"{what}: got a text that is no {kind} Ed25519 key, want NAME+ID+DATA; "
        "make a pair with rlkjax prove --new-key NAME --out FILE"
    )


def write(note: Note) -> bytes:
    """The bytes of a note.

    Args:
      note: the note; without signatures the text alone is written.

    Returns:
      UTF-8.

    Source: C2SP signed-note.
    """
    lines = [
        f"{_DASH}{each.name} {base64.b64encode(each.key_id + each.signature).decode()}\n"
        for each in note.signatures
    ]
    return (note.text + ("\n" + "".join(lines) if lines else "")).encode()


def parse(data: bytes, what: str) -> Note:
    """Reads a note strictly; a text without signatures is one too.

    Args:
      data: its bytes.
      what: name of the file, for the message.

    Returns:
      The note; no signature is checked.

    Raises:
      ConsistencyError: other bytes than `write` makes, or too many signatures.
    """
    try:
        whole_text = data.decode("utf-8")
    except UnicodeDecodeError:
        whole_text = ""
    # The last empty line parts the two; the text may have others.
    text, parted, tail = whole_text.rpartition("\n\n")
    text, tail = (f"{text}\n", tail) if parted else (whole_text, "")
    signatures = [_signature(line) for line in tail.split("\n")[:-1][: MOST + 1]]
    whole = [each for each in signatures if each is not None]
    note = Note(text, tuple(whole))
    if len(whole) > MOST or write(note) != data or not text.endswith("\n"):
        raise ConsistencyError(
            f"{what}: got bytes that are no note, want a text, an empty line, and up to {MOST} "
            "lines of one signature each; make it with rlkjax prove RUN --head"
        )
    return note


def _signature(line: str) -> Signature | None:
    name, _, data = line.removeprefix(_DASH).partition(" ")
    raw = _decode(data)
    if not line.startswith(_DASH) or not _NAME.fullmatch(name) or len(raw) < 5:
        return None
    return Signature(name, raw[:4], raw[4:])


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
