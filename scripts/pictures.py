"""Draw the pictures of the documents: `python scripts/pictures.py` writes docs/pictures/*.svg.

A picture is a list of boxes and arrows on a grid. `scripts/recordings.py` draws the terminals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLUMN, ROW, WIDTH, HEIGHT = 190, 96, 160, 56
COLOURS: Final = {"plain": "#eef2f7", "good": "#dcf2e2", "bad": "#f9dedc", "open": "#fdf1d3"}


@dataclass(frozen=True)
class Box:
    """A labelled rectangle at a place of the grid. `lines`: its text, one line each."""

    column: float
    row: float
    lines: tuple[str, ...]
    colour: str = "plain"


@dataclass(frozen=True)
class Picture:
    """Boxes by name, and arrows `(from, to, label)` between names."""

    title: str
    boxes: dict[str, Box]
    arrows: Sequence[tuple[str, str, str]] = field(default=())

    def svg(self) -> str:
        """Return the picture as an SVG document."""
        width = max(box.column for box in self.boxes.values()) * COLUMN + WIDTH + 40
        height = max(box.row for box in self.boxes.values()) * ROW + HEIGHT + 40
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            'font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#566"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        ]
        parts += [self._arrow(*arrow) for arrow in self.arrows]
        parts += [_drawn(box) for box in self.boxes.values()]
        return "\n".join([*parts, "</svg>", ""])

    def _arrow(self, start: str, end: str, label: str) -> str:
        a, b = _middle(self.boxes[start]), _middle(self.boxes[end])
        (x1, y1), (x2, y2) = _edge(a, b), _edge(b, a)
        line = f'<path d="M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}" stroke="#566" fill="none" marker-end="url(#tip)"/>'
        if not label:
            return line
        return (
            f'{line}\n<text x="{(x1 + x2) / 2 + 5:.0f}" y="{(y1 + y2) / 2 - 5:.0f}" fill="#566">{escape(label)}</text>'
        )


def _middle(box: Box) -> tuple[float, float]:
    return 20 + box.column * COLUMN + WIDTH / 2, 20 + box.row * ROW + HEIGHT / 2


def _edge(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Return the point where the line from the middle `a` to `b` leaves the box around `a`."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    scale = min(WIDTH / 2 / abs(dx) if dx else 9.0, HEIGHT / 2 / abs(dy) if dy else 9.0)
    return a[0] + dx * scale, a[1] + dy * scale


def _drawn(box: Box) -> str:
    x, y = 20 + box.column * COLUMN, 20 + box.row * ROW
    first = y + HEIGHT / 2 + 5 - 8 * (len(box.lines) - 1)
    texts = "".join(
        f'<text x="{x + WIDTH / 2:.0f}" y="{first + 16 * n:.0f}" text-anchor="middle">{escape(line)}</text>'
        for n, line in enumerate(box.lines)
    )
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{COLOURS[box.colour]}" '
        f'stroke="#566"/>{texts}'
    )


PICTURES: Final = {
    "check": Picture(
        "How a check works",
        {
            "agent": Box(0, 0, ("agent", "proposes an action")),
            "engine": Box(1.3, 0, ("Readback", "contract, ledger")),
            "tool": Box(2.9, 0, ("tool", "acts")),
            "system": Box(2.9, 1.3, ("system of record",)),
            "reader": Box(1.3, 1.3, ("reader", "a separate path")),
            "outcome": Box(0, 1.3, ("outcome", "the only report"), "good"),
        },
        (
            ("agent", "engine", ""),
            ("engine", "tool", "key, stamp"),
            ("tool", "system", "effect?"),
            ("system", "reader", "reading"),
            ("reader", "engine", "compare"),
            ("engine", "outcome", ""),
        ),
    ),
    "lifecycle": Picture(
        "The main path of an action's states",
        {
            "proposed": Box(0, 0, ("proposed",)),
            "validated": Box(1.2, 0, ("validated",)),
            "executing": Box(2.4, 0, ("executing",)),
            "pending": Box(3.6, 0, ("pending",), "open"),
            "committed": Box(3.6, 1.2, ("committed",), "open"),
            "success": Box(3.6, 2.4, ("reconciled", "success"), "good"),
            "failed": Box(0.6, 1.2, ("failed",), "bad"),
            "unknown": Box(2.1, 1.2, ("unknown",), "open"),
            "contradicted": Box(2.1, 2.4, ("reconciliation", "failed"), "bad"),
            "compensating": Box(0.6, 2.4, ("compensating",), "open"),
            "compensated": Box(0.6, 3.4, ("compensated",), "plain"),
            "review": Box(2.1, 3.4, ("review required",), "open"),
        },
        (
            ("proposed", "validated", ""),
            ("validated", "executing", ""),
            ("executing", "pending", ""),
            ("pending", "committed", ""),
            ("committed", "success", ""),
            ("committed", "contradicted", ""),
            ("validated", "failed", ""),
            ("executing", "unknown", ""),
            ("pending", "unknown", ""),
            ("unknown", "contradicted", ""),
            ("contradicted", "compensating", ""),
            ("contradicted", "review", ""),
            ("compensating", "compensated", ""),
        ),
    ),
    "house": Picture(
        "The house: imports point down",
        {
            "cli": Box(0, 0, ("cli", "people")),
            "client": Box(1.2, 0, ("client", "programs")),
            "gateway": Box(2.4, 0, ("gateway, hooks", "agents")),
            "bootstrap": Box(1.2, 1, ("bootstrap", "composition root")),
            "drivers": Box(0, 2, ("drivers", "effects of the engine")),
            "outside": Box(2.4, 2, ("systems, stores,", "adapters")),
            "engine": Box(0, 3, ("engine", "stages of an action")),
            "ports": Box(1.2, 3, ("ports", "promises")),
            "domain": Box(1.2, 4, ("domain", "values, tables")),
            "canon": Box(1.2, 5, ("canon, log", "bytes, digests")),
        },
        (
            ("cli", "bootstrap", ""),
            ("client", "bootstrap", ""),
            ("gateway", "bootstrap", ""),
            ("bootstrap", "drivers", ""),
            ("bootstrap", "outside", ""),
            ("drivers", "engine", ""),
            ("outside", "ports", ""),
            ("engine", "domain", ""),
            ("ports", "domain", ""),
            ("domain", "canon", ""),
        ),
    ),
}


def drawn() -> dict[str, str]:
    """Return every picture by name."""
    return {name: picture.svg() for name, picture in PICTURES.items()}


def main() -> int:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawn().items():
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
