"""`python -m tfagents_x` is `tfagents-x`."""

from __future__ import annotations

from tfagents_x.cli.app import main

if __name__ == "__main__":
    main()
