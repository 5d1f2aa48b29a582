"""``extlinux.conf`` as U-Boot reads it (U-Boot 2025.01 ``boot/pxe_utils.c``): the entry it would boot."""

from __future__ import annotations

from dataclasses import dataclass, field

from boardwright.errors import Place, ProductError

PATH = "/extlinux/extlinux.conf"


@dataclass(frozen=True, slots=True)
class Entry:
    """One label: paths in the boot partition, and the kernel command line with blanks folded."""

    label: str
    kernel: str
    initrd: str | None
    append: str


@dataclass(slots=True)
class _Label:
    line: int
    words: dict[str, str] = field(default_factory=dict)


def default_entry(text: str, file: str = PATH) -> Entry:
    """The default label, or else the first. Raises ``ProductError`` with the line that is missing."""
    default, labels = "", dict[str, _Label]()
    current: _Label | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        key, _, value = line.strip().partition(" ")
        key, value = key.lower(), value.strip()
        if key == "default":
            default = value
        elif key == "label":
            current = labels[value] = _Label(number)
        elif key and not key.startswith("#") and current is not None:
            current.words[{"linux": "kernel"}.get(key, key)] = value
    name = default if default in labels else next(iter(labels), "")
    if not name:
        raise ProductError("expected at least one 'label'", place=Place(file))
    chosen = labels[name]
    if "kernel" not in chosen.words:
        raise ProductError(f"label {name!r} names no kernel", place=Place(file, chosen.line))
    words = chosen.words
    return Entry(name, words["kernel"], words.get("initrd"), " ".join(words.get("append", "").split()))
