"""Installs Debian's Chromium, with which the tests use the dashboard. Standard library only.

Usage: python3 tools/setup_browser.py
Does nothing where it is installed. Where it cannot be installed it says how to, and goes on.
"""

from __future__ import annotations

import sys

import debian

if __name__ == "__main__":
    sys.exit(debian.ensure("chromium", "chromium", without="No browser for the tests"))
