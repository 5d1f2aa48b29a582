"""The root file system's tarball: what survives, what is left out, what is refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.sealed import rootfs, tartree

EPOCH = 1_700_000_000
DAY = EPOCH // 86400
SHADOW = "root:!:19000:0:99999:7:::\nsshd:!*:19123:::::1:\nbin:*::::::\n"
STATUS = """\
Package: zlib1g
Status: install ok installed
Version: 1:1.3
Architecture: arm64
Description: compression
 Package: not a field

Package: bash
Status: install ok installed
Version: 5.2
Architecture: arm64

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: all
"""

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: Any) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mtime = kind, len(data), EPOCH - 5
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def directory(name: str, **fields: Any) -> Member:
    return member(name, kind=tarfile.DIRTYPE, **fields)


def link(name: str, target: str) -> Member:
    return member(name, kind=tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> Member:
    return member(name, kind=tarfile.LNKTYPE, linkname=target)


def tarball(path: Path, members: list[Member]) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)


BASE = [
    directory("./etc"),
    member("./etc/shadow", SHADOW.encode(), mode=0o640, gid=42),
    directory("./usr"),
    directory("./usr/bin"),
    directory("./usr/lib"),
    link("./bin", "usr/bin"),
    link("./lib", "usr/lib"),
    directory("./var"),
    directory("./var/lib"),
    directory("./var/lib/dpkg"),
    member("./var/lib/dpkg/status", STATUS.encode()),
    directory("./root", mode=0o700),
]


class Board:
    """The step's inputs, and the step run on them."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs, self.out = tmp_path / "in", tmp_path / "out"
        for path in (self.inputs / "base", self.inputs / "overlays", self.out):
            path.mkdir(parents=True)
        self.settings: dict[str, Any] = {
            "hostname": "board",
            "authorized_keys": [],
            "root_password_hash": None,
            "exclude": [],
        }
        self.base: list[Member] = []
        self.modules: list[Member] = []
        self.overlays: list[str] = []
        self.patch = monkeypatch

    def overlay(self, name: str, **files: str) -> Path:
        """A tree, with ``__`` for ``/`` in the names of its files."""
        root = self.inputs / "overlays" / name
        root.mkdir(exist_ok=True)
        for path, text in files.items():
            file = root / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if name not in self.overlays:
            self.overlays.append(name)
        return root

    def run(self) -> int:
        tarball(self.inputs / "base/root.tar", BASE + self.base)
        tarball(self.inputs / "modules.tar", self.modules)
        (self.inputs / "settings.json").write_text(json.dumps(self.settings))
        self.patch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
        self.patch.setenv("OVERLAYS", " ".join(self.overlays))
        return rootfs.main(self.inputs, self.out)

    def members(self) -> dict[str, tarfile.TarInfo]:
        assert self.run() == 0
        with tarfile.open(self.out / "rootfs.tar") as archive:
            return {info.name: info for info in archive}

    def text(self, name: str) -> str:
        with tarfile.open(self.out / "rootfs.tar") as archive:
            file = archive.extractfile(name)
            assert file
            return file.read().decode()


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board(tmp_path, monkeypatch)


# What survives


def test_models_are_where_the_checks_look_for_them(board: Board) -> None:
    (board.inputs / "models/opt/models").mkdir(parents=True)
    (board.inputs / "models/opt/models/tokenizer.bin").write_text("words")
    found = board.members()
    assert (found["opt/models/tokenizer.bin"].uid, found["opt/models/tokenizer.bin"].mode) == (0, 0o644)
    assert board.text("opt/models/tokenizer.bin") == "words"


def test_owners_special_modes_and_capabilities_survive(board: Board) -> None:
    capability = {"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\udc80\x00"}
    board.base = [
        member("./usr/bin/chage", b"x", mode=0o2755, uid=7, gid=42),
        member("./usr/bin/ping", b"x", pax_headers=capability),
    ]
    found = board.members()
    chage = found["usr/bin/chage"]
    assert (chage.mode, chage.uid, chage.gid) == (0o2755, 7, 42)
    assert found["usr/bin/ping"].pax_headers["SCHILY.xattr.security.capability"] == "\x01\0\0\x02\0 \udc80\0"
    assert (found["etc/shadow"].mode, found["etc/shadow"].gid) == (0o640, 42)


def test_device_nodes_survive_outside_dev(board: Board) -> None:
    node = member("./usr/lib/null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3)
    board.base = [node, member("./dev/null", kind=tarfile.CHRTYPE), directory("./dev")]
    found = board.members()
    assert (found["usr/lib/null"].devmajor, found["usr/lib/null"].devminor) == (1, 3)
    assert "dev" in found
    assert "dev/null" not in found


def test_a_file_with_several_names_is_stored_once_under_the_first(board: Board) -> None:
    board.base = [member("./usr/bin/perl5", b"perl"), hard("./usr/bin/perl", "./usr/bin/perl5")]
    found = board.members()
    assert found["usr/bin/perl"].isreg()
    assert board.text("usr/bin/perl") == "perl"
    assert (found["usr/bin/perl5"].type, found["usr/bin/perl5"].linkname) == (tarfile.LNKTYPE, "usr/bin/perl")


def test_a_chain_of_hard_links_is_one_file(board: Board) -> None:
    board.base = [member("./usr/c", b"1"), hard("./usr/b", "./usr/c"), hard("./usr/a", "./usr/b")]
    found = board.members()
    assert [found[name].linkname for name in ("usr/a", "usr/b", "usr/c")] == ["", "usr/a", "usr/a"]


# One order, one time, one file


def test_names_are_in_order_and_directories_before_what_they_hold(board: Board) -> None:
    board.base = [directory("./usr/a"), member("./usr/a-b"), member("./usr/a/c")]
    names = list(board.members())
    assert names == sorted(names, key=lambda name: name.split("/"))
    assert names.index("usr/a") < names.index("usr/a/c")


def test_times_are_whole_and_at_most_the_epoch(board: Board) -> None:
    late = {"mtime": f"{EPOCH + 7}.25", "atime": "1.5"}
    board.base = [member("./usr/new", mtime=EPOCH + 7, pax_headers=late)]
    board.overlay("common", etc__made="x")
    found = board.members()
    assert found["usr/new"].mtime == EPOCH
    assert found["etc/made"].mtime == EPOCH
    assert found["usr/bin"].mtime == EPOCH - 5
    assert not any(key in info.pax_headers for info in found.values() for key in ("mtime", "atime", "ctime"))


def test_no_name_of_a_user_or_group_is_kept(board: Board) -> None:
    board.base = [member("./usr/mine", uname="builder", gname="staff", uid=1000, gid=50)]
    info = board.members()["usr/mine"]
    assert (info.uname, info.gname, info.uid, info.gid) == ("", "", 1000, 50)


def test_the_order_of_the_base_does_not_show(board: Board) -> None:
    board.base = [directory("./opt"), member("./opt/a", b"a"), member("./opt/b", b"b")]
    board.members()
    first = (board.out / "rootfs.tar").read_bytes()
    board.base = [directory("./opt"), member("./opt/b", b"b"), member("./opt/a", b"a")]
    board.members()
    assert (board.out / "rootfs.tar").read_bytes() == first


# What is left out


@pytest.mark.parametrize(
    "name",
    [
        "etc/ssh/ssh_host_rsa_key",
        "etc/.resolv.conf.systemd-resolved.bak",
        "etc/passwd-",
        "etc/shadow-",
        "etc/apt/sources.list",
        "var/lib/dbus/machine-id",
        "var/lib/dpkg/status-old",
        "var/lib/systemd/random-seed",
        "var/lib/apt/lists/mirror_InRelease",
        "var/cache/apt/pkgcache.bin",
        "var/cache/ldconfig/aux-cache",
        "var/log/dpkg.log",
        "usr/lib/python3/__pycache__/a.pyc",
        "tmp/left",
        "run/left",
    ],
)
def test_what_is_private_or_changes_is_left_out(board: Board, name: str) -> None:
    parents = [directory(str(path)) for path in reversed(Path(name).parents) if str(path) not in (".", "etc")]
    board.base = [*(p for p in parents if p[0].name not in {i.name[2:] for i, _ in BASE}), member(name, b"x")]
    assert name not in board.members()


def test_what_the_recipe_excludes_is_left_out_with_all_below(board: Board) -> None:
    board.base = [
        directory("./usr/share"),
        directory("./usr/share/man"),
        member("./usr/share/man/a.1"),
        member("./usr/share/manual"),
    ]
    board.settings["exclude"] = ["/usr/share/man"]
    found = board.members()
    assert "usr/share/man" not in found
    assert "usr/share/man/a.1" not in found
    assert "usr/share/manual" in found


def test_another_name_of_a_file_left_out_keeps_the_bytes(board: Board) -> None:
    board.base = [
        directory("./opt"),
        member("./opt/a", b"kept"),
        hard("./usr/b", "./opt/a"),
        hard("./usr/c", "./opt/a"),
    ]
    board.settings["exclude"] = ["/opt"]
    found = board.members()
    assert found["usr/b"].isreg()
    assert board.text("usr/b") == "kept"
    assert found["usr/c"].linkname == "usr/b"


# Overlays and modules


def test_an_overlay_replaces_files_and_the_later_one_wins(board: Board) -> None:
    board.base = [member("./etc/motd", b"debian")]
    board.overlay("common", etc__motd="common", etc__issue="common")
    board.overlay("rock5b", etc__motd="rock5b")
    board.members()
    assert board.text("etc/motd") == "rock5b"
    assert board.text("etc/issue") == "common"


def test_overlay_files_belong_to_root_and_keep_only_the_executable_bit(board: Board) -> None:
    root = board.overlay("common", usr__bin__tool="#!/bin/sh", etc__tool__conf="x")
    (root / "usr/bin/tool").chmod(0o700)
    (root / "etc/tool/conf").chmod(0o600)
    found = board.members()
    assert (found["usr/bin/tool"].mode, found["etc/tool/conf"].mode) == (0o755, 0o644)
    assert found["etc/tool"].mode == 0o755
    assert {found[name].uid for name in ("usr/bin/tool", "etc/tool/conf", "etc/tool")} == {0}


def test_an_overlay_writes_through_the_links_of_a_merged_usr(board: Board) -> None:
    board.overlay("common", bin__tool="x")
    found = board.members()
    assert "usr/bin/tool" in found
    assert found["bin"].linkname == "usr/bin"


def test_links_and_empty_directories_of_an_overlay_are_kept(board: Board) -> None:
    root = board.overlay("common", etc__a="x")
    (root / "etc/off.timer").symlink_to("/dev/null")
    (root / "var/empty").mkdir(parents=True)
    found = board.members()
    assert found["etc/off.timer"].linkname == "/dev/null"
    assert found["var/empty"].isdir()


def test_an_overlay_over_one_name_of_a_file_leaves_its_other_names_alone(board: Board) -> None:
    board.base = [member("./usr/a", b"old"), hard("./usr/b", "./usr/a"), hard("./usr/c", "./usr/a")]
    board.overlay("common", usr__a="new")
    found = board.members()
    assert (board.text("usr/a"), board.text("usr/b")) == ("new", "old")
    assert found["usr/c"].linkname == "usr/b"


def test_modules_below_lib_go_where_lib_leads(board: Board) -> None:
    board.modules = [directory("lib"), directory("lib/modules"), member("lib/modules/modules.dep", b"x")]
    found = board.members()
    assert found["lib"].issym()
    assert "usr/lib/modules/modules.dep" in found


def test_an_overlay_cannot_make_a_file_of_a_directory(
    board: Board, capsys: pytest.CaptureFixture[str]
) -> None:
    board.overlay("common", usr="x")
    assert board.run() == 1
    assert "usr is a directory in one place and not in another" in capsys.readouterr().err


# What is refused

REFUSED = [
    ([member("/etc/passwd")], "'/etc/passwd' leads out"),
    ([member("./../x")], "'./../x' leads out"),
    ([member("usr/../../x")], "leads out"),
    ([link("./usr/out", "../../etc")], "usr/out is a link to ../../etc, which leads out"),
    ([hard("./usr/out", "../x")], "'../x' leads out"),
    ([member("./usr/a"), member("usr//a")], "usr/a is there twice"),
    ([hard("./usr/a", "./usr/b"), member("./usr/b")], "hard link to usr/b, which does not come before"),
    ([hard("./usr/a", "./usr/lib")], "hard link to usr/lib, which is no file"),
    ([hard("./usr/a", "./lib")], "hard link to lib, which is no file"),
    ([member("./usr/a", kind=b"V")], "usr/a is of tar type b'V'"),
    ([member("./usr/a"), member("./usr/a/b")], "usr/a/b lies below usr/a, which is no directory"),
    ([member("./absent/b")], "absent/b lies below absent, which is no directory"),
    ([link("./a", "b"), link("./b", "a"), member("./a/c")], "circle"),
]


@pytest.mark.parametrize(("members", "said"), REFUSED, ids=[said for _, said in REFUSED])
@pytest.mark.parametrize("where", ["base", "modules"])
def test_a_tarball_that_would_lead_astray_is_refused_in_words(
    board: Board, capsys: pytest.CaptureFixture[str], where: str, members: list[Member], said: str
) -> None:
    setattr(board, where, members)
    assert board.run() == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert not (board.out / "rootfs.tar").exists()


def test_an_overlay_link_that_leads_out_is_refused(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    root = board.overlay("common", etc__a="x")
    (root / "etc/out").symlink_to("../../../etc/passwd")
    assert board.run() == 1
    assert "common: etc/out is a link to ../../../etc/passwd" in capsys.readouterr().err


# Settings


def test_without_a_password_nothing_matches_roots(board: Board) -> None:
    board.members()
    assert board.text("etc/shadow").splitlines()[0] == f"root:*:{DAY}:0:99999:7:::"


def test_a_password_hash_becomes_roots_and_days_of_change_are_the_epochs(board: Board) -> None:
    board.settings["root_password_hash"] = "$y$j9T$salt$hash"
    board.members()
    assert board.text("etc/shadow").splitlines() == [
        f"root:$y$j9T$salt$hash:{DAY}:0:99999:7:::",
        f"sshd:!*:{DAY}:::::1:",
        "bin:*::::::",
    ]


def test_authorized_keys_are_roots_alone(board: Board) -> None:
    board.settings["authorized_keys"] = ["ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"]
    found = board.members()
    assert board.text("root/.ssh/authorized_keys") == "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n"
    assert (found["root/.ssh/authorized_keys"].mode, found["root/.ssh"].mode) == (0o600, 0o700)


def test_without_keys_there_is_no_key_file(board: Board) -> None:
    assert "root/.ssh" not in board.members()


def test_machine_id_is_there_and_empty_so_that_the_first_boot_makes_one_without_asking(board: Board) -> None:
    board.base = [member("./etc/machine-id", b"0123456789abcdef0123456789abcdef\n")]
    found = board.members()
    assert found["etc/machine-id"].size == 0


def test_host_name_and_hosts_name_the_board(board: Board) -> None:
    board.members()
    assert board.text("etc/hostname") == "board\n"
    assert "127.0.1.1 board\n" in board.text("etc/hosts")


def test_etc_and_var_are_marked_as_new_as_usr(board: Board) -> None:
    board.base = [member("./usr/new", mtime=EPOCH + 100)]
    found = board.members()
    assert found["etc/.updated"].mtime == found["var/.updated"].mtime == EPOCH
    assert found["usr"].mtime <= EPOCH


def test_packages_are_those_installed_by_name(board: Board) -> None:
    board.members()
    assert json.loads((board.out / "packages.json").read_text()) == [
        {"package": "bash", "version": "5.2", "architecture": "arm64"},
        {"package": "zlib1g", "version": "1:1.3", "architecture": "arm64"},
    ]


# Names

PARTS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "c.d"]), min_size=1, max_size=6)


@given(PARTS)
def test_a_safe_name_has_no_way_out_and_stays_the_same(parts: list[str]) -> None:
    name = "/".join(parts)
    try:
        safe = tartree.safe_name(name, "x")
    except tartree.Fault:
        assert name.startswith("/") or ".." in parts
        return
    assert not {"", ".", ".."} & set(safe.split("/")) or safe == ""
    assert tartree.safe_name(safe, "x") == safe


@given(PARTS, PARTS)
def test_a_link_that_is_accepted_never_climbs_above_the_root(directory: list[str], target: list[str]) -> None:
    clean = "/".join(part for part in directory if part not in ("", ".", ".."))
    try:
        tartree.check_link(f"{clean}/l" if clean else "l", "/".join(target), "x")
    except tartree.Fault:
        return
    depth = 0 if target[0] == "" and len(target) > 1 else len(clean.split("/")) if clean else 0
    for part in target:
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0:
            assert target[0] == ""  # absolute: the kernel holds `/..` at the root
            return
