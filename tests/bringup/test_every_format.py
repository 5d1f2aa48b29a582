"""Every line that the drivers and programs can print stands in a log of ours, and every log is played.

A format is what a printing function prints, with ``%d`` for a number, ``%x`` for hexadecimal and ``%s``
for words. Of ``drivers/gpu/drm/radeon``, ``drivers/gpu/drm/amd/amdgpu`` and ``drivers/pci``, kernels 4.19 to
7.3; kmscube, glmark2 2021.12 and 2023.01, libdrm's modetest, kmsxx; AXERA's U-Boot, modules and runners.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from logs import LOGS

FORMATS = {
    "radeon": """
        [drm] ring test succeeded in %d usecs
        radeon: ring test failed (scratch(0x%x)=0x%x)
        [drm] ib test succeeded in %d usecs
        radeon: ib test failed (scratch(0x%x)=0x%x)
        [drm] ring test on %d succeeded in %d usecs
        radeon: ring %d test failed (scratch(0x%x)=0x%x)
        [drm] ib test on ring %d succeeded in %d usecs
        radeon: ring %d test failed (0x%x)
        radeon: ib test failed (0x%x)
        radeon 0000:01:00.0: [drm] ring test on 5 succeeded
        radeon 0000:01:00.0: [drm] *ERROR* radeon: ring 5 test failed (0x%x)
        radeon: fence wait failed (-%d).
        radeon: fence wait timed out.
        radeon: ring 7 test failed
        radeon: failed to get ib (-%d).
        radeon: failed to schedule ib (-%d).
        radeon: cp failed to get scratch reg (-%d).
        radeon: cp failed to lock ring %d (-%d).
        radeon: dma failed to lock ring %d (-%d).
        radeon: vce failed to lock ring %d (-%d).
        radeon: failed testing IB on GFX ring (-%d).
        radeon: failed testing IB on ring %d (-%d).
        ib ring test failed (-%d).
        UVD initialized successfully.
        VCE initialized successfully.
        UVD not responding, trying to reset the VCPU!!!
        UVD not responding, giving up!!!
        VCE not responding, trying to reset the ECPU!!!
        VCE not responding, giving up!!!
        failed VCE resume (-%d).
        failed initializing UVD (-%d).
        radeon: cp isn't working (-%d).
        failed initializing CP (-%d).
        Disabling GPU acceleration
        disabling GPU acceleration
        Fatal error during GPU init
        Fatal error during modeset init
        GPU lockup (current fence id 0x%x last fence id 0x%x on ring %d)
        ring %d stalled for more than %dmsec
        fence driver on ring %d use gpu addr 0x%x
        fence driver on ring %d use gpu addr 0x%x and cpu addr 0x%x
        fence driver on ring %d uses gpu addr 0x%x
        Initialized radeon 2.50.0 20080528 for 0000:01:00.0 on minor %d
        Initialized radeon 2.50.0 for 0000:01:00.0 on minor %d
        WB enabled
        WB disabled
        PCIE GART of %dM enabled (table at 0x%x).
        Loading %s Microcode
        Direct firmware load for radeon/%s failed with error -2
        radeon_cp: Failed to load firmware "radeon/%s"
        Failed to load firmware!
        radeon: dpm initialized""",
    "amdgpu": """
        [amdgpu]] *ERROR* ring %s test failed (-%d)
        [amdgpu]] ring test on %s succeeded
        [amdgpu]] *ERROR* IB test failed on %s (-%d).
        [amdgpu]] ib test on %s succeeded
        *ERROR* ib ring test failed (-%d).
        amdgpu 0000:01:00.0: amdgpu: ib ring test failed (-%d).
        amdgpu 0000:01:00.0: ib ring test failed (-%d).
        ring %s test pass
        ring %s ib test pass
        ring %s ib test failed (-%d)
        *ERROR* amdgpu: IB test timed out
        [drm] *ERROR* IB test timed out
        amdgpu: UVD ring test fail (-%d).
        [drm] *ERROR* UVD ring test failed (-%d).
        kiq ring test failed after ring: %s queue reset
        *ERROR* hw_init of IP block <%s> failed -%d
        amdgpu 0000:01:00.0: hw_init of IP block <%s> failed -%d
        sw_init of IP block <%s> failed -%d
        early_init of IP block <%s> failed -%d
        amdgpu_device_ip_init failed
        amdgpu: Fatal error during GPU init
        amdgpu: amdgpu: finishing device.
        amdgpu 0000:01:00.0: finishing device.
        *ERROR* ring %s timeout, signaled seq=%d, emitted seq=%d
        amdgpu: ring %s timeout, signaled seq=%d, emitted seq=%d
        ring %s timeout, but soft recovered
        *ERROR* Problem resizing BAR0 (-%d).
        amdgpu: Problem resizing BAR0 (-%d).
        Not enough PCI address space for a large BAR.
        amdgpu: ring %d test failed (scratch(0x%x)=0x%x)
        SI support provided by amdgpu.
        SI support provided by radeon.
        ring %s uses VM inv eng %d on hub %d
        register mmio base: 0x%x
        psp gfx command ID_LOAD_TOC
        failed to write reg %x wait reg %x""",
    "PCI": """
        BAR %d: no space for [mem
        BAR %d: failed to assign [mem
        BAR %d [mem size 0x%x 64bit pref]: can't assign; no space
        BAR %d [mem size 0x%x 64bit pref]: failed to assign
        bridge window [mem size 0x%x 64bit pref]: failed to assign
        phy lock failed
        probe of %s failed with error -110
        probe with driver rockchip-dw-pcie failed with error -110""",
    "pictures": """
        Using display 0x%x with EGL version %d.%d
        renderer: "%s
        Using modifier %x
        Modifiers failed!
        Rendered %d frames in %d.%d sec (%d.%d fps)
        no connected connector!
        could not find mode!
        no drm device found!
        could not open drm device
        failed to set mode: %s
        failed to queue page flip: %s
        Failed to get a new framebuffer BO
        failed to initialize legacy DRM
        failed to initialize atomic DRM
        no atomic modesetting support: %s
        select timeout!
        failed to commit: %s
        user interrupted!
        Bus error
        glmark2 2021.12
        glmark2 2023.01
        GL_RENDERER:
        Surface Size:   %dx%d fullscreen
        FPS: %d FrameTime: %d.%d ms
        <default>: %set up failed
        Unsupported
        Validation: Failure
        (User: %d.%d ms, System: %d.%d ms) CpuBusy: %d%
        ShaderCompTime: %d.%d ms
        <default>: done
        glmark2 Score: %d
        ** Failed to set swap interval
        Failed to become DRM master
        trying to open device 'radeon'...done
        trying to open device 'radeon'...failed
        main: All ok!
        Connector %d/@%d: %s
        press enter to exit
        Connector %d: fps 59.95, slowest %d.%d ms
        Connector %d: fps 59.951234, slowest %d.%d ms
        setting mode %dx%d-%d.%dHz on connectors %d, crtc %d
        freq: %d.%dHz
        failed to page flip: %s
        failed to add fb (%dx%d): %s
        select timed out or error (ret %d)
        trying to open device '/dev/dri/card0'... done
        trying to open device '/dev/dri/card0'... failed
        is not a KMS device
        opened device `""",
    "AX650N": """
        AX650N_CHIP
        AX650N_Demo
        ADP_RX_DPHY_4X4LANE
        boot_reason:0
        28000000: 0, 30E00000: 1
        enter normal boot mode
        boot from emmc
        reading dtb image header
        verify dtb image_header success
        load kernel image addr
        bootargs not found in env
        [Axera version]: ax_cmm V%s
        PARTITION: Phys(0x%x, 0x%x), Size=%dKB(%dMB),    NAME="%s"
        nBlock(Max=%d, Cur=%d, New=%d, Free=%d)
        Block: phys(0x%x, 0x%x), cache =%s, length=%dKB(%dMB),    name="%s"
        total size=%dKB(%dMB),used=%dKB(%dMB + %dKB),remain=%dKB(%dMB + %dKB),partition_number=1
        partition_number=2,block_number=%d
        Ax_Version V%s
        utilization:%d%
        Run AxModel:
        type: NPU1
        type: 3 Core
        cmm size: %d Bytes
        min =   %d.%d ms   max =   %d.%d ms   avg =   %d.%d ms
        median =   %d.%d ms
        95% =   %d.%d ms
        init post axmodel ok,remain_cmm(%d MB)
        LLM init ok
        ttft: %d.%d ms
        hit eos,avg %d.%d token/s
        hit eos,decode avg %d.%d token/s
        AX_ENGINE_CreateHandle
        init axmodel(%s) failed
        [W][
        prompt >>""",
}
_PLACES = {"%d": r"\d+", "%x": "[0-9a-fA-F]+", "%s": r"\S.*?"}
TEXTS = {path.name: path.read_text() for path in sorted(LOGS.iterdir())}


@pytest.mark.parametrize(
    "format_", [line.strip() for text in FORMATS.values() for line in text.splitlines() if line.strip()]
)
def test_a_log_has_it(format_: str) -> None:
    parts = re.split("(%[dxs])", format_)
    wanted = re.compile("".join(_PLACES.get(part, re.escape(part)) for part in parts))
    assert any(wanted.search(text) for text in TEXTS.values()), wanted.pattern


def test_every_log_is_played() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in TEXTS if f'"{name}"' not in tests and f"'{name}'" not in tests] == []
