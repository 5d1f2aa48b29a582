"""Mirrors from the host's apt configuration, in both of its styles."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardwright.build import mirror
from boardwright.build.mirror import deb822_style, mirrors, one_line_style, serves_debian
from boardwright.errors import HostError, InputError


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOARDWRIGHT_MIRROR", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    mirror.proxy.cache_clear()


def apt(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "sources.list.d").mkdir(exist_ok=True)
    for name, text in files.items():
        stem, suffix = name.rsplit("_", 1)
        path = tmp_path / ("sources.list" if stem == "main" else f"sources.list.d/{stem}.{suffix}")
        path.write_text(text)
    return tmp_path


def test_a_deb822_file_of_debian_is_read(tmp_path: Path) -> None:
    text = """\
# See sources.list(5)
Types: deb deb-src
URIs: http://one.example.org/debian/ https://two.example.org/debian
Suites: trixie
 trixie-updates
Components: main contrib
# a comment inside
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://one.example.org/debian-security
Suites: trixie-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
    assert mirrors(apt(tmp_path, debian_sources=text)) == (
        "http://one.example.org/debian",
        "https://two.example.org/debian",
    )


def test_a_one_line_file_with_options_is_read(tmp_path: Path) -> None:
    text = """\
# deb http://commented.example.org/debian trixie main
deb cdrom:[Debian GNU/Linux 13]/ trixie main
deb [ arch=amd64 signed-by=/k/debian-archive-keyring.gpg ] http://one.example.org/debian/ bookworm main # mine
deb-src http://source.example.org/debian bookworm main
deb mirror+file:/etc/apt/mirrors.txt bookworm main
deb http://one.example.org/debian bookworm-updates main
"""
    assert mirrors(apt(tmp_path, main_list=text)) == ("http://one.example.org/debian",)


@pytest.mark.parametrize(
    "line",
    [
        "deb http://x.example.org/debian-security trixie-security main",
        "deb http://x.example.org/apt cloud-sdk-bookworm main",
        "deb [signed-by=/usr/share/keyrings/vendor.gpg] http://x.example.org/debian bookworm main",
        "deb http://x.example.org/linux/debian bookworm stable",
        "deb http://x.example.org/ubuntu noble main",
        "deb http://x.example.org/repo ./",
        "deb ftp://x.example.org/debian trixie main",
    ],
)
def test_what_is_not_debians_main_archive_is_passed_over(line: str) -> None:
    assert not [source for source in one_line_style(line) if serves_debian(source)]


def test_a_key_written_into_a_stanza_is_a_third_partys() -> None:
    text = (
        "Types: deb\nURIs: http://x.example.org/debian\nSuites: trixie\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEXEcE\n"
    )
    assert not [source for source in deb822_style(text) if serves_debian(source)]


@pytest.mark.parametrize("word", ["no", "No", "false", "0"])
def test_a_disabled_stanza_is_passed_over(word: str) -> None:
    text = (
        f"Enabled: {word}\nTypes: deb\nURIs: http://x.example.org/debian\nSuites: trixie\nComponents: main\n"
    )
    assert not list(deb822_style(text))


def test_files_that_apt_ignores_are_ignored(tmp_path: Path) -> None:
    line = "deb http://x.example.org/debian trixie main\n"
    configuration = apt(tmp_path, old_save=line, debian_bak=line)
    assert mirror.sources(configuration) == []


def test_the_variable_wins_and_may_name_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDWRIGHT_MIRROR", f"http://mine.example.org/debian/ {tmp_path}")
    configuration = apt(tmp_path, main_list="deb http://one.example.org/debian trixie main\n")
    assert mirrors(configuration) == ("http://mine.example.org/debian", f"file://{tmp_path}")


@pytest.mark.parametrize("word", ["mine.example.org/debian", "ftp://example.org/debian", "http://"])
def test_a_variable_that_is_no_address_is_an_input_error(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDWRIGHT_MIRROR", word)
    with pytest.raises(InputError, match="BOARDWRIGHT_MIRROR: expected addresses"):
        mirrors()


def test_a_host_without_a_debian_mirror_uses_what_its_mmdebstrap_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(
        "my $mirror = 'http://default.example.org/debian';\nmy $secmirror = 'http://s.example.org/debian-security';\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    ubuntu = apt(tmp_path, main_list="deb http://archive.example.org/ubuntu noble main universe\n")
    assert mirrors(ubuntu) == ("http://default.example.org/debian",)


def test_the_installed_mmdebstrap_names_a_mirror(tmp_path: Path) -> None:
    assert len(mirrors(tmp_path)) == 1


def test_no_mirror_at_all_is_a_host_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError) as caught:
        mirror.require(mirrors(tmp_path))
    assert "BOARDWRIGHT_MIRROR=" in str(caught.value.hint)


OPTIONS = {
    "Acquire::http::Proxy": "http://proxy.example.org:3128",
    "Acquire::http::Proxy::near.example.org": "DIRECT",
    "Acquire::https::Proxy": "http://secure.example.org:3128",
}


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://far.example.org", "http://proxy.example.org:3128"),
        ("http://near.example.org", None),
        ("https://far.example.org", "http://secure.example.org:3128"),
    ],
)
def test_apts_proxies_are_used(url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "apt_options", lambda: OPTIONS)
    assert mirror.proxy(url) == proxy


def test_apts_detecting_program_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "detect"
    program.write_text(
        "#!/bin/sh\ncase $1 in *far*) echo http://found.example.org:8000;; *) echo DIRECT;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(mirror, "apt_options", lambda: {"Acquire::http::Proxy-Auto-Detect": str(program)})
    assert mirror.proxy("http://far.example.org") == "http://found.example.org:8000"
    assert mirror.proxy("http://near.example.org") is None


def test_the_environments_proxy_is_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "apt_options", dict)
    monkeypatch.setenv("http_proxy", "http://env.example.org:1")
    monkeypatch.setenv("no_proxy", "near.example.org")
    assert mirror.proxy("http://far.example.org") == "http://env.example.org:1"
    mirror.proxy.cache_clear()
    assert mirror.proxy("http://near.example.org") is None


def test_apts_options_are_read_from_the_host() -> None:
    assert all(name.startswith(("Acquire::http::", "Acquire::https::")) for name in mirror.apt_options())
