"""What the word in a failed ring or IB test says.

Kernel 7.3 ``r600.c`` and ``r600_dma.c``: the driver writes 0xCAFEDEAD by MMIO (scratch register; DMA rings:
a word in RAM), asks the ring to write 0xDEADBEEF, and polls up to 100 ms (``RADEON_MAX_USEC_TIMEOUT``).
"""

from __future__ import annotations

FORMAT = r"\((?:scratch\(0x([0-9A-Fa-f]{1,8})\)=)?0x([0-9A-Fa-f]{1,8})\)"
"""The value as both drivers print it. Groups: the scratch register's offset, when it is of one; the value."""
UNTOUCHED, WANTED, ALL_ONES = 0xCAFEDEAD, 0xDEADBEEF, 0xFFFFFFFF
_ERRNO = {
    -2: "ENOENT: firmware missing", -5: "EIO", -12: "ENOMEM",
    -22: "EINVAL: a wrong value was read, or the ring is not ready",
    -35: "EDEADLK: the driver found the GPU hung", -62: "ETIME",
    -110: "ETIMEDOUT: the ring did not answer in time", -114: "EALREADY",
}  # fmt: skip


def explain(value: int | None, *, register: bool) -> str:
    """The likely cause, as far as a value shows it. ``register``: a scratch register, not a word in RAM."""
    if value is None:
        return "the driver prints no value for this ring"
    if value == UNTOUCHED and register:
        return (
            "MMIO works and the card never executed the ring: it does not see the ring's memory "
            "(no snooping, a wrong DMA address), or its firmware does not run"
        )
    if value == UNTOUCHED:
        return (
            "the word in RAM is untouched: the card never wrote it, or the CPU reads a stale cache line "
            "(PCIe without snooping)"
        )
    if value == ALL_ONES:
        return (
            "reads give all ones: the card does not answer on the bus (link down, BAR not assigned, no power)"
        )
    if value == 0 and register:
        return "the scratch register reads 0: it is not implemented (an emulated card) or held in reset"
    if value == 0:
        return "the word in RAM is 0: not even the driver's own first value is there"
    if value == WANTED:
        return "the right value came, after the driver had given up: slow, not deaf"
    return "neither the first value nor the wanted one: memory corruption, or another writer"


def explain_code(code: int) -> str:
    """A negative errno as the driver prints it."""
    return _ERRNO.get(code, f"error {code}")
