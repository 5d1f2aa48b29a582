"""Inputs as a step finds them: what the key covers, and nothing else of the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from boardwright.build import digest
from boardwright.build.stage import stage
from boardwright.build.step import Download, Input, LocalFile, Output, Rendered, Step, Text
from boardwright.errors import InputError

EPOCH = 1_700_000_000


def staged(scratch: Path, given: Input, outputs: dict[str, Path] | None = None) -> Path:
    only = Step("only", "only", "", "tools", ("made",), {"x": given}, epoch=EPOCH)
    return stage(only, scratch / "scratch", outputs or {}, lambda wanted: Path("/downloads") / wanted.sha256)[
        "/in/x"
    ]


def local(path: Path) -> LocalFile:
    return LocalFile(str(path), digest.of_tree(path))


def rendered(path: Path, variables: str = '{"word": "grün"}') -> Rendered:
    return Rendered(str(path), digest.of_tree(path), variables)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub/empty").mkdir(parents=True)
    (root / "sub/hello.conf.j2").write_text("{{ word }}\n", encoding="utf-8")
    (root / "plain").write_text("{{ word }}\n")
    (root / "run.j2").write_text("#!/bin/sh\necho {{ word }}\n")
    (root / "run.j2").chmod(0o775)
    (root / "link.j2").symlink_to("plain")
    return root


def test_a_file_of_the_project_is_a_copy_with_the_modes_and_times_of_every_host(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "plain").chmod(0o660)
    tree.chmod(0o700)
    made = staged(tmp_path, local(tree))
    assert digest.of_tree(made) == digest.of_tree(tree)
    names = ["", *(path for path, _ in digest.walk(made))]
    assert all((made / name).lstat().st_mtime == EPOCH for name in names)
    modes = {name: (made / name).stat().st_mode & 0o7777 for name in ("", "sub", "plain", "run.j2")}
    assert modes == {"": 0o755, "sub": 0o755, "plain": 0o644, "run.j2": 0o755}
    assert os.readlink(made / "link.j2") == "plain"  # noqa: PTH115
    (tree / "plain").write_text("later")
    assert (made / "plain").read_text() == "{{ word }}\n"


def test_the_umask_leaves_no_trace(tree: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = [staged(tmp_path / "a", local(tree)), staged(tmp_path / "b", rendered(tree))]
        made.append(staged(tmp_path / "c", Text("x")))
    finally:
        os.umask(before)
    for root in made:
        for _, info in [("", root.lstat()), *digest.walk(root)]:
            assert info.st_mode & 0o7777 in (0o755, 0o644, 0o777)


def test_templates_lose_their_suffix_and_the_rest_stays(tree: Path, tmp_path: Path) -> None:
    made = staged(tmp_path, rendered(tree))
    assert [path for path, _ in digest.walk(made)] == [
        *("link.j2", "plain", "run", "sub", "sub/empty", "sub/hello.conf")
    ]
    assert (made / "sub/hello.conf").read_text(encoding="utf-8") == "grün\n"
    assert (made / "plain").read_text() == "{{ word }}\n"
    assert (made / "run").stat().st_mode & 0o100


def test_one_template_alone_is_rendered_too(tree: Path, tmp_path: Path) -> None:
    made = staged(tmp_path, rendered(tree / "sub/hello.conf.j2", '{"word": "x"}'))
    assert made.read_text() == "x\n"


@pytest.mark.parametrize("change", ["bytes", "new", "gone", "all gone"])
def test_what_changed_since_the_plan_is_refused(tree: Path, tmp_path: Path, change: str) -> None:
    planned = [local(tree), rendered(tree)]
    if change == "bytes":
        (tree / "plain").write_text("{{ Word }}\n")
    elif change == "new":
        (tree / "new").touch()
    elif change == "gone":
        (tree / "plain").unlink()
    else:
        tree.rename(tmp_path / "elsewhere")
    for number, given in enumerate(planned):
        with pytest.raises(InputError, match=f"{tree} changed while the build was running"):
            staged(tmp_path / str(number), given)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("a\n{{ missing }}\n", "'missing' is undefined", 0),
        ("a\n{% if %}\n", "Expected an expression", 2),
        ("a\n{{ word", "unexpected end of template", 2),
    ],
)
def test_a_template_that_does_not_render_names_the_users_own_file(
    tmp_path: Path, text: str, words: str, line: int
) -> None:
    (tmp_path / "bad.j2").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        staged(tmp_path, rendered(tmp_path / "bad.j2"))
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == (str(tmp_path / "bad.j2"), line)


def test_an_undefined_word_is_answered_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "bad.j2").write_text("{{ missing }}")
    with pytest.raises(InputError) as caught:
        staged(tmp_path, rendered(tmp_path / "bad.j2", '{"board": 1, "cma": 2}'))
    assert caught.value.hint == "it may use board, cma"


def test_a_template_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        staged(tmp_path, rendered(tmp_path / "bad.j2"))


def test_downloads_and_outputs_are_bound_where_they_are(tmp_path: Path) -> None:
    assert staged(tmp_path, Download("pool/x", 1, "a" * 64)) == Path("/downloads") / ("a" * 64)
    (tmp_path / "out/made").mkdir(parents=True)
    assert staged(tmp_path, Output("earlier", "made"), {"earlier": tmp_path / "out"}) == tmp_path / "out/made"
    with pytest.raises(InputError, match="step earlier has no output 'other'"):
        staged(tmp_path, Output("earlier", "other"), {"earlier": tmp_path / "out"})
