"""A host's disks as files: what the kernel and udev say, under a directory of the test's."""

from __future__ import annotations

from pathlib import Path

MIB = 2**20


class Host:
    """``root`` is what ``devices.found`` takes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts: list[str] = []
        (root / "sys/block").mkdir(parents=True)
        (root / "sys/dev/block").mkdir(parents=True)
        self._write("proc/swaps", "Filename Type Size Used Priority\n")
        self._write("proc/self/mountinfo", "")

    def disk(self, name: str, number: str, size: int = 64 * MIB, **files: str) -> Path:
        """``files``: further files of its sysfs directory, ``device__model`` for ``device/model``."""
        given = {"dev": number, "size": str(size // 512), "ro": "0", "removable": "0", "diskseq": "7"}
        for file, text in {**given, **files}.items():
            self._write(f"sys/block/{name}/{file.replace('__', '/')}", text + "\n")
        return self._known(self.root / "sys/block" / name, number)

    def partition(self, disk: Path, name: str, number: str) -> Path:
        for file, text in (("dev", number), ("partition", "1"), ("size", "2048")):
            self._write(f"sys/block/{disk.name}/{name}/{file}", text + "\n")
        return self._known(disk / name, number)

    def holds(self, holder: Path, part: Path) -> None:
        for directory, link, target in ((part, "holders", holder), (holder, "slaves", part)):
            (directory / link).mkdir(exist_ok=True)
            (directory / link / target.name).symlink_to(target)

    def mount(self, number: str, source: str, point: str) -> None:
        self.mounts.append(f"22 1 {number} / {point} rw shared:1 - ext4 {source} rw\n")
        self._write("proc/self/mountinfo", "".join(self.mounts))

    def swap(self, source: str) -> None:
        with (self.root / "proc/swaps").open("a") as file:
            file.write(f"{source} partition 1024 0 -2\n")

    def udev(self, number: str, **values: str) -> None:
        self._write(f"run/udev/data/b{number}", "".join(f"E:{k}={v}\n" for k, v in values.items()))

    def _known(self, directory: Path, number: str) -> Path:
        (self.root / "sys/dev/block" / number).symlink_to(directory)
        return directory

    def _write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
