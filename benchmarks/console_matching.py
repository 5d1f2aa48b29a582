"""Matching a console's text for many patterns: our channel against pexpect's default search.

pexpect searches all that came since the last match, so its cost grows; it is given a part of the same text,
and the rates (MB of text a second) are compared. Peak memory of ours is taken after a tenth and after all.
Example: python benchmarks/console_matching.py --megabytes 200
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sys
import time
from pathlib import Path

import pexpect.expect
import pexpect.spawnbase

sys.path.insert(0, str(Path(__file__).parents[1]))

from boardwright.console import patterns
from boardwright.console.channel import Channel
from boardwright.console.transcript import Transcript
from boardwright.console.watch import Watch

CHUNK = 4096
RARE = "bw-end-of-block 0123456789abcdef\n"


def text(size: int, seed: int = 1) -> bytes:
    """A kernel log of ``size`` bytes, lines of 40 to 110 characters; the rare line once in 256 KiB."""
    chance, lines, length, since = random.Random(seed), [], 0, 0
    words = [f"{w}{n}" for w in ("mmc", "usb ", "eth", "pci 0000:0", "clk-", "EXT4-fs ") for n in range(8)]
    while length < size:
        line = (
            f"[{length / 9e4:12.6f}] " + " ".join(chance.choices(words, k=chance.randrange(4, 12))) + "\r\n"
        )
        if since > 2**18:
            line, since = RARE, 0
        lines.append(line)
        length, since = length + len(line), since + len(line)
    return "".join(lines).encode()[:size]


def sixty() -> list[re.Pattern[str]]:
    """Sixty patterns a bring-up waits for: the console's own, and the names of checks."""
    own = [failure.pattern for failure in patterns._FAILURES]
    own += [pattern for _, _, pattern in patterns._MILESTONES]
    own += [patterns.LOGIN_PROMPT, patterns.PASSWORD_PROMPT, patterns.LOADER_PROMPT]
    own += [patterns.bounded(rf"check {n} (passed|failed) in \d{{1,6}} s") for n in range(60 - len(own) - 1)]
    return [*own, patterns.bounded(r"bw-end-of-block [0-9a-f]{16}\n")]


class Chunks:
    def __init__(self, block: bytes, times: int) -> None:
        self.block, self.left, self.at, self.now = block, times, 0, 0.0

    def read(self, seconds: float) -> bytes:
        if self.at >= len(self.block):
            self.at, self.left = 0, self.left - 1
        if self.left <= 0:
            self.now += seconds
            return b""
        data = self.block[self.at : self.at + CHUNK]
        self.at += CHUNK
        return data

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


def ours(block: bytes, times: int, wanted: list[re.Pattern[str]]) -> tuple[float, int]:
    """Seconds and matches: decoding, cleaning, watching every line for failures, and matching."""
    port = Chunks(block, times)
    channel = Channel(port, Transcript(None), Watch(), lambda: port.now)
    since, found = time.perf_counter(), 0
    while channel.find(wanted, 1.0):
        found += 1
    return time.perf_counter() - since, found


def matching_only(block: bytes, wanted: list[re.Pattern[str]]) -> float:
    """Seconds for the search alone, as pexpect is measured."""
    from boardwright.console.matcher import LONGEST_MATCH, Matcher

    matcher, tail, since = Matcher(wanted), "", time.perf_counter()
    for at in range(0, len(block), CHUNK):
        window = tail + block[at : at + CHUNK].decode()
        found = matcher.search(window)
        tail = window[found[1].end() :] if found else window[-LONGEST_MATCH:]
    return time.perf_counter() - since


def theirs(block: bytes, wanted: list[re.Pattern[str]]) -> tuple[float, int]:
    """Seconds and matches of pexpect's Expecter with its defaults (searchwindowsize None)."""
    spawn, found, at = pexpect.spawnbase.SpawnBase(encoding="utf-8"), 0, 0
    since = time.perf_counter()
    while True:
        expecter = pexpect.expect.Expecter(spawn, pexpect.expect.searcher_re(wanted))
        index = expecter.existing_data()
        while index is None and at < len(block):
            index = expecter.new_data(block[at : at + CHUNK].decode())
            at += CHUNK
        if index is None:
            return time.perf_counter() - since, found
        found += 1


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--pexpect-megabytes", type=float, default=1.0)
    asked = parser.parse_args()
    wanted = sixty()
    block = text(10 * 10**6)
    part = block[: int(asked.pexpect_megabytes * 10**6)]
    ours(block, 1, wanted)
    early = peak()
    seconds, found = ours(block, asked.megabytes // 10, wanted)
    late = peak()
    rate = asked.megabytes / seconds
    alone = 10 / matching_only(block, wanted)
    slow, matched = theirs(part, wanted)
    their_rate = len(part) / 1e6 / slow
    print(
        f"{len(wanted)} patterns, {asked.megabytes} MB, {found} matches; "
        f"pexpect: {len(part) / 1e6:g} MB, {matched}"
    )
    print(f"whole channel {rate:.2f} MB/s, its search alone {alone:.2f} MB/s, pexpect {their_rate:.3f} MB/s")
    print(
        f"ratio {rate / their_rate:.1f} (whole channel to pexpect's search), "
        f"{alone / their_rate:.1f} (search alone)"
    )
    print(f"peak memory after 10 MB {early:.0f} MiB, after all {late:.0f} MiB")


if __name__ == "__main__":
    main()
