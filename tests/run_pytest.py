"""Runs pytest on the files given: the `main` of every Bazel test target."""

from __future__ import annotations

import sys

import pytest

if __name__ == "__main__":
    # Bazel's folder of inputs is read-only, so pytest must not keep a cache in it.
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
