"""Every asked-for line is in the final .config, or the failure says which, where and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardwright.sealed import kconfig

KCONFIG = """\
mainmenu "Test kernel"

# A comment with a "quote
config MODULES
\tbool "Modules"

config 64BIT
\tdef_bool y

config PCI
\tbool "PCI" if !EXPERT_PCI
\thelp
\t  config NOT_A_SYMBOL
\t    depends on nothing

\t  More help after a blank line.

menu "Drivers"
\tdepends on PCI || COMPILE_TEST

source "drivers/$(SRCARCH)/Kconfig"

endmenu

choice
\tprompt "Timer frequency"
\tdefault HZ_250

config HZ_100
\tbool "100 Hz"

config HZ_250
\tbool "250 Hz"

endchoice

if NET
config NET_EXTRA
\ttristate "Extra"
endif

config NET
\tbool "Networking"

config HELPER
\ttristate

config USER
\ttristate "A user of the helper"
\tselect HELPER if PCI

config LOG_SHIFT
\tint "Log size"
\trange 12 25

config BASE
\thex "Base address"

config NAME
\tstring "Name"
"""

DRIVERS = """\
config NVME
\ttristate "NVMe \\"fast\\" disks" # a comment
\tdepends on 64BIT && \\
\t\t(MMU || BLOCK)

config BLOCK
\tbool "Block layer"

config NVME_HWMON
\tbool "Sensors of NVMe"
\tdepends on NVME
\tdepends on HWMON if BLOCK

config HWMON
\ttristate "Sensors"

config CC_THING
\tbool "Needs a compiler"
\tdepends on $(cc-option,-mthing)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "drivers/arm64").mkdir(parents=True)
    (root / "Kconfig").write_text(KCONFIG)
    (root / "drivers/arm64/Kconfig").write_text(DRIVERS)
    return root


def failures(source: Path, config: str, *fragments: str) -> list[str]:
    """Check fragments (named 1.config, 2.config, …) against a .config; places lose the directory."""
    directory = source.parent
    (directory / ".config").write_text(config)
    paths = []
    for number, fragment in enumerate(fragments, start=1):
        paths.append(directory / f"{number}.config")
        paths[-1].write_text(fragment)
    found = kconfig.check(source, directory / ".config", paths)
    return [text.replace(f"{directory}/", "") for text in found]


def failure(source: Path, config: str, *fragments: str) -> str:
    found = failures(source, config, *fragments)
    assert len(found) == 1, found
    return found[0]


# --- lines that hold ---------------------------------------------------------------------------------


def test_lines_that_are_in_the_config_hold(source: Path) -> None:
    config = 'CONFIG_PCI=y\nCONFIG_USER=m\n# CONFIG_NET is not set\nCONFIG_LOG_SHIFT=18\nCONFIG_NAME="a b"\n'
    assert failures(source, config, "# why\n\n" + config) == []


def test_an_absent_symbol_is_not_set(source: Path) -> None:
    assert failures(source, "", "# CONFIG_NVME is not set\n") == []


def test_n_is_the_same_as_not_set(source: Path) -> None:
    assert failures(source, "# CONFIG_NET is not set\n", "CONFIG_NET=n\n") == []


def test_hex_values_are_compared_as_numbers(source: Path) -> None:
    assert failures(source, "CONFIG_BASE=0xff00\n", "CONFIG_BASE=0xFF00\n") == []


def test_the_kconfig_files_are_not_read_when_every_line_holds(tmp_path: Path) -> None:
    assert failures(tmp_path / "missing", "CONFIG_PCI=y\n", "CONFIG_PCI=y\n") == []


# --- unknown symbols ---------------------------------------------------------------------------------


def test_an_unknown_symbol_is_named_with_the_nearest(source: Path) -> None:
    assert failure(source, "", "\nCONFIG_NVME_HWMOM=y\n") == (
        "1.config:2: CONFIG_NVME_HWMOM=y\n"
        "    final .config: absent\n"
        "    NVME_HWMOM is unknown in this source tree; did you mean NVME_HWMON?"
    )


def test_switching_off_an_unknown_symbol_is_a_mistake_too(source: Path) -> None:
    text = failure(source, "", "# CONFIG_NVNE is not set\n")
    assert "NVNE is unknown in this source tree; did you mean NVME?" in text


def test_words_in_help_texts_are_not_symbols(source: Path) -> None:
    assert "NOT_A_SYMBOL is unknown" in failure(source, "", "CONFIG_NOT_A_SYMBOL=y\n")


# --- dependencies ------------------------------------------------------------------------------------


def test_an_unmet_dependency_is_shown_with_its_values(source: Path) -> None:
    text = failure(source, "CONFIG_64BIT=y\nCONFIG_PCI=y\n", "CONFIG_NVME=y\n")
    assert text == (
        "1.config:1: CONFIG_NVME=y\n"
        "    final .config: absent\n"
        "    unmet dependency of drivers/arm64/Kconfig:1: MMU || BLOCK   (drivers/arm64/Kconfig:3)\n"
        "        MMU: unknown in this source tree\n"
        "        BLOCK=n   (can be asked for)"
    )


def test_the_dependencies_of_an_enclosing_menu_count(source: Path) -> None:
    text = failure(source, "# CONFIG_PCI is not set\n", "CONFIG_BLOCK=y\n")
    assert "unmet dependency of drivers/arm64/Kconfig:6: PCI || COMPILE_TEST   (Kconfig:19)" in text
    assert "PCI=n   (can be asked for)" in text


def test_the_condition_of_an_enclosing_if_counts(source: Path) -> None:
    text = failure(source, "", "CONFIG_NET_EXTRA=m\n")
    assert "unmet dependency of Kconfig:38: NET   (Kconfig:37)" in text


def test_every_unmet_dependency_is_listed_and_what_it_lacks_itself(source: Path) -> None:
    config = "CONFIG_PCI=y\nCONFIG_64BIT=y\nCONFIG_BLOCK=y\n"
    text = failure(source, config, "CONFIG_NVME_HWMON=y\n")
    assert ": NVME   (drivers/arm64/Kconfig:11)" in text
    assert ": !BLOCK || HWMON   (drivers/arm64/Kconfig:12)" in text
    text = failure(source, "# CONFIG_PCI is not set\n", "CONFIG_NVME_HWMON=y\n")
    assert "NVME=n   (itself lacks PCI || COMPILE_TEST, 64BIT, MMU || BLOCK)" in text


def test_a_dependency_that_is_m_keeps_a_tristate_from_y_but_not_a_bool(source: Path) -> None:
    config = "CONFIG_PCI=y\nCONFIG_NVME=m\nCONFIG_HWMON=m\nCONFIG_BLOCK=y\n"
    text = failure(source, config, "CONFIG_NVME_HWMON=y\n")
    assert "its dependencies hold" in text


def test_a_dependency_on_the_compiler_gets_the_benefit_of_the_doubt(source: Path) -> None:
    text = failure(source, "CONFIG_PCI=y\n", "CONFIG_CC_THING=y\n")
    assert "its dependencies hold" in text


# --- choice, select, prompts, types ------------------------------------------------------------------


def test_another_member_of_the_choice_is_named(source: Path) -> None:
    text = failure(source, "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\n", "CONFIG_HZ_100=y\n")
    assert "final .config: # CONFIG_HZ_100 is not set" in text
    assert "is a member of the choice at Kconfig:25, where HZ_250 is chosen" in text


def test_m_wanted_and_y_found_names_the_select(source: Path) -> None:
    config = "CONFIG_PCI=y\nCONFIG_USER=y\nCONFIG_HELPER=y\n"
    text = failure(source, config, "CONFIG_HELPER=m\n")
    assert "final .config: CONFIG_HELPER=y" in text
    assert "is forced to y:\n        selected by USER=y   (Kconfig:50)" in text


def test_not_set_wanted_and_y_found_names_the_select(source: Path) -> None:
    config = "CONFIG_PCI=y\nCONFIG_USER=m\nCONFIG_HELPER=m\n"
    text = failure(source, config, "# CONFIG_HELPER is not set\n")
    assert text.startswith("1.config:1: # CONFIG_HELPER is not set\n    final .config: CONFIG_HELPER=m\n")
    assert "selected by USER=m" in text


def test_not_set_wanted_for_what_is_always_on(source: Path) -> None:
    text = failure(source, "CONFIG_64BIT=y\n", "# CONFIG_64BIT is not set\n")
    assert "has no prompt, and its default is y   (Kconfig:7)" in text


def test_a_symbol_without_a_prompt_names_who_could_select_it(source: Path) -> None:
    text = failure(source, "# CONFIG_USER is not set\n", "CONFIG_HELPER=y\n")
    assert "has no prompt   (Kconfig:45): only a default or a select sets it" in text
    assert "selected by USER=n" in text


def test_a_prompt_with_an_unmet_condition(source: Path) -> None:
    source.joinpath("Kconfig").write_text('config A\n\tbool "A" if B\n\nconfig B\n\tbool "B"\n')
    text = failure(source, "", "CONFIG_A=y\n")
    assert "is asked only if B   (Kconfig:1): only a default or a select sets it" in text
    assert "B=n   (can be asked for)" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("CONFIG_PCI=m", "PCI is of type bool (Kconfig:10): it takes y or n"),
        ("CONFIG_LOG_SHIFT=y", "LOG_SHIFT is of type int (Kconfig:52): it takes a decimal number"),
        ("CONFIG_NVME=18", "NVME is of type tristate (drivers/arm64/Kconfig:1): it takes y, m or n"),
    ],
)
def test_a_value_of_the_wrong_type(source: Path, line: str, words: str) -> None:
    assert words in failure(source, "CONFIG_PCI=y\nCONFIG_LOG_SHIFT=17\n", f"{line}\n")


@pytest.mark.parametrize(
    ("line", "final"),
    [
        ("CONFIG_LOG_SHIFT=30", "CONFIG_LOG_SHIFT=25"),
        ('CONFIG_NAME="rock"', 'CONFIG_NAME=""'),
        ("CONFIG_BASE=0x10", "CONFIG_BASE=0x20"),
    ],
)
def test_other_values_than_asked_for(source: Path, line: str, final: str) -> None:
    assert failure(source, f"{final}\n", f"{line}\n").startswith(
        f"1.config:1: {line}\n    final .config: {final}"
    )


# --- several fragments -------------------------------------------------------------------------------


def test_the_later_fragment_wins_and_the_overridden_line_is_reported(source: Path) -> None:
    text = failure(source, "CONFIG_USER=m\n", "CONFIG_USER=y\n", "\nCONFIG_USER=m\n")
    assert text == "1.config:1: CONFIG_USER=y\n    is overridden at 2.config:2: CONFIG_USER=m"


def test_the_same_line_in_two_fragments_is_no_mistake(source: Path) -> None:
    assert failures(source, "CONFIG_USER=m\n", "CONFIG_USER=m\n", "CONFIG_USER=m\n") == []


def test_all_failures_are_listed_at_once_in_the_order_of_the_fragments(source: Path) -> None:
    found = failures(source, "", "CONFIG_NET=y\nnonsense\n", "CONFIG_XYZZY=y\nCONFIG_PCI=y\n")
    assert [text.split(":", 2)[:2] for text in found] == [
        ["1.config", "2"],
        ["1.config", "1"],
        ["2.config", "1"],
        ["2.config", "2"],
    ]
    assert "'nonsense' is none of CONFIG_NAME=value" in found[0]


# --- expressions and the program ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A && B", 1),
        ("A || N", 2),
        ("!A || N", 0),
        ("!B", 1),
        ("!(A && N) && B", 1),
        ('NAME = "x y"', 2),
        ("NAME != ''", 2),
        ("NUM >= 0x10 && NUM < 100", 2),
        ("64BIT", 2),
        ("A = y", 2),
        ("B=m", 2),
        ("$(cc-option,-m(x))", None),
        ("$(cc-option,-mx) && N", 0),
        ("A || $(cc-option,-mx)", 2),
        ('"$(ARCH)" = "arm64"', None),
    ],
)
def test_expressions(text: str, value: int | None) -> None:
    values = {"A": "y", "B": "m", "64BIT": "y", "NAME": '"x y"', "NUM": "16"}
    assert kconfig.evaluate(kconfig.parse_expression(text), values) == value


@pytest.mark.parametrize("text", ["A &&", "(A", "A B", "$(cc", "A =", "A ? B", "|| A"])
def test_expressions_that_cannot_be_read(text: str) -> None:
    with pytest.raises(kconfig.ParseError):
        kconfig.parse_expression(text)


@pytest.mark.parametrize("text", ["A && (B || !C)", '!(A && B) || D = "x"', "A=y && B"])
def test_expressions_are_shown_as_they_are_written(text: str) -> None:
    shown = str(kconfig.parse_expression(text))
    assert shown.replace(" ", "") == text.replace(" ", "")


def test_the_program(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, fragment = source.parent / ".config", source.parent / "a.config"
    config.write_text("CONFIG_PCI=y\n")
    fragment.write_text("CONFIG_PCI=y\n")
    command = ["check", "--kconfig-tree", str(source), "--config", str(config), str(fragment)]
    assert kconfig.main(command) == 0
    fragment.write_text("CONFIG_PCI=y\nCONFIG_NET=y\nCONFIG_USER=m\n")
    assert kconfig.main(command) == 1
    error = capsys.readouterr().err
    assert "a.config:2: CONFIG_NET=y" in error
    assert "a.config:3: CONFIG_USER=m" in error
    assert error.endswith("error: 2 lines of the fragments cannot be had from this kernel\n")
