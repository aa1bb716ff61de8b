"""Heads as C2SP checkpoints, and signed notes against a published example."""

import subprocess
import sys

import pytest

from rlkjax.audit import head as heads
from rlkjax.audit import note as notes
from rlkjax.audit import sign
from rlkjax.audit.head import Head
from rlkjax.audit.note import Note
from rlkjax.errors import ConsistencyError, InputError

# The example of golang.org/x/mod/sumdb/note.
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
SECRET = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SIGNED = (
    TEXT + "\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgK"
    "vqfqdngotpRZb6KE6RyyBwJnAM=\n"
).encode()
# The example of C2SP signed-note, in which the text has an empty line of its own.
QUASIMODO = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n"
    "— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU"
    "0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
).encode()


@pytest.fixture
def text(golden):
    return (golden.parent / "proofs" / "head.txt").read_text()


def test_the_golden_head(lines, text, vectors):
    head = heads.head_of(lines)
    assert (head.size, head.root, head.chain) == (12, vectors["ledger_root"], vectors["chain"])
    assert heads.write(head) == text
    assert heads.parse(text, "head") == head


def test_the_head_at_every_size_is_that_of_the_shorter_ledger(lines):
    for size in range(1, len(lines) + 1):
        assert heads.head_of(lines, size) == heads.head_of(lines[:size])


def test_a_size_that_the_ledger_never_had(lines):
    with pytest.raises(InputError, match="size: got 13 of 12 records"):
        heads.head_of(lines, 13)
    with pytest.raises(InputError, match="size: got None of 0 records"):
        heads.head_of([])


def test_a_damaged_ledger_has_no_head(lines):
    with pytest.raises(ConsistencyError, match="record 3"):
        heads.head_of([*lines[:3], *lines[4:]])


def spoiled(text):
    """Every text that is one character shorter, longer or other."""
    for place in range(len(text)):
        yield text[:place] + text[place + 1 :]
        yield text[:place] + "0" + text[place:]
        yield text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]


def test_every_other_text_is_another_head_or_none(text):
    head = heads.parse(text, "head")
    read = 0
    for other in spoiled(text):
        try:
            got = heads.parse(other, "head")
        except ConsistencyError as error:
            assert "want the five lines of a head" in str(error)
            continue
        read += 1
        assert other == text or got != head
    assert read > 0  # a digit of a digest may be another


def test_a_published_signature_is_repeated_and_checked():
    key = notes.parse_key(SECRET, "secret", secret=True)
    public = notes.parse_key(PUBLIC, "public", secret=False)
    pytest.importorskip("cryptography")
    note = sign.sign(Note(TEXT, ()), key)
    assert notes.write(note) == SIGNED
    assert notes.parse(SIGNED, "note") == note
    assert sign.problem(note, public) is None
    assert sign.sign(note, key) == note


@pytest.mark.parametrize("data", [SIGNED, TEXT.encode(), QUASIMODO])
def test_notes_are_read_as_they_are_written(data):
    assert notes.write(notes.parse(data, "note")) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no line feed",
        b"\xff\xfe\n",
        SIGNED + b"x",
        SIGNED + b"\n",
        SIGNED.replace("—".encode(), b"-"),
        SIGNED.replace(b"AM=\n", b"AN=\n"),
        SIGNED.replace(b"AM=\n", b"AM=\r\n"),
        SIGNED.replace(b"PeterNeumann x08", b"Peter+Neumann x08"),
        TEXT.encode() + b"\n" + SIGNED[len(TEXT) + 1 :] * 65,
    ],
)
def test_other_bytes_are_no_note(data):
    with pytest.raises(ConsistencyError, match="got bytes that are no note"):
        notes.parse(data, "note")


def test_a_changed_text_or_signature_does_not_count():
    pytest.importorskip("cryptography")
    public = notes.parse_key(PUBLIC, "public", secret=False)
    note = notes.parse(SIGNED, "note")
    (good,) = note.signatures
    wrong = good._replace(signature=bytes(64))
    assert sign.problem(Note(TEXT[1:], (good,)), public) == "a signature that does not fit the text"
    assert sign.problem(Note(TEXT, (wrong,)), public) == "a signature that does not fit the text"
    assert sign.problem(Note(TEXT, (good, wrong)), public) is not None
    assert sign.problem(Note(TEXT, ()), public) == "no signature of this key"
    other = good._replace(name="Other")
    assert sign.problem(Note(TEXT, (other,)), public) == "no signature of this key"


@pytest.mark.parametrize(
    "text", ["", "a+b", PUBLIC[:-4], PUBLIC.replace("c74f", "c74e"), PUBLIC + "\n" + PUBLIC, SECRET]
)
def test_other_texts_are_no_public_key(text):
    with pytest.raises(InputError, match="file: got a text that is no public Ed25519 key"):
        notes.parse_key(text, "file", secret=False)


def test_a_secret_key_is_never_repeated_in_a_message():
    spoiled = SECRET.replace("AYEK", "AYEL")[:-2]
    with pytest.raises(InputError, match="no secret Ed25519 key") as raised:
        notes.parse_key(spoiled, "file", secret=True)
    assert "AYEL" not in str(raised.value)


def test_a_secret_key_under_another_name_signs_nothing():
    pytest.importorskip("cryptography")
    key = notes.parse_key(SECRET, "file", secret=True)
    with pytest.raises(ConsistencyError, match="an identity that is not that of its name"):
        sign.sign(Note(TEXT, ()), key._replace(name="Other"))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "é", "x" * 201, "a\n"])
def test_names_that_no_key_may_have(name):
    with pytest.raises(InputError, match="key name: got"):
        notes.check_name(name)


def test_a_new_pair_signs_and_is_checked():
    pytest.importorskip("cryptography")
    secret, public = sign.new_key("example.com/training")
    note = sign.sign(Note(TEXT, ()), notes.parse_key(secret, "s", secret=True))
    assert sign.problem(note, notes.parse_key(public, "p", secret=False)) is None
    assert sign.problem(note, notes.parse_key(PUBLIC, "p", secret=False)) is not None


def test_without_the_library_the_extra_is_named():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from rlkjax.audit import sign\n"
        "try: sign.new_key('a')\n"
        "except Exception as error: print(error.exit_status, error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("3 signatures: got no library for Ed25519")
    assert "pip install 'rlkjax[sign]'" in ran.stdout


def test_a_head_is_the_text_of_a_checkpoint_of_other_logs(text):
    origin, size, root, *extensions = text.splitlines()
    assert " " not in origin and "+" not in origin
    assert (size, len(root), len(extensions)) == ("12", 44, 2)
    assert isinstance(heads.parse(text, "head"), Head)


def test_anyone_signs_for_a_key_of_small_order_so_it_is_refused():
    """For the neutral point A, S = 0 and R = A fit every text: [0]B = R + [k]A."""
    neutral = b"\1" + bytes(31)
    for y in sorted(sign._SMALL_ORDER):
        for top in (0, 0x80):
            data = bytes([*y[:-1], y[-1] | top])
            key = notes.Key("x", notes.key_id("x", data), data)
            forged = notes.Signature("x", key.key_id, neutral + bytes(32))
            with pytest.raises(InputError, match="key x: got a point of small order"):
                sign.problem(Note(TEXT, (forged,)), key)


def test_the_list_of_points_of_small_order_is_whole():
    """The curve has cofactor 8: one point each of order 1 and 2, two of order 4, four of order 8.

    Multiplied by 8 each gives the neutral point. y of 0, 1, -1 and of order 8 (two, each for two x)
    are five; 0 and 1 have a second spelling below 2^255, as p and p + 1.
    """
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    numbers = {int.from_bytes(y, "little") for y in sign._SMALL_ORDER}
    assert len(numbers) == 7 and {n for n in numbers if n >= p} == {p, p + 1}
    for y in numbers:
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p  # x^2, from -x^2+y^2 = 1+d x^2 y^2
        assert square == 0 or pow(square, (p - 1) // 2, p) == 1
        for _ in range(3):  # of a double: y' = (y^2 + x^2) / (2 + x^2 - y^2), x' = 2xy / (y^2-x^2)
            up, down = (y * y + square) % p, (2 + square - y * y) % p
            new = 4 * square * y * y * pow((y * y - square) ** 2, -1, p) % p
            y, square = up * pow(down, -1, p) % p, new
        assert (y, square) == (1, 0)
