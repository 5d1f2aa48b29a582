"""The USB cable to a board in download mode, as a port: two bulk endpoints of 32c9:1000 (axdl-rs,
``axdl/src/transport/usb.rs``). pyusb and libusb are needed only here.
"""

from __future__ import annotations

import importlib
import time
from types import ModuleType
from typing import Any

from boardwright.console.errors import ConsoleLost
from boardwright.errors import HostError

VENDOR, PRODUCT = 0x32C9, 0x1000
_OUT, _IN = 0x01, 0x81
_LARGEST_READ = 65536
_WRITE_MS = 60_000
"""The loader takes nothing while it writes flash."""
_POLL_SECONDS = 0.2


class UsbPort:
    """The one board in download mode on this host. Raises ``HostError`` when there is none, or several."""

    def __init__(self, wait: float = 0.0) -> None:
        """``wait``: seconds in which it may appear."""
        self._usb = _library()
        self._device = self._claimed(self._found(wait))

    def read(self, seconds: float) -> bytes:
        try:
            return bytes(self._device.read(_IN, _LARGEST_READ, max(1, int(seconds * 1000))))
        except self._usb.core.USBTimeoutError:
            return b""
        except self._usb.core.USBError as error:
            raise _lost(error) from error

    def write(self, data: bytes) -> None:
        try:
            sent = self._device.write(_OUT, data, _WRITE_MS)
        except self._usb.core.USBError as error:
            raise _lost(error) from error
        if sent != len(data):
            raise ConsoleLost(f"the board took {sent} of {len(data)} bytes over USB")

    def close(self) -> None:
        self._usb.util.dispose_resources(self._device)

    def _found(self, wait: float) -> Any:
        end = time.monotonic() + wait
        while True:
            try:
                found = list(self._usb.core.find(find_all=True, idVendor=VENDOR, idProduct=PRODUCT))
            except self._usb.core.NoBackendError as error:
                raise HostError("libusb is not installed", hint="apt install libusb-1.0-0") from error
            if len(found) == 1:
                return found[0]
            if found:
                raise HostError(
                    f"expected one board in download mode, found {len(found)}", hint="unplug others"
                )
            if time.monotonic() >= end:
                raise HostError(
                    f"no board in download mode on USB ({VENDOR:04x}:{PRODUCT:04x}) in {wait:g} s",
                    hint="hold BOOT and tap RST; the cable belongs in the lower USB-A beside the HDMI",
                )
            time.sleep(_POLL_SECONDS)

    def _claimed(self, device: Any) -> Any:
        try:
            self._usb.util.claim_interface(device, 0)
        except self._usb.core.USBError as error:
            raise HostError(
                f"the board on USB does not open: {error}",
                hint='may this user open it? A udev rule for 32c9:1000 with TAG+="uaccess" allows it',
            ) from error
        return device


def _library() -> ModuleType:
    """pyusb's package, with what is used of it. Most users of boardwright never plug in such a cable."""
    try:
        for name in ("usb.core", "usb.util"):
            importlib.import_module(name)
    except ImportError as error:
        raise HostError("pyusb is not installed", hint="./bootstrap installs it") from error
    return importlib.import_module("usb")


def _lost(error: Exception) -> ConsoleLost:
    return ConsoleLost(
        f"the board's USB connection went away: {error}", hint="a board that was reset or lost its power"
    )
