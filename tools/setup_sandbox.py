"""Installs bubblewrap, which runs agents' commands apart from this machine. Standard library only.

Usage: python3 tools/setup_sandbox.py
Does nothing where it is installed. Where it cannot be installed it says how to, and goes on:
AgentOS then uses Landlock, or refuses to run commands.
"""

from __future__ import annotations

import sys

import debian

if __name__ == "__main__":
    sys.exit(debian.ensure("bwrap", "bubblewrap", without="No sandbox"))
