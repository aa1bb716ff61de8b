"""The append-only file: torn lines, repeated lines, full disks, and one writer at a time."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from rlkjax.audit import journal as journals
from rlkjax.audit.journal import Journal, lock_run
from rlkjax.errors import ConsistencyError, InputError, MachineError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def filled(path, *lines):
    journal = Journal(path)
    for line in lines:
        journal.append(line)
    journal.close()
    return path


def test_lines_are_in_the_file_as_soon_as_they_are_appended(path):
    journal = Journal(path)
    journal.append(b'{"a":1}')
    assert path.read_bytes() == b'{"a":1}\n'
    journal.append(b'{"a":2}')
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'
    assert (journal.count, journal.pending, journal.torn) == (2, 0, b"")
    journal.close()
    journal.close()


def test_a_torn_last_line_is_cut_off_and_reported(path):
    path.write_bytes(b'{"a":1}\n{"a"')
    journal = Journal(path)
    assert journal.torn == b'{"a"'
    assert path.read_bytes() == b'{"a":1}\n'
    journal.append(b'{"a":1}')
    journal.append(b'{"a":2}')
    journal.close()
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'


@pytest.mark.parametrize("cut", range(17))
def test_a_kill_at_any_byte_heals_by_repeating(path, cut):
    path.write_bytes(b'{"a":1}\n{"a":2}\n'[:cut])
    filled(path, b'{"a":1}', b'{"a":2}')
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'


def test_a_line_that_does_not_repeat_names_index_and_key(path):
    filled(path, b'{"a":1,"b":1}', b'{"a":1,"b":2,"c":3}')
    journal = Journal(path)
    journal.append(b'{"a":1,"b":1}')
    with pytest.raises(ConsistencyError, match=r"ledger\.jsonl, line 1: got b = 9, want 2"):
        journal.append(b'{"a":1,"b":9,"c":4}')
    journal.close()
    assert path.read_bytes() == b'{"a":1,"b":1}\n{"a":1,"b":2,"c":3}\n'


def test_lines_before_a_checkpoint_are_taken_as_they_are(path):
    filled(path, b"1", b"2", b"3")
    journal = Journal(path)
    assert journal.take(2) == [b"1", b"2"]
    assert (journal.count, journal.pending) == (2, 1)
    with pytest.raises(ConsistencyError, match="got 3 lines, want at least 4"):
        journal.take(2)
    journal.append(b"3")
    journal.append(b"4")
    journal.close()
    assert path.read_bytes() == b"1\n2\n3\n4\n"


def test_pending_lines_can_be_dropped_on_purpose(path):
    filled(path, b"1", b"22", b"333")
    journal = Journal(path)
    journal.take(1)
    assert journal.drop_pending() == [b"22", b"333"]
    journal.append(b"other")
    journal.close()
    assert path.read_bytes() == b"1\nother\n"


def test_dropping_nothing_keeps_what_was_written(path):
    journal = Journal(path)
    journal.append(b"1")
    assert journal.drop_pending() == []
    journal.close()
    assert path.read_bytes() == b"1\n"


def test_a_line_end_inside_a_line_is_refused(path):
    journal = Journal(path)
    with pytest.raises(InputError, match="line: got a line end inside"):
        journal.append(b"a\nb")
    journal.close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_half_way_leaves_complete_lines(path, monkeypatch, code):
    journal = Journal(path)
    journal.append(b"first")
    write = os.write
    calls = []

    def half(descriptor, data):
        calls.append(data)
        if len(calls) == 1:
            return write(descriptor, data[:3])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(journals.os, "write", half)
    with pytest.raises(MachineError, match="resume"):
        journal.append(b"second")
    assert path.read_bytes() == b"first\n"
    monkeypatch.undo()
    journal.append(b"second")
    journal.close()
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_full_disk_is_a_clear_sentence():
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError) as caught:
        full.write(b"x")
    error = journals.explain(caught.value, journals.Path("ledger.jsonl"))
    assert isinstance(error, MachineError)
    assert "got no space to write" in str(error)


def test_a_file_size_limit_stops_at_a_complete_line(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from rlkjax.audit.journal import Journal
from rlkjax.errors import MachineError
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
journal = Journal(Path(sys.argv[1]))
journal.append(b"1234567")
try:
    journal.append(b"1234567")
except MachineError as error:
    print(error)
"""
    file = tmp_path / "ledger.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True
    )
    assert "got no space to write" in ran.stdout
    assert file.read_bytes() == b"1234567\n"


def test_a_place_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="got no folder .*missing, want one that exists"):
        Journal(tmp_path / "missing" / "ledger.jsonl")
    with pytest.raises(InputError, match="got a folder, want a file; check the path"):
        Journal(tmp_path)

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(journals.os, "open", refuse)
    with pytest.raises(InputError, match="got no permission .*Read-only"):
        Journal(tmp_path / "ledger.jsonl")
    with pytest.raises(InputError, match="got no permission"), lock_run(tmp_path):
        pass


def test_one_writer_at_a_time(tmp_path):
    with lock_run(tmp_path):
        again = lock_run(tmp_path)
        with pytest.raises(InputError, match="another process is writing"), again:
            pass
    with lock_run(tmp_path):
        pass


def test_a_killed_writer_leaves_no_lock(tmp_path):
    code = """
import sys, time
from pathlib import Path
from rlkjax.audit.journal import lock_run
with lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another process is writing"), lock_run(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with lock_run(tmp_path):
        pass
