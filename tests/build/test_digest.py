"""Digests cover names, executable bits, link targets and bytes, and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boardwright.build import digest

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)
TREES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=50), st.booleans()), max_size=8)


def _write(root: Path, tree: dict[str, tuple[bytes, bool]]) -> Path:
    root.mkdir()
    for name, (content, executable) in tree.items():
        (root / name).write_bytes(content)
        (root / name).chmod(0o755 if executable else 0o644)
    return root


@settings(max_examples=50)
@given(TREES)
def test_the_order_of_making_and_the_times_do_not_matter(tree: dict[str, tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as area:
        one = _write(Path(area) / "one", tree)
        other = _write(Path(area) / "other", dict(reversed(tree.items())))
        for path in other.iterdir():
            os.utime(path, (1, 1))
        assert digest.of_tree(one) == digest.of_tree(other)


@settings(max_examples=50)
@given(TREES, TREES)
def test_different_trees_have_different_digests(
    tree: dict[str, tuple[bytes, bool]], second: dict[str, tuple[bytes, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as area:
        one, other = _write(Path(area) / "one", tree), _write(Path(area) / "other", second)
        assert (digest.of_tree(one) == digest.of_tree(other)) == (tree == second)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "sub/file").write_text("bytes")
    (root / "link").symlink_to("sub/file")
    return root


CHANGES = {
    "bytes": lambda root: (root / "sub/file").write_text("Bytes"),
    "executable": lambda root: (root / "sub/file").chmod(0o755),
    "name": lambda root: (root / "sub/file").rename(root / "sub/other"),
    "link target": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("sub")),
    "link to file": lambda root: ((root / "link").unlink(), shutil.copy(root / "sub/file", root / "link")),
    "new directory": lambda root: (root / "empty").mkdir(),
    "new file": lambda root: (root / "sub/new").touch(),
    "gone": lambda root: (root / "sub/file").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_matters_changes_the_digest(tree: Path, change: str) -> None:
    before = digest.of_tree(tree)
    CHANGES[change](tree)
    assert digest.of_tree(tree) != before


def test_times_other_modes_and_the_place_do_not(tree: Path, tmp_path: Path) -> None:
    before = digest.of_tree(tree)
    os.utime(tree / "sub/file", (1, 1))
    (tree / "sub/file").chmod(0o600)
    (tree / "sub").chmod(0o700)
    tree.rename(tmp_path / "elsewhere")
    assert digest.of_tree(tmp_path / "elsewhere") == before


def test_a_dangling_link_is_no_error_and_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nowhere")
    assert [row.as_row() for row in digest.items(tmp_path)] == [["link", "link", 0, 0, "/nowhere"]]


def test_a_name_that_is_no_text_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).touch()
    first = digest.of_tree(tmp_path)
    (tmp_path / os.fsdecode(b"\xff")).rename(tmp_path / os.fsdecode(b"\xfe"))
    assert digest.of_tree(tmp_path) != first


def test_pipes_and_sockets_are_not_part_of_a_tree(tmp_path: Path) -> None:
    before = digest.of_tree(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert digest.of_tree(tmp_path) == before


def test_a_file_alone_has_one_unnamed_item(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert [row.as_row() for row in digest.items(tmp_path / "file")] == [
        ["", "file", 0, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"]
    ]
