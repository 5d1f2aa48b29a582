"""The USB cable as a port: pyusb itself on a backend of ours, that is a board in download mode."""

from __future__ import annotations

import array
import errno
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packages import RAW_ROOTFS, made

from boardwright.console.errors import ConsoleLost
from boardwright.errors import BoardwrightError, HostError
from boardwright.vendor import axdl_usb
from boardwright.vendor.axdl import Patience, download
from boardwright.vendor.axdl_simulator import Faults, SimulatedBoard, Vanished
from boardwright.vendor.axera_package import Package

usb = pytest.importorskip("usb.core", reason="pyusb is not installed")
backends = pytest.importorskip("usb.backend")


class Backend(backends.IBackend):  # type: ignore[misc, name-defined]
    """One configuration, one interface, two bulk endpoints; ``product``, ``boards``: what is there."""

    def __init__(self, board: SimulatedBoard, product: int = axdl_usb.PRODUCT, boards: int = 1) -> None:
        self.board, self.product, self.boards = board, product, boards
        self.denied = self.short = self.claimed = False
        self._answers = b""

    def enumerate_devices(self) -> Iterator[int]:
        yield from range(self.boards)

    def get_device_descriptor(self, dev: int) -> Any:
        return SimpleNamespace(
            bLength=18, bDescriptorType=1, bcdUSB=0x200, bDeviceClass=0xFF, bDeviceSubClass=0,
            bDeviceProtocol=0, bMaxPacketSize0=64, idVendor=axdl_usb.VENDOR, idProduct=self.product,
            bcdDevice=0x100, iManufacturer=0, iProduct=0, iSerialNumber=0, bNumConfigurations=1,
            address=dev, bus=1, port_number=1, port_numbers=(1,), speed=3,
        )  # fmt: skip

    def get_configuration_descriptor(self, _dev: int, _config: int) -> Any:
        return SimpleNamespace(
            bLength=9, bDescriptorType=2, wTotalLength=32, bNumInterfaces=1, bConfigurationValue=1,
            iConfiguration=0, bmAttributes=0x80, bMaxPower=50, extra_descriptors=[],
        )  # fmt: skip

    def get_interface_descriptor(self, _dev: int, intf: int, _alt: int, _config: int) -> Any:
        if intf or _alt:
            raise IndexError
        return SimpleNamespace(
            bLength=9, bDescriptorType=4, bInterfaceNumber=0, bAlternateSetting=0, bNumEndpoints=2,
            bInterfaceClass=0xFF, bInterfaceSubClass=0, bInterfaceProtocol=0, iInterface=0,
            extra_descriptors=[],
        )  # fmt: skip

    def get_endpoint_descriptor(self, _dev: int, ep: int, _intf: int, _alt: int, _config: int) -> Any:
        return SimpleNamespace(
            bLength=7, bDescriptorType=5, bEndpointAddress=(0x01, 0x81)[ep], bmAttributes=2,
            wMaxPacketSize=512, bInterval=0, bRefresh=0, bSynchAddress=0, extra_descriptors=[],
        )  # fmt: skip

    def open_device(self, dev: int) -> int:
        if self.denied:
            raise usb.USBError("Access denied", None, errno.EACCES)
        return dev

    def close_device(self, _dev_handle: int) -> None: ...

    def get_configuration(self, _dev_handle: int) -> int:
        return 1

    def claim_interface(self, _dev_handle: int, _intf: int) -> None:
        self.claimed = True

    def release_interface(self, _dev_handle: int, _intf: int) -> None:
        self.claimed = False

    def bulk_write(self, _dev_handle: int, ep: int, _intf: int, data: Any, _timeout: int) -> int:
        assert (ep, self.claimed) == (0x01, True)
        try:
            self._answers += self.board.feed(bytes(data))
        except Vanished:
            raise usb.USBError("No such device", None, errno.ENODEV) from None
        return len(data) - self.short

    def bulk_read(self, _dev_handle: int, ep: int, _intf: int, buff: array.array[int], _timeout: int) -> int:
        assert (ep, self.claimed) == (0x81, True)
        if not self._answers:
            raise usb.USBTimeoutError("Operation timed out", None, errno.ETIMEDOUT)
        data, self._answers = self._answers[: len(buff)], self._answers[len(buff) :]
        buff[: len(data)] = array.array("B", data)
        return len(data)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes pyusb find a backend's boards."""
    find = usb.find

    def plug(backend: Backend) -> Backend:
        monkeypatch.setattr(usb, "find", lambda **which: find(backend=backend, **which))
        return backend

    return plug


def test_a_package_reaches_the_board_over_usb(tmp_path: Path, plugged: Any) -> None:
    board = SimulatedBoard()
    backend = plugged(Backend(board))
    port = axdl_usb.UsbPort()
    with Package(made(tmp_path)) as package:
        download(port, package)
    port.close()
    assert board.partitions["rootfs"] == RAW_ROOTFS
    assert not backend.claimed


def test_a_board_that_is_unplugged_is_an_error_that_says_where(tmp_path: Path, plugged: Any) -> None:
    plugged(Backend(SimulatedBoard(Faults(vanish_after=50_000))))
    words = r"writing UBOOT.*the board went away.*USB connection went away"
    with Package(made(tmp_path)) as package, pytest.raises(BoardwrightError, match=words):
        download(axdl_usb.UsbPort(), package, patience=Patience(answer=0.2, flash=0.2))


def test_a_silent_board_is_read_as_nothing(plugged: Any) -> None:
    plugged(Backend(SimulatedBoard()))
    assert axdl_usb.UsbPort().read(0.01) == b""


def test_a_short_write_is_an_error(plugged: Any) -> None:
    plugged(Backend(SimulatedBoard())).short = True
    with pytest.raises(ConsoleLost, match="the board took 2 of 3 bytes"):
        axdl_usb.UsbPort().write(b"<<<")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"boards": 0}, r"no board in download mode on USB \(32c9:1000\) in 0 s"),
        ({"product": 1}, "no board in download mode"),
        ({"boards": 2}, "expected one board in download mode, found 2"),
    ],
)
def test_no_board_or_several_are_told_apart(plugged: Any, options: dict[str, int], words: str) -> None:
    plugged(Backend(SimulatedBoard(), **options))
    with pytest.raises(HostError, match=words) as raised:
        axdl_usb.UsbPort()
    assert raised.value.hint


def test_a_board_that_may_not_be_opened_names_the_rule(plugged: Any) -> None:
    plugged(Backend(SimulatedBoard())).denied = True
    with pytest.raises(HostError, match=r"does not open: .*Access denied") as raised:
        axdl_usb.UsbPort()
    assert "udev rule" in str(raised.value.hint)


def test_a_host_without_libusb_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: object) -> None:
        raise usb.NoBackendError("No backend available")

    monkeypatch.setattr(usb, "find", none)
    with pytest.raises(HostError, match="libusb is not installed"):
        axdl_usb.UsbPort()
