"""Plots as SVG text for the report: lines of samples, bars of stages. No script, nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 160, 64, 24
_LABEL = 14
_MOST = 1e15
"""What is more than this, or not a number, is no measurement."""
_COLOURS = ("#2f6f9f", "#b8642a", "#4f8f4f", "#8a5a9f", "#9f8a2f", "#5f5f5f")


def line(title: str, samples: Sequence[float], unit: str) -> str:
    """Samples in order, from zero up, with the lowest and highest beside where there is room, and their count
    below; empty for less than two."""
    finite = [value for value in samples if abs(value) < _MOST]
    if len(finite) < 2:
        return ""
    top = max([*finite, 1e-9]) * 1.1
    plot_width, plot_height = _WIDTH - _LEFT - 12, _HEIGHT - _BOTTOM - 12
    points = " ".join(
        f"{_LEFT + plot_width * i / (len(finite) - 1):.1f},{12 + plot_height * (1 - max(v, 0) / top):.1f}"
        for i, v in enumerate(finite)
    )
    rows = [
        f'<line x1="{_LEFT}" y1="{_y(v, top):.1f}" x2="{_WIDTH - 12}" y2="{_y(v, top):.1f}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{_y(v, top) + 4:.1f}" text-anchor="end">{v:.4g}</text>'
        for v in _apart((0.0, max(finite), min(finite)), top)
    ]
    rows += [
        f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{number}</text>'
        for x, anchor, number in ((_LEFT, "start", 1), (_WIDTH - 12, "end", len(finite)))
    ]
    label = f"{title}: {min(finite):.4g} to {max(finite):.4g} {unit}"
    body = (
        "".join(rows) + f'<polyline points="{points}" fill="none" stroke="{_COLOURS[0]}" stroke-width="2"/>'
    )
    return _svg(label, body, _HEIGHT)


def stages(title: str, parts: Sequence[tuple[str, float]]) -> str:
    """Seconds of each stage as one bar cut in pieces, with a legend; empty without any."""
    known = [(name, seconds) for name, seconds in parts if 0 < seconds < _MOST]
    total = sum(seconds for _, seconds in known)
    if total <= 0:
        return ""
    x, pieces, legend = 12.0, [], []
    for index, (name, seconds) in enumerate(known):
        colour = _COLOURS[index % len(_COLOURS)]
        width = (_WIDTH - 24) * seconds / total
        pieces.append(f'<rect x="{x:.1f}" y="12" width="{width:.1f}" height="28" fill="{colour}"/>')
        row = 60 + 18 * index
        legend.append(
            f'<rect x="12" y="{row - 10}" width="12" height="12" fill="{colour}"/>'
            f'<text x="30" y="{row}">{escape(name)} {seconds:.2f} s</text>'
        )
        x += width
    return _svg(f"{title}: {total:.1f} s", "".join(pieces + legend), 60 + 18 * len(known))


def bars(title: str, values: Sequence[tuple[str, float]], unit: str) -> str:
    """One bar a name, such as the scenes of a benchmark; empty without any."""
    known = [(name, value) for name, value in values if 0 <= value < _MOST]
    if not known:
        return ""
    top = max([value for _, value in known] + [1e-9])
    rows = []
    for index, (name, value) in enumerate(known):
        y = 12 + 20 * index
        width = (_WIDTH - 340) * value / top
        rows.append(
            f'<text x="236" y="{y + 12}" text-anchor="end">{escape(name[:38])}</text>'
            f'<rect x="244" y="{y}" width="{width:.1f}" height="15" fill="{_COLOURS[0]}"/>'
            f'<text x="{250 + width:.1f}" y="{y + 12}">{value:.4g} {escape(unit)}</text>'
        )
    return _svg(title, "".join(rows), 20 + 20 * len(known))


def _apart(values: Sequence[float], top: float) -> list[float]:
    """Of ``values``, those whose labels do not run into an earlier one's."""
    kept: list[float] = []
    for value in values:
        if all(abs(_y(value, top) - _y(other, top)) >= _LABEL for other in kept):
            kept.append(value)
    return kept


def _y(value: float, top: float) -> float:
    return 12 + (_HEIGHT - _BOTTOM - 12) * (1 - max(value, 0) / top)


def _svg(label: str, body: str, height: int) -> str:
    return (
        f'<figure><figcaption>{escape(label)}</figcaption><svg role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">{body}</svg></figure>'
    )
