"""A plot of leases per second and latency as SVG, written by hand: a few lines and numbers need no library."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench.leasing import CLIENTS, Series

WIDTH, HEIGHT = 960, 400
_TOP, _BOTTOM = 60, 340
_PANELS = ((70, 450), (560, 940))
_COLOURS = {"durable": "#0b6e4f", "in_memory": "#8a8a8a", "redis": "#c0392b"}
_NAMES = {
    "durable": "lease broker (durable)",
    "in_memory": "in memory (not durable)",
    "redis": "Redis, appendfsync always",
}
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}"
    ".grid{stroke:#ddd}.line{fill:none;stroke-width:2}.thin{fill:none;stroke-width:1.5;stroke-dasharray:5 4}"
)


@dataclass(frozen=True)
class _Panel:
    """A logarithmic field of the plot: number of clients to the right, a value upwards."""

    left: int
    right: int
    lowest: float
    highest: float

    def x(self, clients: int) -> float:
        share = math.log(clients / CLIENTS[0]) / math.log(CLIENTS[-1] / CLIENTS[0])
        return self.left + 20 + share * (self.right - self.left - 40)

    def y(self, value: float) -> float:
        share = math.log(max(value, self.lowest) / self.lowest) / math.log(self.highest / self.lowest)
        return _BOTTOM - share * (_BOTTOM - _TOP)

    def frame(self, title: str) -> list[str]:
        parts = [f'<text class="title" x="{self.left}" y="{_TOP - 14}">{escape(title)}</text>']
        decade = self.lowest
        while decade <= self.highest * 1.001:
            y = self.y(decade)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{decade:g}</text>')
            decade *= 10
        for clients in CLIENTS:
            parts.append(f'<text x="{self.x(clients):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{clients}</text>')
        middle = (self.left + self.right) / 2
        return [*parts, f'<text x="{middle}" y="{_BOTTOM + 36}" text-anchor="middle">clients</text>']

    def line(self, values: Mapping[int, float], colour: str, kind: str = "line") -> list[str]:
        points = " ".join(f"{self.x(clients):.1f},{self.y(value):.1f}" for clients, value in values.items())
        dots = [
            f'<circle cx="{self.x(clients):.1f}" cy="{self.y(value):.1f}" r="3" fill="{colour}">'
            f"<title>{clients} clients: {value:.4g}</title></circle>"
            for clients, value in values.items()
        ]
        return [f'<polyline class="{kind}" stroke="{colour}" points="{points}"/>', *dots]


def write(series: Mapping[str, Series], path: Path) -> None:
    """Write the plot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(series))


def svg(series: Mapping[str, Series]) -> str:
    """Return the plot: leases per second on the left, p50 and p99 of an acquire on the right."""
    rates = _panel(0, [value for one in series.values() for value in one.per_second.values()])
    times = _panel(1, [value for one in series.values() for value in (*one.p50.values(), *one.p99.values())])
    parts = [*rates.frame("leases per second"), *times.frame("acquire, ms: p50 solid, p99 dashed")]
    for place, (side, one) in enumerate(series.items()):
        colour = _COLOURS[side]
        parts += [*rates.line(one.per_second, colour), *times.line(one.p50, colour)]
        parts += times.line(one.p99, colour, "thin")
        x = 70 + place * 220
        parts.append(f'<rect x="{x}" y="12" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="24">{_NAMES[side]}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Leases per second and latency">\n'
        f'<style>{_STYLE}</style>\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _panel(number: int, values: Sequence[float]) -> _Panel:
    left, right = _PANELS[number]
    lowest = 10.0 ** math.floor(math.log10(min(values)))
    return _Panel(left, right, lowest, max(10.0 ** math.ceil(math.log10(max(values))), lowest * 10))
