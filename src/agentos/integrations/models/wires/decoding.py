"""What can go wrong when others' JSON is decoded."""

from __future__ import annotations

import msgspec

# Not JSON, or not of the expected shape; not UTF-8; nested so deeply that it is an attack.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
