"""The page of a run: what it says, of good folders and of bad ones."""

import json
import re
import shutil
import time

import pytest
from reading import Page

from rlkjax import cli, config
from rlkjax.errors import InputError
from rlkjax.report import against, measures, page, replay
from rlkjax.report.facts import read_facts


def made(folder, **options) -> str:
    return page.page(read_facts(folder), page.read_config(folder), **options)


def read(folder, **options) -> Page:
    return Page(made(folder, **options))


def test_a_verified_run(run):
    found = read(run)
    found.check_closed()
    facts = read_facts(run)
    for words in (
        "cartpole, seed 0",
        "Every byte that the ledger speaks of is the byte that was recorded",
        f"chain {facts.report.chain.head}",
        f"bits {facts.report.chain.bits}",
        "iterations 6 of 6",
        "6 verified",
        "Last evaluation 5",
        "nonfinite 0 throughout",
        "policy_hidden 8",
        "package.jax 0.10.2",
        f"python -m rlkjax.verify RUN --chain {facts.report.chain.head}",
        "seconds 2.5",  # from iteration 0 at 0.5 s to iteration 5 at 3.0 s
        "environment steps a second 64",  # 5 iterations of 32 steps in 2.5 s
        "hashing and recording 10.0%",  # 5 times 0.05 s of 2.5 s
    ):
        assert words in found.text, words
    assert "NOT verified" not in found.text and "Findings" not in found.text


def test_no_address_no_path_no_clock(run):
    run = run.rename(run.with_name("folder-7f3a"))
    text = made(run)
    assert "http" not in text.replace("http-equiv", "")
    assert "folder-7f3a" not in text and str(run.parent) not in text
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d", text)


def test_equal_folders_have_equal_pages(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "elsewhere")
    assert made(run) == made(copy)
    # Only the part that comes from a clock may differ.
    (copy / "timing.jsonl").write_text("")
    cut = re.compile('<section id="timing">.*?</section>')
    assert made(run) != made(copy)
    assert cut.sub("", made(run)) == made(copy)


def test_the_config_on_the_page_trains_the_same_run(run, tmp_path):
    block = re.search('<pre class="yaml">(.*?)</pre>', made(run), re.DOTALL)[1]
    path = tmp_path / "replay.yaml"
    path.write_text("".join(Page(block).words))
    again = config.canonical_config(config.load_config(path))
    assert again == (run / "config.json").read_bytes()


def test_a_halted_run(make_run, tmp_path):
    found = read(make_run(tmp_path / "run", 6, halt_at=4, planned=9))
    found.check_closed()
    for words in (
        "NOT verified",
        "The run halted in iteration 4.",
        "stage rescore",
        "buffer log_prob",
        "environment 3",
        "iterations 4 of 9",
        "1 halted",
        "4 not checked",
        # 3f800000 and 3f800003: the last two bits, 1.0 and 1 + 3 * 2^-23 = 1.0000004
        "2 of 32 bits differ; from the left: sign, exponent, fraction",
        "0x3f800000 1.0 got",
        "0x3f800003 1.0000004",
    ):
        assert words in found.text, words


def test_an_unfinished_run_is_not_verified(make_run, tmp_path):
    found = read(make_run(tmp_path / "run", 4, planned=9))
    assert "NOT verified" in found.text and "4; resume the run if it was stopped" in found.text
    assert "4 verified" in found.text and "damaged" not in found.text


def other_run(make_run, tmp_path):
    return make_run(tmp_path / "other", 6, fingerprint={"cpu.threads": "1", "os.system": "Linux"})


def test_beside_another_run(run, make_run, tmp_path):
    other = read_facts(other_run(make_run, tmp_path))
    found = read(run, other=other)
    found.check_closed()
    section = found.text[found.text.index("Beside the other run") :]
    assert "cpu.threads 2 1 how sums and products are split over threads" in section
    assert "package.jax 0.10.2 absent" in section
    assert "Equal bits: all buffers and parameters are the same" in section
    assert "The same in every key." in section
    same = read(run, other=read_facts(run)).text
    assert "Equal chains: every record of the two is the same" in same
    assert "The same in every entry." in same


def test_of_long_lists_only_what_differs_is_shown():
    words = " ".join(f"f{k}" for k in range(20))
    assert against.apart(f"{words} avx", words) == ("only here: avx", "only here: none")
    assert against.apart("a b", words) == ("a b", words)


# --- damage and malice ---------------------------------------------------------------------------

DEEP = b"[" * 100_000 + b"]" * 100_000
NASTY = '</title></script><script>document.title="owned"</script><img src=x onerror=alert(1)>'


def change(path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


DAMAGE = {
    "no ledger": lambda run: (run / "ledger.jsonl").unlink(),
    "empty ledger": lambda run: (run / "ledger.jsonl").write_bytes(b""),
    "no config": lambda run: (run / "config.json").unlink(),
    "config is a list": lambda run: (run / "config.json").write_bytes(b"[]"),
    "deep config": lambda run: (run / "config.json").write_bytes(DEEP),
    "deep value": lambda run: (run / "config.json").write_bytes(
        b'{"task":' + b"[" * 900 + b"]" * 900 + b"}"
    ),
    "deep ledger": lambda run: (run / "ledger.jsonl").write_bytes(DEEP + b"\n"),
    "deep fingerprint": lambda run: (run / "fingerprint.json").write_bytes(
        b'{"a":' * 900 + b"1" + b"}" * 900
    ),
    "no metrics": lambda run: (run / "metrics.jsonl").unlink(),
    "binary metrics": lambda run: (run / "metrics.jsonl").write_bytes(bytes(range(256)) * 9),
    "huge numbers": lambda run: (run / "metrics.jsonl").write_bytes(
        b'{"kind":"update","steps":1e999,"x":NaN}\n{"kind":"update","steps":'
        + b"9" * 4000
        + b'}\n{"kind":"update","steps":3,"x":1e308}\n{"kind":"update","steps":4,"x":-1e308}\n'
    ),
    "odd types": lambda run: (run / "metrics.jsonl").write_bytes(
        b'{"kind":[1],"steps":"x","a":true}\n{"kind":{},"iteration":-5,"b":[]}\n7\nnull\n'
    ),
    "no checkpoint": lambda run: shutil.rmtree(run / "checkpoints"),
    "one bit": lambda run: change(run / "ledger.jsonl", b'"seed":0', b'"seed":1'),
    "torn": lambda run: (run / "ledger.jsonl").write_bytes(
        (run / "ledger.jsonl").read_bytes()[:-40]
    ),
    "huge plan": lambda run: change(
        run / "ledger.jsonl", b'"iterations":6', b'"iterations":9007199254740992'
    ),
    "odd genesis": lambda run: change(run / "ledger.jsonl", b'"switches":[]', b'"switches":7'),
    "odd timing": lambda run: (
        (run / "timing.jsonl").write_bytes(b'{"iteration":0,"seconds":"x"}\n[]\n'),
        (run / "config.json").unlink(),
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_a_page_that_says_so(run, kind):
    DAMAGE[kind](run)
    text = made(run)
    found = Page(text)
    found.check_closed()
    assert "NOT verified" in found.text and "Findings" in found.text
    assert len(text) < 200_000


@pytest.mark.parametrize("file", ["config.json", "fingerprint.json", "metrics.jsonl"])
def test_no_text_of_a_file_becomes_markup(run, file):
    nasty = {"task": NASTY, NASTY: NASTY, "seed": {NASTY: [NASTY]}, "kind": "update", "steps": 1}
    (run / file).write_text(json.dumps({**nasty, f"{NASTY}2": 1.5}) + "\n")
    found = read(run, other=read_facts(run))
    found.check_closed()
    assert "img" not in found.tags and NASTY in found.text


def test_no_text_of_a_record_becomes_markup(run):
    path = run / "ledger.jsonl"
    quoted = json.dumps(NASTY)[1:-1].encode()
    change(path, b'"platform":"cpu"', b'"platform":"' + quoted + b'"')
    change(path, b'"name":"cartpole"', b'"' + quoted + b'":"' + quoted + b'"')
    found = read(run)
    found.check_closed()
    assert NASTY in found.text


def test_a_link_that_leaves_the_folder_is_not_followed(run, tmp_path):
    (tmp_path / "secret.json").write_text('{"task": "secret words"}')
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(tmp_path / "secret.json")
    text = made(run)
    assert "secret words" not in text and "NOT verified" in text


def test_what_the_system_says_of_a_file_is_said_without_its_path(run):
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(run / "config.json")  # a loop
    text = made(run)
    assert "NOT verified" in text and str(run.parent) not in text
    assert "RUN/config.json" in text


def test_a_link_in_the_place_of_the_page_is_not_written_through(run, tmp_path):
    for name in ("report.html", "report.html.part"):
        (run / name).symlink_to(tmp_path / "mine.txt")
    (tmp_path / "mine.txt").write_text("mine")
    page.write(run)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_text() == made(run)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(InputError, match="run folder: got .* want a folder that holds"):
        page.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ten_thousand_iterations(make_run, tmp_path):
    run = make_run(tmp_path / "run", 10_000)
    begin = time.process_time()
    facts = read_facts(run)
    verified = time.process_time()
    text = page.page(facts, page.read_config(run))
    assert time.process_time() - verified < 2.0  # measured: 0.1 s
    assert verified - begin < 10.0
    assert len(text) < 2_000_000  # measured: 80 kB, and 200 kB with all metrics of a run
    found = Page(text)
    assert found.tags.count("rect") == 240 + 1
    assert "One cell shows up to 42 iterations" in found.text


# --- the command ---------------------------------------------------------------------------------


def test_the_command_writes_into_the_run(run, capsys):
    assert cli.main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"{run / 'report.html'} iterations 6 verified\n"
    assert (run / "report.html").read_text() == made(run)
    assert cli.main(["verify", str(run)]) == 0  # the page is no finding


def test_the_command_of_a_bad_run(make_run, tmp_path, capsys):
    run = make_run(tmp_path / "run", 6, halt_at=4)
    out = tmp_path / "page.html"
    assert cli.main(["report", str(run), "--against", str(run), "--out", str(out)]) == 1
    assert capsys.readouterr().out.endswith("iterations 4 NOT verified\n")
    assert "Beside the other run" in out.read_text() and not (run / "report.html").exists()


def test_the_command_refuses_what_is_no_run(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("rlkjax: run folder: got ")


def test_charts_of_ratios_say_that_learning_moves_them():
    said = "Only the ratios of an iteration's first minibatch"
    found = {"update": {"ratio_ulp": [(0, 0.0), (1, 5.0)], "clip_fraction": [(0, 0.0)]}}
    assert said in " ".join(Page(str(measures.small(found))).text.split())
    del found["update"]["ratio_ulp"]
    assert said not in Page(str(measures.small(found))).text


def test_a_place_that_cannot_be_written(run, tmp_path, capsys):
    assert cli.main(["report", str(run), "--out", str(tmp_path / "none" / "page.html")]) == 2
    want = f"got no folder {tmp_path / 'none'}, want one that exists; make it or check the path"
    assert want in capsys.readouterr().err


def test_readable_config_is_one_line_a_key(run):
    lines = replay.readable(config.parse_canonical((run / "config.json").read_bytes())).split("\n")
    assert 'task: "cartpole"' in lines and 'rollout: {"num_envs": 4, "unroll_length": 8}' in lines
