"""What `patch status` says of patches that apply, that nearly do, and that do not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from sources import NEW, OLD, Bench, change, diff, patch, tarball

from boardwright.errors import ExitStatus, HostError, InputError
from boardwright.patches.report import failures
from boardwright.patches.status import Verdict, asked, judge
from boardwright.verbs import patch as verb

RING = "drivers/radeon/ring.c"
BOTH = "[7.3 6.1]\n0001-p.patch\n"


def verdict(bench: Bench, line: str, topic: str = "t") -> Verdict:
    one = bench.line(line)
    names = [other.name for other in bench.lines]
    found = judge(one, asked(bench.root, one, names), bench.cache, bench.note)
    return next(verdict for verdict in found if verdict.topic == topic)


def test_a_patch_applies_exactly_here_and_with_an_offset_there(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    assert verdict(bench, "7.3").state == "applies"
    old = verdict(bench, "6.1")
    assert (old.state, old.green, old.patches[0].offset) == ("offsets", True, 4)


def test_fuzz_is_not_green_and_is_named_with_file_and_hunk(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(NEW, RING, "step_22(", "wait_22(")))
    old = verdict(bench, "6.1")
    assert (old.state, old.green) == ("fuzz", False)
    assert old.failure is not None
    assert old.failure.conflict is not None
    assert (old.failure.conflict.path, old.failure.conflict.hunk) == (RING, 1)
    assert old.failure.conflict.detail == "it would apply with fuzz 2"


def test_a_patch_whose_every_hunk_is_there_is_upstream(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("old", change(NEW, RING, "step_20(ring)", "move_20(ring, 1)")))
    assert verdict(bench, "7.3").green
    assert verdict(bench, "6.1").state == "upstream"


def test_of_a_patch_that_is_upstream_in_part_the_hunk_is_named(bench: Bench) -> None:
    text = NEW[RING].replace("step_20(ring)", "move_20(ring, 1)").replace("step_35", "wait_35")
    bench.topic("t", BOTH, p1=patch("more", diff(RING, NEW[RING], text)))
    old = verdict(bench, "6.1")
    assert old.state == "partly"
    assert old.failure is not None
    assert old.failure.conflict is not None
    assert old.failure.conflict.hunk == 1


def test_a_conflict_shows_both_sides_with_their_lines(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("go", change(NEW, RING, "\tstep_20(ring);\n", "\tgo_20(ring);\n")))
    old = verdict(bench, "6.1")
    assert old.state == "conflict"
    text = "\n".join(failures([old]))
    assert f"patches/kernel/t/0001-p.patch does not apply\n  {RING}, hunk 1\n" in text
    assert "  >    22 |         step_20(ring);" in text
    assert "  >    26 |         move_20(ring, 1);" in text
    assert "       23 |         step_21(ring);" in text
    assert "invoke patch edit --topic t --line 6.1" in text


def test_a_file_that_the_line_lacks_is_said_to_be_lacking(bench: Bench) -> None:
    bench.topic("t", "0001-p.patch\n", p1=patch("x", diff("drivers/new.c", "a\n", "b\n")))
    found = verdict(bench, "7.3")
    assert found.state == "conflict"
    assert "the source has no such file" in "\n".join(failures([found]))


def test_a_topic_may_be_absent_with_a_reason_and_stays_green(bench: Bench) -> None:
    series = "[7.3]\n0001-p.patch\n[6.1]\nnone: no such driver\n"
    bench.topic("t", series, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    old = verdict(bench, "6.1")
    assert (old.state, old.reason, old.green) == ("absent", "no such driver", True)


def test_topics_are_judged_in_order_and_alone(bench: Bench) -> None:
    first = NEW[RING].replace("step_5(", "wait_5(")
    bench.topic("zebra", "0001-p.patch\n", p1=patch("first", diff(RING, NEW[RING], first)))
    second = diff(RING, first, first.replace("wait_5(", "poll_5("))
    bench.topic("alpha", "0001-p.patch\n", p1=patch("second", second))
    assert verdict(bench, "7.3", "alpha").state == "conflict"
    (bench.root / "patches/kernel/order").write_text("# why\nzebra\nalpha\n")
    after = verdict(bench, "7.3", "alpha")
    assert (after.green, after.alone) == (True, False)
    assert verdict(bench, "7.3", "zebra").alone


def test_a_topic_that_fails_leaves_no_trace_for_the_next(bench: Bench) -> None:
    good = change(NEW, RING, "step_5(", "wait_5(")
    bench.topic(
        "a", "0001-p.patch\n0002-q.patch\n", p1=patch("x", good), q2=patch("y", diff("no.c", "a\n", "b\n"))
    )
    bench.topic("b", "0001-p.patch\n", p1=patch("x", good))
    assert verdict(bench, "7.3", "a").state == "conflict"
    assert verdict(bench, "7.3", "b").state == "applies"


def test_a_patch_that_is_no_diff_is_wrong_at_its_place(bench: Bench) -> None:
    bench.topic("t", "0001-p.patch\n", p1="nothing\n")
    found = verdict(bench, "7.3")
    assert found.state == "wrong"
    assert found.reason.startswith("patches/kernel/t/0001-p.patch: no file header")


def test_the_second_look_unpacks_nothing(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    verdict(bench, "7.3")
    assert [note for note in bench.notes if "unpacking" in note]
    bench.notes.clear()
    verdict(bench, "7.3")
    header = change(NEW, "drivers/radeon/ring.h", "start", "begin")
    bench.topic("t", "0001-p.patch\n0002-q.patch\n", q2=patch("header", header))
    assert verdict(bench, "7.3").green
    assert bench.notes == []
    bench.topic("t", "0001-p.patch\n0002-q.patch\n", q2=patch("x", change(NEW, "Makefile", "7", "8")))
    assert verdict(bench, "7.3").green
    assert len(bench.notes) == 1


def test_the_verb_ends_with_1_when_anything_is_red(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    assert verb.patch(bench.root, "status", "", "", "", False) == ExitStatus.OK
    assert capsys.readouterr().out == "kernel  7.3      6.1\nt       applies  offset 4\n"
    bench.topic("t", BOTH, p1=patch("go", change(NEW, RING, "step_20(", "go_20(")))
    assert verb.patch(bench.root, "status", "t", "6.1", "", True) == ExitStatus.PRODUCT
    [row] = json.loads(capsys.readouterr().out)
    assert (row["line"], row["topic"], row["state"], row["green"]) == ("6.1", "t", "conflict", False)
    assert row["patches"][0]["found"]["line"] == 23
    assert verb.patch(bench.root, "status", "t", "7.3", "", False) == ExitStatus.OK


def test_wrong_requests_are_answered_with_the_nearest(bench: Bench) -> None:
    bench.topic("radeon", BOTH, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    for action, topic, line, hint in (
        ("state", "", "", "did you mean 'status'?"),
        ("status", "radeom", "", "did you mean 'radeon'?"),
        ("status", "radeon", "7.4", "did you mean '7.3'?"),
        ("edit", "radeon", "", "add --topic NAME --line 6.1|7.3"),
    ):
        with pytest.raises(InputError) as caught:
            verb.patch(bench.root, action, topic, line, "", False)
        assert caught.value.hint == hint


def test_an_order_that_names_no_topic_is_an_error(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(NEW, RING, "step_5(", "wait_5(")))
    (bench.root / "patches/kernel/order").write_text("t\ntt\n")
    with pytest.raises(InputError, match="there is no patch topic 'tt'") as caught:
        verb.patch(bench.root, "status", "", "", "", False)
    assert str(caught.value.place) == "patches/kernel/order:2"


MESON = """\
recipe: mesa-{line}
kind: meson
environment: tools
source: {{debian: mesa, suite: trixie, as: source}}
libraries: []
"""


@pytest.mark.parametrize("format_", ["3.0", "1.0"])
def test_a_source_package_is_judged_with_debians_patches_on_it(bench: Bench, format_: str) -> None:
    debian = diff("src/util.c", "one\ntwo\nthree\n", "one\nTWO\nthree\n")
    original = tarball("mesa-25.0.7/", {"src/util.c": "one\ntwo\nthree\n", "src/a.h": "x\n"}, "xz")
    files = {"mesa_25.0.7.orig.tar.xz": original}
    if format_ == "3.0":
        control = {"debian/patches/series": "fix.diff # why\n", "debian/patches/fix.diff": debian}
        files["mesa_25.0.7-2.debian.tar.xz"] = tarball("", control, "xz")
    else:
        inside = diff("debian/patches/fix.diff", None, debian) + diff(
            "debian/patches/series", None, "fix.diff\n"
        )
        outside = diff("src/a.h", "x\n", "y\n")
        files["mesa_25.0.7-2.diff.gz"] = gzip.compress((inside + outside).encode())
    bench.recipe("mesa-25.0", MESON.format(line="25.0"), "mesa", "25.0.7-2", "source", files)
    topic = bench.root / "patches/mesa/safe"
    topic.mkdir(parents=True)
    (topic / "series").write_text("[25.0]\n0001-p.patch\n")
    (topic / "0001-p.patch").write_text(patch("x", diff("src/util.c", "one\nTWO\nthree\n", "one\nTWO\n3\n")))
    assert verdict(bench, "25.0", "safe").state == "applies"
    if format_ == "1.0":
        (topic / "0001-p.patch").write_text(patch("x", diff("src/a.h", "y\n", "z\n")))
        assert verdict(bench, "25.0", "safe").state == "applies"


def test_a_damaged_download_is_not_taken_for_a_source(bench: Bench) -> None:
    bench.topic("t", BOTH, p1=patch("wait", change(OLD, RING, "step_5(", "wait_5(")))
    [download] = [path for path in (bench.cache / "downloads").glob("*/*") if _of_line(path, bench, "6.1")]
    download.write_bytes(b"other")
    with pytest.raises(HostError, match=r"linux-source-6\.1"):
        verdict(bench, "6.1")


def _of_line(path: Path, bench: Bench, line: str) -> bool:
    return path.name == bench.line(line).source[0].sha256
