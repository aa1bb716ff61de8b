"""Ed25519 signatures of notes. Needs the extra `sign`, which is loaded only where it is used."""

from typing import Any

from rlkjax.audit import note as notes
from rlkjax.audit.note import Key, Note, Signature
from rlkjax.errors import ConsistencyError, InputError, MachineError

# The y coordinates of all points whose order divides 8, in both spellings where there are two; the
# sign of x, the top bit of the last byte, is left out. For a key of one of these, anyone can make
# signatures. Source: RFC 8032, section 5.1.3, for the encoding; Chalkias, Garillot and Nikolaenko,
# "Taming the many EdDSAs" (2020), table 1, for the points.
_SMALL_ORDER = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


def new_key(name: str) -> tuple[str, str]:
    """A fresh pair of keys.

    Args:
      name: of the key, such as example.com/training.

    Returns:
      The secret and the public key as text.

    Raises:
      InputError: no name of a key.
      MachineError: the extra is not installed.
    """
    notes.check_name(name)
    ed25519, _ = _library()
    secret = ed25519.Ed25519PrivateKey.generate()
    public = secret.public_key().public_bytes_raw()
    identity = notes.key_id(name, public)
    seed = Key(name, identity, secret.private_bytes_raw())
    return (
        notes.write_key(seed, secret=True),
        notes.write_key(Key(name, identity, public), secret=False),
    )


def sign(note: Note, key: Key) -> Note:
    """The note with one more signature; an older one of the same key is replaced.

    Args:
      note: the note.
      key: a secret key.

    Returns:
      The signed note.

    Raises:
      ConsistencyError: the key's identity is not that of its name and seed.
      MachineError: the extra is not installed.
    """
    ed25519, _ = _library()
    secret = ed25519.Ed25519PrivateKey.from_private_bytes(key.data)
    if notes.key_id(key.name, secret.public_key().public_bytes_raw()) != key.key_id:
        raise ConsistencyError(
            f"key {key.name}: got an identity that is not that of its name and seed, want the key "
            "as it was made; restore its file from a copy"
        )
    kept = [each for each in note.signatures if each[:2] != (key.name, key.key_id)]
    made = Signature(key.name, key.key_id, secret.sign(note.text.encode()))
    return Note(note.text, (*kept, made))


def problem(note: Note, key: Key) -> str | None:
    """Why a note does not count as signed by a key.

    Args:
      note: the note.
      key: a public key.

    Returns:
      None where every signature of the key is good and there is one; else a clause.

    Raises:
      InputError: a key for which anyone can sign.
      MachineError: the extra is not installed.
    """
    if bytes([*key.data[:-1], key.data[-1] & 0x7F]) in _SMALL_ORDER:
        raise InputError(
            f"key {key.name}: got a point of small order, for which anyone can make signatures, "
            "want a key that was made from a secret; ask its holder for the right file"
        )
    ed25519, wrong_signature = _library()
    own = [each for each in note.signatures if each[:2] == (key.name, key.key_id)]
    if not own:
        return "no signature of this key"
    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(key.data)
        for each in own:
            public.verify(each.signature, note.text.encode())
    except (ValueError, wrong_signature):
        return "a signature that does not fit the text"
    return None


def _library() -> tuple[Any, type[Exception]]:
    """The module of Ed25519, and the exception that a wrong signature raises."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MachineError(
            "signatures: got no library for Ed25519 on this machine, want the extra `sign`; "
            "install it with pip install 'rlkjax[sign]'"
        ) from None
    return ed25519, InvalidSignature
