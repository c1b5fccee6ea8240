"""Prints the table of a training job's keys for docs/training.md: `python tools/config_table.py`."""

from __future__ import annotations

from long_context.train.config_fields import FIELDS


def markdown_table() -> str:
    """A Markdown table with one row per field of `TrainConfig`."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for field in FIELDS.values():
        meaning = field.help
        if field.choices:
            meaning += f" One of {', '.join(f'`{choice}`' for choice in field.choices if choice)}."
        lines.append(f"| `{field.key}` | {_default(field.default)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if value is None:
        return "preset's"
    if value == "":
        return "–"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


if __name__ == "__main__":
    print(markdown_table(), end="")
