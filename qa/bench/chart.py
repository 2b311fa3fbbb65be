"""Line charts as SVG, readable on light and dark pages, without any library. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 280, 44, 52
COLOURS = ("#2f7ed8", "#d9642a", "#2e9e5b", "#9a5cc9", "#c9a227", "#c43d5d", "#3aa6a6", "#7d8a99")
STYLE = """
text { font: 12px sans-serif; fill: #444 } .title { font-size: 14px; font-weight: bold }
.axis { stroke: #888; stroke-width: 1 } .grid { stroke: #888; stroke-opacity: .22; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #ccc } }
"""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """Values of one dimension → a number from 0 to 1, and the ticks."""

    low: float
    high: float
    is_log: bool

    @classmethod
    def of(cls, values: Sequence[float], *, is_log: bool) -> Axis:
        if is_log:
            positive = [value for value in values if value > 0] or [1.0]
            first, last = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
            return cls(first, max(last, first + 1), True)
        low, high = min([0.0, *values]), max(values, default=1.0)
        step = _step(high - low or 1.0)
        return cls(math.floor(low / step) * step, max(math.ceil(high / step) * step, step), False)

    def place(self, value: float) -> float:
        number = math.log10(max(value, 10**self.low)) if self.is_log else value
        return (number - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.is_log:
            whole = [10.0**power for power in range(int(self.low), int(self.high) + 1)]
            # Of one or two decades the ends alone tell little.
            between = [tick * factor for tick in whole[:-1] for factor in (2, 5)] if len(whole) <= 4 else []
            return sorted([*whole, *between])
        step = _step(self.high - self.low)
        return [self.low + step * number for number in range(round((self.high - self.low) / step) + 1)]


def _step(span: float) -> float:
    """A round number, about a fifth of the span."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * 5 >= span)


def _text(value: float) -> str:
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:g}"


def chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Points],
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """An SVG document with a line for each series, which the legend names in the order of their last values."""
    points = [point for several in series.values() for point in several]
    x_axis = Axis.of([x for x, _ in points], is_log=log_x)
    y_axis = Axis.of([y for _, y in points], is_log=log_y)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(value: float) -> float:
        return LEFT + x_axis.place(value) * width

    def y_of(value: float) -> float:
        return TOP + (1 - y_axis.place(value)) * height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
        f'<text x="{LEFT + width / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="{LEFT}" y="{TOP - 8}" text-anchor="end">{escape(y_label)}</text>',
    ]
    for tick in y_axis.ticks():
        y = y_of(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + width}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_text(tick)}</text>')
    for tick in x_axis.ticks():
        x = x_of(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + height}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + height + 18}" text-anchor="middle">{_text(tick)}</text>')
    parts.append(f'<path class="axis" fill="none" d="M{LEFT},{TOP}V{TOP + height}H{LEFT + width}"/>')
    order = sorted(series, key=lambda name: -series[name][-1][1] if series[name] else 0)
    for row, name in enumerate(order):
        colour = COLOURS[list(series).index(name) % len(COLOURS)]
        line = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in series[name])
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        if len(series[name]) <= 30:
            parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in series[name]]
        at = TOP + 12 + row * 20
        parts.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{at - 9}" width="12" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{at}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
