"""Temperatures, clocks and governors, read before a rate is judged.

The text is ``grep -H .`` over sysfs: ``PATH:VALUE`` lines of ``thermal_zone*/{type,temp}`` (millidegrees),
``cpufreq/policy*/{scaling_governor,scaling_cur_freq,cpuinfo_max_freq}`` (kHz) and
``devfreq/*/{governor,cur_freq,max_freq}`` (Hz); kernel documentation ``ABI/testing/sysfs-class-*``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines, whole

COMMAND = (
    "grep -H . /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp "
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor "
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq "
    "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq "
    "/sys/class/devfreq/*/governor /sys/class/devfreq/*/cur_freq /sys/class/devfreq/*/max_freq 2>/dev/null"
)
HOT = 80.0
"""Degrees Celsius; RK3588's NPU is capped from 85 on (vendor's ``rk3588s.dtsi``)."""
_LINE = re.compile(r"^/sys/[\w/]{1,60}/([\w.:-]{1,60})/(\w{1,40}):(.{1,60})$")


@dataclass(frozen=True, slots=True)
class Clock:
    """``now`` and ``most`` in hertz."""

    name: str
    governor: str
    now: int | None
    most: int | None

    @property
    def share(self) -> float:
        """Of the highest frequency; 1 when it is not known."""
        return self.now / self.most if self.now and self.most else 1.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """``temperatures``: degrees Celsius by zone."""

    temperatures: dict[str, float]
    clocks: tuple[Clock, ...]

    @property
    def hottest(self) -> float | None:
        return max(self.temperatures.values(), default=None)

    def problems(self) -> list[str]:
        """Why a rate measured now would say little; empty: nothing speaks against it."""
        found = [f"{zone} is at {t:.0f} degrees" for zone, t in self.temperatures.items() if t >= HOT]
        for clock in self.clocks:
            if clock.governor in ("powersave", "conservative"):
                found.append(f"{clock.name} has the governor {clock.governor}")
            elif clock.governor == "performance" and clock.share < 0.95:
                found.append(f"{clock.name} runs at {clock.share:.0%} of its highest frequency")
        return found


def parse(text: bytes | str) -> Conditions:
    values: dict[str, dict[str, str]] = {}
    for line in lines(text):
        if (hit := _LINE.match(line)) and (len(values) < 1000 or hit[1] in values):
            values.setdefault(hit[1], {})[hit[2]] = hit[3].strip()
    temperatures = {}
    clocks = []
    for name, have in values.items():
        degrees = whole(have.get("temp", ""))
        if degrees is not None and degrees < 1_000_000:
            temperatures[have.get("type", name)] = degrees / 1000
        elif "scaling_governor" in have:
            now, most = whole(have.get("scaling_cur_freq", "")), whole(have.get("cpuinfo_max_freq", ""))
            clocks.append(Clock(name, have["scaling_governor"], _times(now, 1000), _times(most, 1000)))
        elif "governor" in have:
            now, most = whole(have.get("cur_freq", "")), whole(have.get("max_freq", ""))
            clocks.append(Clock(name, have["governor"], now, most))
    return Conditions(temperatures, tuple(clocks))


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
