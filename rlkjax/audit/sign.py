"""Ed25519 signatures of notes. Needs the extra `sign`, which is loaded only where it is used."""

from typing import Any

from rlkjax.audit import note as notes
from rlkjax.audit.note import Key, Note, Signature
from rlkjax.errors import ConsistencyError, MachineError


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
      MachineError: the extra is not installed.
    """
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
