"""For tools that still ask for a setup.py. Everything is in pyproject.toml."""

from setuptools import setup

setup()
