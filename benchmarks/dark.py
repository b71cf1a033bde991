"""Writes the figures of docs/ for dark pages, beside those for light ones.

python benchmarks/dark.py docs/figures/*.png    # figure3.png gives figure3-dark.png

The screenshot of the dashboard is left out: it is no drawing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nalu_ray.results.output.figures import DARK, for_dark_page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="+", type=Path)
    for path in parser.parse_args().figures:
        if not path.name.endswith(DARK) and path.stem != "dashboard":
            written = path.with_name(path.stem + DARK)
            written.write_bytes(for_dark_page(path.read_bytes()))
            print(f"{written}: {written.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
