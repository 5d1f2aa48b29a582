"""Patches as commits and back: what is kept, what is written, what is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from sources import NEW, OLD, Bench, change, diff, patch

from boardwright.errors import ExitStatus, HostError, InputError
from boardwright.patches import write
from boardwright.patches.series import read
from boardwright.verbs import patch as verb

RING = "drivers/radeon/ring.c"
WAIT = patch("wait for the ring", change(NEW, RING, "step_5(", "wait_5("))
SECOND = NEW[RING].replace("step_5(", "wait_5(")
POLL = patch("poll", diff(RING, SECOND, SECOND.replace("step_35(", "poll_35(")))
LOOK = "0003-look-at-the-ring-first-whatever-it-may.patch"
BOTH = "# Two patches.\n\n[7.3 6.1]\n0001-p.patch\n0002-q.patch\n"


def git(directory: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


def topic(bench: Bench) -> Path:
    return bench.topic("t", BOTH, p1=WAIT, q2=POLL)


def edit(bench: Bench, line: str = "7.3", place: str = "", expected: int = ExitStatus.OK) -> Path:
    assert verb.patch(bench.root, "edit", "t", line, place, False) == expected
    return Path(place) if place else bench.root / f"out/patches/t-{line}"


def refresh(bench: Bench, line: str = "7.3") -> dict[str, str]:
    """Run it; the topic's files afterwards."""
    assert verb.patch(bench.root, "refresh", "t", line, "", False) == ExitStatus.OK
    return contents(bench)


def contents(bench: Bench) -> dict[str, str]:
    home = bench.root / "patches/kernel/t"
    return {path.name: path.read_text() for path in sorted(home.iterdir())}


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def green(bench: Bench) -> bool:
    return verb.patch(bench.root, "status", "", "", "", False) == ExitStatus.OK


def test_a_topic_becomes_a_commit_a_patch_on_the_whole_pristine_source(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    assert git(tree, "log", "--format=%an|%ae|%s|%b", "-2").split("\n\n")[:2] == [
        "A Developer|a@localhost|radeon: poll|Because.",
        "A Developer|a@localhost|radeon: wait for the ring|Because.",
    ]
    assert git(tree, "branch", "--show-current").strip() == "t-7.3"
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / RING).read_text() == SECOND.replace("step_35(", "poll_35(")
    assert git(tree, "show", f"pristine:{RING}") == NEW[RING]
    assert os.access(tree / "scripts/check.sh", os.X_OK)
    assert git(tree, "ls-files").split() == sorted(NEW)


def test_the_same_patches_give_the_same_commits_everywhere(bench: Bench, tmp_path: Path) -> None:
    topic(bench)
    one, other = edit(bench, place=str(tmp_path / "one")), edit(bench, place=str(tmp_path / "two"))
    assert git(one, "rev-parse", "HEAD") == git(other, "rev-parse", "HEAD")


def test_topics_before_it_are_there_and_are_not_its_own(bench: Bench) -> None:
    (bench.root / "patches/kernel/order").write_text("before\nt\n")
    first = patch("first", diff("Makefile", NEW["Makefile"], "VERSION = 8\n"))
    bench.topic("before", "[7.3]\n0001-p.patch\n[6.1]\nnone: why not\n", p1=first)
    topic(bench)
    tree = edit(bench)
    assert (tree / "Makefile").read_text() == "VERSION = 8\n"
    before = contents(bench)
    assert refresh(bench) == before


def test_without_a_change_nothing_is_written_byte_for_byte(bench: Bench) -> None:
    home = topic(bench)
    moved = WAIT.replace("@@ -4,7 +4,7 @@", "@@ -9,7 +9,7 @@ void start(void)")
    assert moved != WAIT
    (home / "0001-p.patch").write_text(moved)
    edit(bench)
    before = contents(bench)
    assert refresh(bench) == before


def test_a_better_message_changes_its_own_file_only(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    git(tree, "commit", "--amend", "-q", "-m", "radeon: poll longer", "-m", "Seen on hardware.\n\n- twice")
    after = refresh(bench)
    assert after.keys() == {"0001-p.patch", "0002-q.patch", "series"}
    assert after["0001-p.patch"] == WAIT
    assert after["series"] == BOTH
    assert after["0002-q.patch"] == POLL.replace("radeon: poll", "radeon: poll longer").replace(
        "Because.", "Seen on hardware.\n\n- twice"
    )


def test_a_written_patch_carries_no_noise_of_git(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    (tree / "drivers/radeon/new.c").write_text("int x;\n")
    git(tree, "rm", "-q", "Makefile")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "radeon: add a file, and drop one")
    text = refresh(bench)["0003-add-a-file-and-drop-one.patch"]
    assert text == (
        "From: A User <user@localhost>\nSubject: [PATCH] radeon: add a file, and drop one\n\n---\n"
        "--- a/Makefile\n+++ /dev/null\n@@ -1 +0,0 @@\n-VERSION = 7\n"
        "--- /dev/null\n+++ b/drivers/radeon/new.c\n@@ -0,0 +1 @@\n+int x;\n"
    )


def test_a_change_that_applies_to_the_other_line_stays_shared(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    replace(tree / RING, "poll_35(", "poll_36(")
    git(tree, "commit", "-q", "--amend", "--all", "--no-edit")
    after = refresh(bench)
    assert "poll_36" in after["0002-q.patch"]
    assert after["series"] == BOTH
    assert green(bench)


def test_a_change_that_does_not_apply_there_is_this_lines_own(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    replace(tree / RING, "step_20(ring)", "poll_20(ring)")
    git(tree, "commit", "-q", "--amend", "--all", "--no-edit")
    after = refresh(bench)
    assert after["0002-q.patch"] == POLL
    assert "poll_20" in after["0002-q.7.3.patch"]
    assert after["series"] == (
        "# Two patches.\n\n[6.1]\n0001-p.patch\n0002-q.patch\n\n[7.3]\n0001-p.patch\n0002-q.7.3.patch\n"
    )
    assert green(bench)


def test_a_shared_change_that_breaks_a_later_patch_elsewhere_is_not_shared(bench: Bench) -> None:
    """On 6.1 the second patch has a text of its own, whose context the first one changes."""
    text = OLD[RING].replace("step_5(", "wait_5(")
    own = patch("poll", diff(RING, text, text.replace("step_8(", "poll_8(")))
    bench.topic(
        "t", "[7.3]\n0001-p.patch\n0002-q.patch\n[6.1]\n0001-p.patch\n0002-q.6.1.patch\n",
        p1=WAIT, q2=POLL, q2_6_1=own,
    )  # fmt: skip
    tree = edit(bench)
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    replace(tree / RING, "step_7(ring);", "step_7(ring, 0);")
    git(tree, "commit", "-q", "--amend", "--all", "--no-edit")
    git(tree, "cherry-pick", "t-7.3@{2}")
    after = refresh(bench)
    assert after["0001-p.patch"] == WAIT
    assert "step_7(ring, 0)" in after["0001-p.7.3.patch"]
    assert green(bench)


def test_new_commits_get_new_files_and_dropped_ones_lose_theirs(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    replace(tree / RING, "step_30(", "look_30(")
    git(tree, "commit", "-q", "--all", "-m", "radeon: look at the ring first, whatever it may be")
    after = refresh(bench)
    assert [name for name in after if name.startswith("0003")] == [LOOK]
    assert after["0002-q.patch"] == POLL, "6.1 still has it"
    series = read(bench.root, "kernel", "t")
    assert series.of("7.3") == ("0001-p.patch", LOOK)
    assert series.of("6.1") == ("0001-p.patch", "0002-q.patch")
    edit(bench, "6.1")
    git(bench.root / "out/patches/t-6.1", "reset", "-q", "--hard", "HEAD~1")
    assert "0002-q.patch" not in refresh(bench, "6.1")


def test_reordered_commits_keep_their_files(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    base = git(tree, "rev-parse", "HEAD~2").strip()
    first, second = (git(tree, "rev-parse", name).strip() for name in ("HEAD~1", "HEAD"))
    git(tree, "reset", "-q", "--hard", base)
    git(tree, "cherry-pick", second, first)
    after = refresh(bench)
    assert after.keys() == {"0001-p.patch", "0002-q.patch", "series"}
    assert after["series"] == BOTH.replace("[7.3 6.1]", "[6.1]") + "\n[7.3]\n0002-q.patch\n0001-p.patch\n"


def test_a_conflict_opens_as_a_merge_and_comes_back_as_the_lines_own(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    go = patch("go", diff(RING, SECOND, SECOND.replace("step_20(", "go_20(")))
    after_go = SECOND.replace("step_20(", "go_20(")
    last = patch("last", diff(RING, after_go, after_go.replace("step_39(", "last_39(")))
    bench.topic("t", "[7.3 6.1]\n0001-p.patch\n0002-q.patch\n0003-r.patch\n", p1=WAIT, q2=go, r3=last)
    assert not green(bench)
    tree = edit(bench, "6.1", expected=ExitStatus.PRODUCT)
    shown = capsys.readouterr()
    assert "the patch expects" in shown.out
    assert "git cherry-pick --continue" in shown.err
    marked = (tree / RING).read_text()
    assert "<<<<<<<" in marked
    assert "go_20(ring);" in marked
    assert "move_20(ring, 1);" in marked
    with pytest.raises(InputError, match="git has not finished"):
        refresh(bench, "6.1")
    (tree / RING).write_text(OLD[RING].replace("step_5(", "wait_5(").replace("move_20(", "go_20("))
    git(tree, "add", RING)
    git(tree, "-c", "core.editor=true", "cherry-pick", "--continue")
    after = refresh(bench, "6.1")
    assert after["0001-p.patch"] == WAIT
    assert after["0003-r.patch"] == last
    assert "go_20(ring, 1)" in after["0002-q.6.1.patch"]
    assert read(bench.root, "kernel", "t").of("6.1") == ("0001-p.patch", "0002-q.6.1.patch", "0003-r.patch")
    assert green(bench)


def test_what_a_merge_resolves_by_itself_needs_no_human_and_no_identity(bench: Bench) -> None:
    """Fuzz to GNU patch, but a clean merge to git: 6.1 has another name two lines further."""
    late = patch("late", diff(RING, SECOND, SECOND.replace("step_22(", "late_22(")))
    bench.topic("t", "[7.3 6.1]\n0001-p.patch\n0002-q.patch\n", p1=WAIT, q2=late)
    assert not green(bench)
    (Path.home() / ".gitconfig").unlink()
    tree = edit(bench, "6.1")
    assert "late_22(ring);" in (tree / RING).read_text()
    after = refresh(bench, "6.1")
    assert "late_22" in after["0002-q.6.1.patch"]
    assert after["0001-p.patch"] == WAIT
    assert green(bench)


def test_an_interrupted_edit_leaves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(bench)

    def interrupted(_directory: Path, chunks: Iterable[bytes]) -> None:
        next(iter(chunks))
        raise KeyboardInterrupt

    monkeypatch.setattr("boardwright.patches.git.fast_import", interrupted)
    with pytest.raises(KeyboardInterrupt):
        edit(bench)
    assert not (bench.root / "out/patches/t-7.3").exists()


def test_a_new_line_starts_from_the_nearest_and_gets_its_section(bench: Bench) -> None:
    topic(bench)
    bench.kernel("7.5", NEW)
    assert not green(bench)
    edit(bench, "7.5")
    assert refresh(bench, "7.5")["series"] == BOTH.replace("[7.3 6.1]", "[7.5 7.3 6.1]")
    assert green(bench)


def test_a_directory_with_changes_is_not_overwritten(bench: Bench, tmp_path: Path) -> None:
    topic(bench)
    tree = edit(bench)
    edit(bench)
    (tree / "note.txt").write_text("mine\n")
    with pytest.raises(InputError, match="has changes in it"):
        edit(bench)
    (tree / "note.txt").unlink()
    git(tree, "commit", "-q", "--amend", "-m", "other")
    with pytest.raises(InputError, match="has changes in it"):
        edit(bench)
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    with pytest.raises(InputError, match="was not made by this"):
        edit(bench, place=str(other))
    assert (other / "file").exists()


def test_what_is_not_committed_is_not_written_back(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    replace(tree / RING, "poll_35(", "poll_36(")
    with pytest.raises(InputError, match=f"changes that are not committed: {RING}"):
        refresh(bench)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (("commit", "-q", "--allow-empty", "-m", "nothing"), "changes nothing"),
        (("commit", "-q", "--allow-empty", "-m", "fixup! radeon: poll"), "is to be folded into another"),
        (("reset", "-q", "--hard", "pristine"), "there is no commit of t"),
        (("checkout", "-q", "--orphan", "other"), "not committed|no longer stands"),
    ],
)
def test_commits_that_cannot_be_patches_are_refused(bench: Bench, spoil: list[str], message: str) -> None:
    topic(bench)
    tree = edit(bench)
    git(tree, *spoil)
    before = contents(bench)
    with pytest.raises(InputError, match=message):
        refresh(bench)
    assert contents(bench) == before


def test_a_mode_that_a_plain_diff_cannot_carry_is_refused(bench: Bench) -> None:
    topic(bench)
    tree = edit(bench)
    (tree / RING).chmod(0o755)
    git(tree, "commit", "-q", "--all", "-m", "mode")
    with pytest.raises(InputError, match="carries no modes"):
        refresh(bench)


def test_another_topics_or_lines_repository_is_refused(bench: Bench) -> None:
    topic(bench)
    edit(bench)
    with pytest.raises(InputError, match="no repository that patch edit made"):
        refresh(bench, "6.1")
    place = str(bench.root / "out/patches/t-7.3")
    with pytest.raises(InputError, match=r"expected a repository of t on 6\.1, found t on 7\.3"):
        verb.patch(bench.root, "refresh", "t", "6.1", place, False)


def test_when_one_file_cannot_be_written_none_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(bench)
    before = contents(bench)
    home = bench.root / "patches/kernel/t"
    replacing = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "series":
            raise OSError(28, "No space left on device", str(target))
        return replacing(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(HostError, match="nothing was changed"):
        write.write_all({home / "0001-p.patch": b"x", home / "series": b"y"}, [home / "0002-q.patch"])
    assert contents(bench) == before
