"""Which disks there are, and every reason why one is not written to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_sysfs import MIB, Host

from boardwright.errors import ExitStatus, InputError
from boardwright.flash import choose, devices


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    made.disk("mmcblk0", "179:0", device__serial="0x1a2b3c4d", device__name="SC32G", device__type="SD")
    return made


def only(host: Host, needed: int = 0) -> devices.Device:
    (found,) = [d for d in devices.found(host.root, needed) if d.name in ("mmcblk0", "sda")]
    return found


def test_a_card_is_described_and_may_be_written(host: Host) -> None:
    host.partition(host.root / "sys/block/mmcblk0", "mmcblk0p1", "179:1")
    host.udev("179:0", ID_PART_TABLE_TYPE="gpt")
    host.udev("179:1", ID_FS_TYPE="vfat", ID_FS_LABEL="BOOT")
    assert devices.found(host.root, 64 * MIB) == [
        devices.Device(
            "mmcblk0", "179:0", 64 * MIB, "SC32G", "0x1a2b3c4d", "sd", False, "7",
            ("gpt partition table", "mmcblk0p1: vfat BOOT"),
        )
    ]  # fmt: skip


def test_a_usb_disk_has_the_serial_number_of_its_usb_device(tmp_path: Path) -> None:
    host = Host(tmp_path)
    real = tmp_path / "sys/devices/usb1/1-2"
    host.disk("sda", "8:0", removable="1", device__model="Ultra").rename(tmp_path / "moved")
    (real / "block").mkdir(parents=True)
    (real / "idVendor").write_text("0781\n")
    (real / "serial").write_text("4C530001\n")
    (tmp_path / "moved").rename(real / "block/sda")
    (tmp_path / "sys/block/sda").symlink_to(real / "block/sda")
    found = only(host)
    assert (found.serial, found.bus, found.removable, found.refusals) == ("4C530001", "usb", True, ())


def test_memory_volumes_and_empty_drives_are_no_disks(host: Host) -> None:
    for index, name in enumerate(("zram0", "dm-0", "md127", "sr0", "loop0", "mmcblk0boot0")):
        host.disk(name, f"250:{index}", 0 if name == "loop0" else MIB)
    assert [device.name for device in devices.found(host.root)] == ["mmcblk0"]


def part(host: Host) -> Path:
    return host.partition(host.root / "sys/block/mmcblk0", "mmcblk0p1", "179:1")


def mounted(host: Host) -> None:
    part(host)
    host.mount("179:1", "/dev/mmcblk0p1", "/media/my\\040card")


def mounted_btrfs(host: Host) -> None:
    part(host)
    host.mount("0:44", "/dev/mmcblk0p1", "/data")


def swapped(host: Host) -> None:
    part(host)
    host.swap("/dev/mmcblk0p1")


def luks(host: Host) -> None:
    host.holds(host.disk("dm-0", "253:0", dm__uuid="CRYPT-LUKS2-ab-home", dm__name="home"), part(host))
    host.mount("253:0", "/dev/mapper/home", "/home")


def lvm(host: Host) -> None:
    host.holds(host.disk("dm-0", "253:0", dm__uuid="LVM-abc", dm__name="vg-root"), part(host))


def raid(host: Host) -> None:
    host.holds(host.disk("md0", "9:0", md__level="raid1"), part(host))


def root_on_luks_on_lvm(host: Host) -> None:
    volume = host.disk("dm-0", "253:0", dm__uuid="LVM-abc", dm__name="vg-root")
    opened = host.disk("dm-1", "253:1", dm__uuid="CRYPT-LUKS2-x", dm__name="root")
    host.holds(volume, part(host))
    host.holds(opened, volume)
    host.mount("253:1", "/dev/mapper/root", "/")


def idle_member(host: Host) -> None:
    host.udev("179:0", ID_FS_TYPE="linux_raid_member")


def read_only(host: Host) -> None:
    (host.root / "sys/block/mmcblk0/ro").write_text("1\n")


REFUSED = {
    mounted: "mmcblk0p1 is mounted at /media/my card",
    mounted_btrfs: "mmcblk0p1 is mounted at /data",
    swapped: "mmcblk0p1 is swap space in use",
    luks: "mmcblk0p1 is mounted through dm-0 at /home; mmcblk0p1 is held by LUKS home",
    lvm: "mmcblk0p1 is held by LVM vg-root",
    raid: "mmcblk0p1 is held by md RAID md0",
    root_on_luks_on_lvm: "it carries the running system",
    idle_member: "it holds a part of md RAID",
    read_only: "it is read-only",
}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_refused(host: Host, make: object) -> None:
    make(host)  # type: ignore[operator]
    assert REFUSED[make] in "; ".join(only(host).refusals)  # type: ignore[index]
    with pytest.raises(InputError, match="is not written to") as raised:
        choose.choose("0x1a2b3c4d", {}, devices.found(host.root))
    assert raised.value.exit_status == ExitStatus.INPUT


def test_too_small(host: Host) -> None:
    assert only(host, 64 * MIB).refusals == ()
    (reason,) = only(host, 64 * MIB + 1).refusals
    assert reason == "it is too small: 67108864 bytes, the image has 67108865"


def test_a_declared_name_a_serial_number_and_yes(host: Host) -> None:
    found = devices.found(host.root)
    by_name = choose.choose("sd", {"sd": "0x1a2b3c4d"}, found)
    assert (by_name.path, by_name.declared, by_name.word) == (Path("/dev/mmcblk0"), True, "3c4d")
    choose.confirm(by_name, True, None)
    by_serial = choose.choose("0x1a2b3c4d", {}, found)
    with pytest.raises(InputError, match=r"--yes: the serial number of .* is not in local.yaml"):
        choose.confirm(by_serial, True, None)
    with pytest.raises(InputError, match="nobody is there to confirm"):
        choose.confirm(by_serial, False, None)
    with pytest.raises(InputError, match="expected '3c4d', found 'y'; nothing was written"):
        choose.confirm(by_serial, False, "y\n")
    choose.confirm(by_serial, False, "3c4d\n")


@pytest.mark.parametrize(
    ("to", "said", "hint"),
    [
        ("sd", "does not say which device that is", "could be written: /dev/mmcblk0 .SC32G, 0.1 GB, sd"),
        ("", "where to", "could be written"),
        ("0x1a2b3c4e", "no device with serial number 0x1a2b3c4e", "0x1a2b3c4d"),
        ("/dev/no-such-disk", "there is no /dev/no-such-disk", "could be written"),
        ("/nowhere/x.img", "there is no /nowhere/x.img", "could be written"),
        ("/dev/null", "found /dev/null, which is neither", None),
        ("/tmp/", "found /tmp, which is neither", None),
    ],
)
def test_no_such_target(host: Host, to: str, said: str, hint: str | None) -> None:
    with pytest.raises(InputError, match=said) as raised:
        choose.choose(to, {}, devices.found(host.root))
    if hint:
        assert raised.value.hint is not None
        assert re.search(hint, raised.value.hint)


def test_two_devices_of_one_serial_number(host: Host) -> None:
    host.disk("mmcblk1", "179:8", device__serial="0x1a2b3c4d")
    with pytest.raises(InputError, match="2 devices have serial number"):
        choose.choose("0x1a2b3c4d", {}, devices.found(host.root))


def test_a_file_is_confirmed_only_when_something_is_lost(tmp_path: Path) -> None:
    target = choose.choose(str(tmp_path / "new.img"), {}, [])
    assert (target.device, target.word) == (None, "")
    target.path.write_bytes(b"x")
    assert target.word == "new.img"
