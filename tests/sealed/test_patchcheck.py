"""Which objects a series touches, and what counts as a new warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boardwright.sealed import patchcheck

SOURCE = {
    "drivers/radeon/ring.c": '#include <linux/kernel.h>\n#include "radeon.h"\n',
    "drivers/radeon/fence.c": '# include "radeon.h"\n',
    "drivers/radeon/ttm.c": "#include <drm/ttm/ttm_bo.h>\n",
    "drivers/radeon/none.c": "#include <linux/radeon_other.h>\n",
    "drivers/radeon/radeon.h": "\n",
    "drivers/other/other.c": "#include <drm/ttm/ttm_bo.h>\n",
    "arch/arm64/mm/entry.S": "\n",
    "include/drm/ttm/ttm_bo.h": "\n",
}


def patch(*paths: str, text: str = "+x") -> str:
    return "Subject: [PATCH] x\n---\n" + "".join(
        f"--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n \n{text}\n" for path in paths
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in SOURCE.items():
        file = tmp_path / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "patches").mkdir()
    return tmp_path


def topic(tree: Path, name: str, *paths: str, text: str = "+x") -> None:
    directory = tree / "patches" / name
    directory.mkdir()
    (directory / "series").write_text("0001-a.patch\n")
    (directory / "0001-a.patch").write_text(patch(*paths, text=text))


def units(tree: Path, *topics: str) -> dict[str, patchcheck.Unit]:
    return patchcheck.units(tree / "src", tree / "patches", topics)


CHANGED = patchcheck.Unit(("t",), True)


def test_every_c_and_assembler_file_that_a_patch_changes_is_compiled(tree: Path) -> None:
    topic(tree, "t", "drivers/radeon/ring.c", "arch/arm64/mm/entry.S", "drivers/radeon/Makefile")
    assert units(tree, "t") == {"arch/arm64/mm/entry.S": CHANGED, "drivers/radeon/ring.c": CHANGED}


def test_a_header_takes_along_what_includes_it_by_name_in_the_touched_directories(tree: Path) -> None:
    topic(tree, "t", "drivers/radeon/radeon.h")
    assert list(units(tree, "t")) == ["drivers/radeon/fence.c", "drivers/radeon/ring.c"]
    topic(tree, "u", "include/drm/ttm/ttm_bo.h", "drivers/radeon/none.c")
    assert list(units(tree, "u")) == ["drivers/radeon/none.c", "drivers/radeon/ttm.c"]


def test_an_object_of_two_topics_counts_for_both(tree: Path) -> None:
    topic(tree, "t", "drivers/radeon/ring.c")
    topic(tree, "u", "drivers/radeon/ring.c")
    assert units(tree, "t", "u") == {"drivers/radeon/ring.c": patchcheck.Unit(("t", "u"), True)}


def test_a_file_that_a_later_topic_removed_is_not_compiled(tree: Path) -> None:
    topic(tree, "t", "drivers/radeon/gone.c", "drivers/radeon/ring.c")
    assert list(units(tree, "t")) == ["drivers/radeon/ring.c"]


def test_symbols_that_a_topic_adds_are_asked_for(tree: Path) -> None:
    topic(tree, "t", "arch/arm64/Kconfig", text='+config FIXUP\n+\tbool "x"\n+# config NOT_THIS')
    assert patchcheck.symbols(tree / "patches", ["t"]) == ["FIXUP"]


WARNING = "drivers/a.c:{line}:5: warning: unused variable 'x' [-Wunused-variable]\n"
OTHER = "drivers/a.c:8:5: warning: unused variable 'z' [-Wunused-variable]\n"
ERROR = "/tree/src/drivers/a.c:9:5: error: 'y' undeclared\n"


UNUSED = WARNING.format(line=7)


@pytest.mark.parametrize(
    ("now", "pristine", "built", "changed", "state"),
    [
        ("", None, True, True, "ok"),
        (UNUSED, None, True, True, "warning"),
        (UNUSED, None, True, False, "warning"),
        (UNUSED, WARNING.format(line=5), True, True, "ok"),
        (UNUSED + OTHER, WARNING.format(line=5), True, True, "warning"),
        (ERROR, None, False, True, "error"),
        (ERROR.replace("error", "fatal error"), None, False, False, "error"),
        (ERROR + UNUSED, ERROR, False, True, "warning"),
        (ERROR, ERROR, False, True, "unreached"),
        (ERROR, ERROR, False, False, "skipped"),
        (None, None, False, True, "unreached"),
        (None, None, False, False, "skipped"),
    ],
)
def test_a_message_counts_unless_the_pristine_source_gives_it_too(
    tmp_path: Path, now: str | None, pristine: str | None, built: bool, changed: bool, state: str
) -> None:
    for name, text in (("said", now), ("pristine", pristine)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "drivers%a.o").write_text(text)
    if built:
        (tmp_path / "drivers").mkdir()
        (tmp_path / "drivers/a.o").touch()
    targets: dict[str, patchcheck.Row] = {"drivers/a.o": {"source": "drivers/a.c", "changed": changed}}
    [row] = patchcheck.judge(targets, tmp_path, tmp_path / "said", tmp_path / "pristine")
    assert row["state"] == state
    assert row["object"] == "drivers/a.o"
    assert bool(row["said"]) == (state in ("warning", "error"))


def test_the_program_writes_objects_with_their_topics(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic(tree, "t", "drivers/radeon/ring.c")
    patchcheck.main(["objects", "--source", str(tree / "src"), "--patches", str(tree / "patches"), "t"])
    assert json.loads(capsys.readouterr().out) == {
        "drivers/radeon/ring.o": {
            "source": "drivers/radeon/ring.c",
            "topics": ["t"],
            "changed": True,
            "built": True,
        }
    }


def test_with_compile_commands_an_object_is_named_as_the_build_names_it(tree: Path) -> None:
    topic(tree, "t", "drivers/radeon/ring.c", "drivers/radeon/ttm.c")
    source = tree / "src"
    rows = [
        {"directory": str(tree), "file": "src/drivers/radeon/ring.c", "output": f"lib{name}.a.p/ring.c.o"}
        for name in ("one", "two")
    ]
    (tree / "commands.json").write_text(json.dumps(rows))
    found = patchcheck.objects(units(tree, "t"), source, tree / "commands.json")
    assert {name: row["built"] for name, row in found.items()} == {
        "libone.a.p/ring.c.o": True,
        "libtwo.a.p/ring.c.o": True,
        "drivers/radeon/ttm.o": False,
    }


def test_names_are_listed_of_objects_and_of_verdicts(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tree / "rows.json"
    file.write_text(
        json.dumps({name: {"source": name, "built": name != "no.o"} for name in ("a.o", "no.o", "b.o")})
    )
    patchcheck.main(["names", "--objects", str(file)])
    file.write_text(
        json.dumps(
            [
                {"object": "a.o", "state": "ok", "built": True},
                {"object": "b.o", "state": "warning", "built": True},
                {"object": "c.o", "state": "error", "built": True},
            ]
        )
    )
    patchcheck.main(["names", "--objects", str(file), "--states", "warning", "error"])
    assert capsys.readouterr().out == "a.o\nb.o\nb.o\nc.o\n"
