"""A thousand spoiled files: never a traceback, always the right exit status."""

import random

import pytest

from rlkjax import cli, verify
from rlkjax.audit.verify import LIMIT, verify_run

DEEP, HUGE = b"[" * 50_000, b"9" * 5_000


def spoil(data, rng):
    """One random change of a file's bytes."""
    a, b = sorted(rng.choices(range(len(data) + 1), k=2))
    b = min(b, a + 300)
    piece = rng.choice([DEEP, HUGE, b"\r", b"\n", b"\0", b'"', b"{}", b"1e5", b"\xff", b"null"])
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return rng.choice(
        [
            data[:a] + bytes([rng.randrange(256)]) + data[a + 1 :],
            data[:a] + data[b:],
            data[:b] + data[a:],
            data[:a] + piece + data[b:],
            data[:a] + rng.randbytes(b - a) + data[b:],
            data[:a],
            data.replace(b"\n", b"\r\n"),
            data.replace(b":", b" : "),
            data.replace(b"0", HUGE, 1),
            data.upper(),
            b"\n".join(lines),
            data[::-1],
        ]
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_spoiled_files(run, capsys, seed):
    rng = random.Random(seed)
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    ledger = run / "ledger.jsonl"
    for _ in range(100):
        path = ledger if rng.random() < 0.4 else rng.choice(paths)
        data = path.read_bytes()
        spoiled = spoil(data, rng)
        path.write_bytes(spoiled)
        status = cli.run(verify.main, [str(run)])
        out, err = capsys.readouterr()
        assert (status == 0) == (spoiled == data), (path, err)
        assert status in (0, 1), err
        if status:
            assert path.name in out
            assert out.endswith("NOT verified\n")
        path.write_bytes(data)


def test_a_long_ledger_of_nonsense_is_counted_and_not_kept(run):
    (run / "ledger.jsonl").write_bytes(b"nonsense\n" * 5000)
    report = verify_run(run)
    assert len(report.findings) == LIMIT + 1
    assert report.findings[-1].what == "number of findings"
    assert report.findings[-1].got.endswith(f", of which the first {LIMIT} are listed")


def test_a_line_without_end_is_not_kept_in_memory(run):
    import tracemalloc

    with open(run / "ledger.jsonl", "ab") as file:
        for _ in range(64):
            file.write(b"x" * 2**20)
    tracemalloc.start()
    try:
        report = verify_run(run)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ("line 12", "a record of the format") in {
        (finding.what, finding.expected) for finding in report.findings
    }
    assert peak < 16 * 2**20
