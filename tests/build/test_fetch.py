"""Downloads against a mirror that misbehaves."""

from __future__ import annotations

import _thread
import hashlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import mirror_server as mirror
import pytest
from mirror_server import MirrorServer, serving

from boardwright.build import downloads
from boardwright.build import fetch as fetching
from boardwright.build.fetch import Patience, fetch, verified
from boardwright.build.step import Download
from boardwright.errors import HostError, IntegrityError

QUICK = Patience(attempts=3, pause=0.01, stall=0.5, grace=5)
BODY = bytes(range(256)) * 2000
DEB = "pool/main/e/example/example_1.2-3_amd64.deb"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MirrorServer]:
    for name in ("http_proxy", "HTTP_PROXY", "BOARDWRIGHT_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as server:
        yield server


@pytest.fixture
def other() -> Iterator[MirrorServer]:
    with serving() as server:
        yield server


def get(wanted: Download | list[Download], directory: Path, *servers: MirrorServer) -> None:
    every = wanted if isinstance(wanted, list) else [wanted]
    fetch(every, directory, [server.address for server in servers], patience=QUICK)


def partial(wanted: Download, directory: Path) -> Path:
    return downloads.place(wanted, directory).with_suffix(".partial")


def test_a_file_is_kept_by_its_digest_and_not_asked_for_again(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    get(wanted, tmp_path, server)
    assert verified(wanted, tmp_path) == tmp_path / wanted.sha256[:2] / wanted.sha256
    assert verified(wanted, tmp_path).read_bytes() == BODY
    get(wanted, tmp_path, server)
    assert server.requests[f"/{DEB}"] == 1


def test_many_files_share_few_connections(server: MirrorServer, tmp_path: Path) -> None:
    many = [server.add(f"pool/{n}.deb", f"{n}".encode() * 100) for n in range(40)]
    get(many, tmp_path, server)
    assert all(verified(wanted, tmp_path) for wanted in many)
    assert server.connections <= QUICK.connections


def test_a_file_named_twice_is_fetched_once(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    get([wanted, wanted], tmp_path, server)
    assert server.requests[f"/{DEB}"] == 1


def test_an_empty_file_arrives(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add("pool/empty", b"")
    get(wanted, tmp_path, server)
    assert verified(wanted, tmp_path).read_bytes() == b""


def test_a_mirror_without_the_file_is_passed_over(
    server: MirrorServer, other: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    get(wanted, tmp_path, other, server)
    assert verified(wanted, tmp_path).read_bytes() == BODY
    assert other.requests[f"/{DEB}"] == 1


def test_one_error_names_every_package_that_left_the_mirrors(
    server: MirrorServer, other: MirrorServer, tmp_path: Path
) -> None:
    here = server.add("pool/main/h/here_1_all.deb", b"here")
    names = ["bash_5.2-1_amd64", "libc6_2.41-9_amd64", "zlib1g_1.3-1_amd64"]
    gone = [
        Download(f"pool/main/x/{name}.deb", 9, hashlib.sha256(name.encode()).hexdigest()) for name in names
    ]
    with pytest.raises(HostError) as caught:
        get([*gone, here], tmp_path, server, other)
    for words in ("3 locked files", "bash 5.2-1", "libc6 2.41-9", "zlib1g 1.3-1"):
        assert words in caught.value.message
    assert "here" not in caught.value.message
    for way in ("invoke lock", "BOARDWRIGHT_MIRROR", "bundle", "store"):
        assert way in str(caught.value.hint)
    assert verified(here, tmp_path), "what was there has been kept"


@pytest.mark.parametrize("fault", [mirror.truncate, mirror.stall, mirror.broken, mirror.drip])
def test_a_fault_that_passes_is_outlived(fault: mirror.Fault, server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.faults[f"/{DEB}"] = [fault, fault]
    fetch(
        [wanted], tmp_path, [server.address], patience=Patience(pause=0.01, stall=0.3, grace=1, slowest=10**9)
    )
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_what_arrived_before_a_truncation_is_not_asked_for_again(
    server: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    server.faults[f"/{DEB}"] = [mirror.truncate]
    get(wanted, tmp_path, server)
    assert server.ranges == [None, f"bytes={len(BODY) // 2}-"]
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_a_server_without_ranges_sends_all_again(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.accepts_ranges = False
    server.faults[f"/{DEB}"] = [mirror.truncate]
    get(wanted, tmp_path, server)
    assert verified(wanted, tmp_path).read_bytes() == BODY


@pytest.mark.parametrize(
    ("left", "requests"),
    [(b"\0" * 1000, 2), (b"\0" * len(BODY), 1), (BODY + b"more", 1), (BODY[:1000], 1), (BODY, 0)],
)
def test_a_partial_file_of_any_content_ends_as_the_right_file(
    left: bytes, requests: int, server: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    partial(wanted, tmp_path).parent.mkdir(parents=True)
    partial(wanted, tmp_path).write_bytes(left)
    get(wanted, tmp_path, server)
    assert verified(wanted, tmp_path).read_bytes() == BODY
    assert server.requests[f"/{DEB}"] == requests


@pytest.mark.parametrize("fault", [mirror.lie, mirror.shorter, mirror.endless])
def test_wrong_bytes_name_the_mirror_and_the_file_and_are_not_kept(
    fault: mirror.Fault, server: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    server.always[f"/{DEB}"] = fault
    with pytest.raises(IntegrityError, match=rf"{server.address}/{DEB}: expected .* found"):
        get(wanted, tmp_path, server)
    assert not downloads.place(wanted, tmp_path).exists()
    assert server.requests[f"/{DEB}"] == 1, "a liar is asked once"


def test_a_lie_of_one_mirror_is_mended_by_another(
    server: MirrorServer, other: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    other.add(DEB, BODY)
    server.always[f"/{DEB}"] = mirror.lie
    get(wanted, tmp_path, server, other)
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_a_server_error_that_stays_is_a_host_error_with_the_answer(
    server: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    server.always[f"/{DEB}"] = mirror.broken
    with pytest.raises(HostError, match=r"example 1\.2-3: .* 500"):
        get(wanted, tmp_path, server)
    assert server.requests[f"/{DEB}"] == QUICK.attempts


def test_a_stall_that_stays_ends_within_its_bound(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.always[f"/{DEB}"] = mirror.stall
    since = time.monotonic()
    with pytest.raises(HostError, match="no answer in time"):
        get(wanted, tmp_path, server)
    assert time.monotonic() - since < QUICK.attempts * QUICK.stall + 2


def test_a_silent_mirror_is_not_asked_for_every_file(tmp_path: Path) -> None:
    many = [Download(f"pool/{n}_1_all.deb", 9, hashlib.sha256(b"%d" % n).hexdigest()) for n in range(400)]
    with serving() as server:
        nobody = server.address
    since = time.monotonic()
    with pytest.raises(HostError, match="400 files could not be fetched"):
        fetch(many, tmp_path, [nobody], patience=Patience(attempts=3, pause=0.2))
    assert time.monotonic() - since < 10


def test_redirects_are_followed_within_a_bound(
    server: MirrorServer, other: MirrorServer, tmp_path: Path
) -> None:
    wanted = server.add(DEB, BODY)
    other.add("elsewhere", BODY)
    server.always[f"/{DEB}"] = mirror.to(f"{other.address}/elsewhere")
    get(wanted, tmp_path, server)
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_a_redirect_loop_is_an_error(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.always[f"/{DEB}"] = mirror.loop
    with pytest.raises(HostError, match="redirects more than 5 times"):
        get(wanted, tmp_path, server)


def test_a_redirect_to_a_local_file_is_refused(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, b"secret")
    (tmp_path / "secret").write_bytes(b"secret")
    server.always[f"/{DEB}"] = mirror.to(f"file://{tmp_path}/secret")
    with pytest.raises(HostError, match="no http address"):
        get(wanted, tmp_path / "kept", server)


def test_a_forbidden_file_is_asked_for_once(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.always[f"/{DEB}"] = mirror.forbidden
    with pytest.raises(HostError, match="403"):
        get(wanted, tmp_path, server)
    assert server.requests[f"/{DEB}"] == 1


def test_a_proxy_is_used(server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = server.add(DEB, BODY)
    server.files[f"/debian/{DEB}"] = BODY
    monkeypatch.setattr("boardwright.build.mirror.proxy", lambda _: server.address)
    fetch([wanted], tmp_path, ["http://mirror.example.org/debian"], patience=QUICK)
    assert server.requests[f"/debian/{DEB}"] == 1


def test_a_directory_can_be_a_mirror(tmp_path: Path) -> None:
    wanted = Download(DEB, len(BODY), hashlib.sha256(BODY).hexdigest())
    (tmp_path / "bundle" / DEB).parent.mkdir(parents=True)
    (tmp_path / "bundle" / DEB).write_bytes(BODY)
    fetch([wanted], tmp_path / "kept", [f"file://{tmp_path}/bundle"], patience=QUICK)
    assert verified(wanted, tmp_path / "kept").read_bytes() == BODY


def test_a_vendor_file_comes_from_its_path_and_its_size_may_be_unknown(tmp_path: Path) -> None:
    blob = tmp_path / "ddr blob%41.bin"
    blob.write_bytes(BODY)
    wanted = Download(str(blob), 0, hashlib.sha256(BODY).hexdigest())
    fetch([wanted], tmp_path / "kept", [], patience=QUICK)
    assert verified(wanted, tmp_path / "kept").read_bytes() == BODY


def test_a_missing_vendor_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"ddr\.bin: No such file") as caught:
        fetch([Download(str(tmp_path / "ddr.bin"), 0, "0" * 64)], tmp_path / "kept", [], patience=QUICK)
    assert "board.yaml" in str(caught.value.hint)


def test_a_vendor_file_with_other_bytes_is_no_mirrors_fault(tmp_path: Path) -> None:
    (tmp_path / "blob.bin").write_bytes(BODY)
    wanted = Download(str(tmp_path / "blob.bin"), 0, "0" * 64)
    with pytest.raises(IntegrityError, match="a vendor file has other bytes") as caught:
        fetch([wanted], tmp_path / "kept", [])
    assert "sha256sum" in str(caught.value.hint)


def test_a_vendor_file_comes_from_its_url(server: MirrorServer, tmp_path: Path) -> None:
    server.add("blob", BODY)
    server.faults["/blob"] = [mirror.truncate]
    wanted = Download(f"{server.address}/blob", 0, hashlib.sha256(BODY).hexdigest())
    get(wanted, tmp_path)
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_without_any_mirror_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        fetch([Download(DEB, 1, "0" * 64)], tmp_path, [])
    assert "BOARDWRIGHT_MIRROR=" in str(caught.value.hint)


def test_a_flipped_byte_is_never_used_and_is_fetched_again(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    get(wanted, tmp_path, server)
    path = verified(wanted, tmp_path)
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(IntegrityError, match=r"expected SHA-256 .* found"):
        verified(wanted, tmp_path)
    notes: list[str] = []
    fetch([wanted], tmp_path, [server.address], notes.append, QUICK)
    assert verified(wanted, tmp_path).read_bytes() == BODY
    assert "example 1.2-3 was damaged" in notes[0]


def test_an_untouched_file_is_not_hashed_again(
    server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = server.add(DEB, BODY)
    get(wanted, tmp_path, server)

    def refuse(*_: object) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr("hashlib.file_digest", refuse)
    assert verified(wanted, tmp_path)
    downloads.place(wanted, tmp_path).touch()
    with pytest.raises(AssertionError, match="hashed again"):
        verified(wanted, tmp_path)


@pytest.mark.parametrize("record", ["", "[]", "{", "null"])
def test_a_damaged_record_only_costs_a_hash(record: str, server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    get(wanted, tmp_path, server)
    downloads.place(wanted, tmp_path).with_suffix(".verified").write_text(record)
    assert verified(wanted, tmp_path).read_bytes() == BODY


def test_a_disk_too_small_is_said_before_anything_is_fetched(server: MirrorServer, tmp_path: Path) -> None:
    big = Download(DEB, 1 << 60, "0" * 64)
    with pytest.raises(HostError, match=r"the disk is full.* need \d+ MiB and \d+ MiB are free"):
        get(big, tmp_path, server)
    assert not server.requests


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_disk_that_fills_while_fetching_is_a_host_error(
    server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_require_space", lambda *_: None)
    many = [server.add(f"pool/{n}_1_all.deb", os.urandom(400_000)) for n in range(8)]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        with pytest.raises(HostError, match="the disk is full") as caught:
            get(many, tmp_path, server)
        assert "BOARDWRIGHT_CACHE" in str(caught.value.hint)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_ctrl_c_leaves_a_partial_file_that_is_continued(server: MirrorServer, tmp_path: Path) -> None:
    wanted = server.add(DEB, BODY)
    server.faults[f"/{DEB}"] = [mirror.stall]

    def interrupt() -> None:
        server.stalled.wait(10)
        mirror.until(lambda: partial(wanted, tmp_path).exists())
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch([wanted], tmp_path, [server.address], patience=Patience(stall=60))
    assert time.monotonic() - since < 10, "the stalled connection was not waited for"
    assert not downloads.place(wanted, tmp_path).exists()
    assert partial(wanted, tmp_path).stat().st_size > 0
    get(wanted, tmp_path, server)
    assert server.ranges[-1] is not None
    assert verified(wanted, tmp_path).read_bytes() == BODY
    assert [path.name for path in downloads.place(wanted, tmp_path).parent.iterdir()].count(
        partial(wanted, tmp_path).name
    ) == 0


def test_two_processes_fetch_the_same_files_at_once(server: MirrorServer, tmp_path: Path) -> None:
    many = [server.add(f"pool/{n}_1_all.deb", BODY + b"%d" % n) for n in range(12)]
    program = textwrap.dedent(f"""
        from pathlib import Path
        from boardwright.build.fetch import fetch
        from boardwright.build.step import Download
        wanted = [Download(*row) for row in {[(w.path, w.size, w.sha256) for w in many]!r}]
        fetch(wanted, Path({str(tmp_path)!r}), [{server.address!r}])
    """)
    processes = [
        subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[2]) for _ in "ab"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert all(verified(wanted, tmp_path) for wanted in many)
    assert not list(tmp_path.rglob("*.partial"))
