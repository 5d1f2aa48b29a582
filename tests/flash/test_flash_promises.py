"""What may go wrong with a flash, item by item, and the test that has it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROMISES = {
    "mounted target": "devices:test_refused:mounted",
    "mounted, as the kernel says": "loop:test_a_mounted_disk_is_refused_twice",
    "swap": "devices:test_refused:swapped",
    "LVM member": "devices:test_refused:lvm",
    "LUKS member": "devices:test_refused:luks",
    "md member": "devices:test_refused:raid",
    "the root disk's parent": "devices:test_refused:root_on_luks_on_lvm",
    "read-only": "devices:test_refused:read_only",
    "too small": "devices:test_too_small",
    "a link in place of the disk": "opening:test_no_link_is_followed",
    "swapped between confirm and open": "opening:test_another_card_between_confirm_and_open",
    "another disk behind the descriptor": "opening:test_what_was_opened_is_another_disk",
    "swapped on a board": "boarddisk:test_another_medium_in_the_reader_while_one_was_asked",
    "removed between confirm and open": "opening:test_a_card_that_was_pulled_out_after_it_was_confirmed",
    "removal while it is written": "faults:test_a_card_that_is_pulled_out",
    "power cut at any write": "faults:test_power_cut_at_every_write_and_resumed",
    "EIO on one range": "faults:test_a_range_that_cannot_be_written_is_tried_twice_and_named",
    "EIO on reading": "faults:test_a_range_that_cannot_be_read_back_is_named",
    "silent corruption, once": "faults:test_a_block_that_was_corrupted_once_is_written_again",
    "silent corruption, for good": "faults:test_a_block_that_stays_corrupt_is_named",
    "silent corruption, on a block device": "loop:"
    "test_a_block_that_the_disk_kept_wrong_is_found_and_written_again",
    "EIO of a block device": "loop:test_a_disk_that_cannot_read_part_of_it_is_read_twice_and_written_again",
    "a block device that is full": "loop:test_a_disk_with_less_room_than_it_says",
    "stale data in holes": "loop:test_it_is_written_and_no_stale_byte_is_left_between",
    "bmaptool's maps": "source:test_a_map_that_bmaptool_made",
    "a pipe that nobody reads": "opening:test_progress_that_nobody_reads_leaves_no_card_half_written",
    "stale data": "faults:test_stale_bytes_are_gone_where_a_partition_table_would_be_looked_for",
    "a card that lies about capacity": "faults:test_a_card_that_claims_more_than_it_holds",
    "image truncated": "source:test_an_image_shorter_than_its_map",
    "map of another image": "source:test_the_map_of_another_image",
    "compressed stream cut": "source:test_a_truncated_archive_is_called_truncated",
    "nothing wrong reaches the medium": "source:test_a_damaged_range_never_reaches_the_medium",
    "short writes": "short:test_a_disk_that_takes_a_little_at_a_time",
    "a full medium": "short:test_a_medium_that_is_full",
    "Ctrl-C": "opening:test_ctrl_c_ends_at_once_and_the_next_run_goes_on",
    "only the chosen disk is opened for writing, as the kernel saw it": "opening:"
    "test_the_kernel_saw_nothing_but_the_chosen_disk_opened_for_writing",
    "only the chosen file is written": "opening:"
    "test_nothing_but_the_chosen_file_and_our_own_record_is_opened_for_writing",
}


@pytest.mark.parametrize("promise", PROMISES)
def test_there_is_a_test_of(promise: str) -> None:
    room, name, *case = PROMISES[promise].split(":")
    tree = ast.parse((HERE / f"test_flash_{room}.py").read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name, *case} <= names
