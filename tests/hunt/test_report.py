"""Reports of the hunt library: read, merged, shown; and refused when they are not whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import HostError
from boardwright.hunt.report import merged, parse, table
from boardwright.hunt.run import Outcome, judged

LIBC = "/usr/lib/aarch64-linux-gnu/libc.so.6"
GALLIUM = "/run/lab/mesa/usr/lib/aarch64-linux-gnu/libgallium-25.0.7.so"


def code(object_: str, address: int, symbol: str, into: int, exact: bool = True) -> dict[str, Any]:
    return {
        "object": object_, "build_id": "dfbd", "offset": address, "address": address,
        "symbol": symbol, "into": into, "exact": exact,
    }  # fmt: skip


def site(count: int = 3, **changes: Any) -> dict[str, Any]:
    """A 16-byte store of libc's memcpy, called from Mesa."""
    return {
        **code(LIBC, 668460, "memcpy", 44),
        "instruction": "3d800000", "mnemonic": "str q", "size": 16, "element": 16, "write": True,
        "modulo16": [3], "count": count, "emulated": True,
        "caller": code(GALLIUM, 0x1234, "si_buffer_subdata", 0x98), **changes,
    }  # fmt: skip


def report(*sites: dict[str, Any], program: str = "kmscube", mappings: int = 2, signal: int = 0) -> str:
    end = {"sites": len(sites), "faults": 0, "lost": 0, "mappings": mappings, "signal": signal}
    lines = [{"program": program, "pid": 7, "mode": "count"}, *({"site": s} for s in sites), {"end": end}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_site_is_told_with_program_place_caller_instruction_access_and_count() -> None:
    row = table(parse(report(site()))).splitlines()[2]
    for word in ("kmscube  libc.so.6", "memcpy+0x2c", "libgallium-25.0.7.so si_buffer_subdata+0x98",
                 "3d800000 str q", "write 16"):  # fmt: skip
        assert word in row


def test_a_pair_is_shown_as_two_elements() -> None:
    row = table(parse(report(site(mnemonic="ldp x", element=8, write=False)))).splitlines()[2]
    assert "read 2x8" in row


def test_a_symbol_that_ends_before_the_site_is_marked() -> None:
    stripped = site(**code(GALLIUM, 0x999, "glFlush", 0x700, exact=False))
    assert "~glFlush+0x700" in table(parse(report(stripped)))


def test_a_symbol_far_before_the_site_is_not_shown() -> None:
    stripped = site(**code(GALLIUM, 0x149A2C, "radeon_drm_winsys_create", 0x100000, exact=False))
    text = table(parse(report(stripped)))
    assert "radeon_drm_winsys_create" not in text
    assert "0x149a2c" in text


def test_the_instructions_of_one_copy_are_one_place_to_look_at() -> None:
    two = [site(4), site(5, instruction="3c9f00a1", address=668464)]
    own = site(1, **code(GALLIUM, 0x20, "si_emit", 8))
    del own["caller"]
    lines = table(parse(report(*two, own))).splitlines()
    assert lines[-3:] == [
        "3 sites, 10 faults, 2 places:",
        "       9  libgallium-25.0.7.so si_buffer_subdata+0x98",
        "       1  libgallium-25.0.7.so si_emit+0x8",
    ]


def test_a_site_without_any_symbol_is_told_by_its_address() -> None:
    assert "0x999" in table(parse(report(site(**code("", 0x999, "", 0)))))


def test_the_most_frequent_site_comes_first() -> None:
    few, many = site(1), site(9, instruction="a9001444", address=1)
    assert [s.count for s in parse(report(few, many)).sites] == [9, 1]


def test_processes_of_one_program_add_up_and_other_programs_do_not() -> None:
    text = report(site(2, modulo16=[3])) + report(site(5, modulo16=[7, 3])) + report(site(1), program="other")
    found = parse(text)
    assert [(s.program, s.count, s.modulo16) for s in found.sites] == [
        ("kmscube", 7, (3, 7)),
        ("other", 1, (3,)),
    ]
    assert found.mappings == 6


def test_callers_of_one_instruction_stay_apart() -> None:
    other = site(1, caller=code(GALLIUM, 0x888, "u_upload_data", 4))
    assert len(parse(report(site(), other)).sites) == 2


def test_what_could_not_be_emulated_is_shown_as_the_programs_end() -> None:
    text = report(site(mnemonic="atomic load", emulated=False), signal=7)
    assert "atomic load (died)" in table(parse(text))
    assert parse(text).signals == {"kmscube": 7}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "left no report"),
        ("Bus error\n", "not JSON"),
        (report(site()).rsplit("\n", 2)[0] + "\n", "has no end"),
        (report(site())[: -len('{"end"')] + "\n", "not JSON"),
        (json.dumps({"site": site()}) + "\n", "belongs to no program"),
        (report({"object": LIBC}), "is no site"),
        ("[]\n", "is no object"),
    ],
)
def test_a_report_that_is_not_whole_is_the_labs_fault(text: str, what: str) -> None:
    with pytest.raises(HostError, match=what):
        parse(text)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=12))
def test_merging_loses_no_fault_and_leaves_each_place_once(faults: list[tuple[int, int]]) -> None:
    sites = parse(report(*(site(count, address=4 * place) for count, place in faults))).sites
    assert sum(s.count for s in sites) == sum(count for count, _ in faults)
    assert len(sites) == len({place for _, place in faults})
    assert merged([*sites, *sites]) == tuple(
        sorted(merged([*sites, *sites]), key=lambda s: (-s.count, s.code.address))
    )


def outcome(text: str, status: int) -> Outcome:
    return Outcome(parse(text), status, "no drm device found!\n")


def test_no_site_is_a_result_only_when_card_memory_was_mapped() -> None:
    assert judged(outcome(report(), 0)).report.sites == ()
    with pytest.raises(HostError, match=r"never mapped card memory.*no drm device found"):
        judged(outcome(report(mappings=0), 0))


def test_no_site_in_a_program_that_failed_proves_nothing() -> None:
    with pytest.raises(HostError, match="status 255"):
        judged(outcome(report(), 255))


def test_sites_are_a_result_however_the_program_ended() -> None:
    assert judged(outcome(report(site(), signal=7), 135)).report.faults == 3
