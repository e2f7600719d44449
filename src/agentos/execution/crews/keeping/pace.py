"""How patient keepers are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    # A hint that got lost, or a worker that died, delays a team by this much at most.
    poll: float = 3.0
    # How often a keeper whose agent is at work looks for what no hint has told it.
    look: float = 5.0
    # After this much silence people are told, and after that much the place is started again.
    silent: float = 15.0
    gone: float = 60.0
    # From the start of a place to the first word of its sidecar.
    first_word: float = 120.0
    # For the answer at hand when a team is to stop.
    grace: float = 10.0
    # From then to the end of the place.
    farewell: float = 2.0
    # Until what failed is tried again.
    again: float = 1.0
    back_off: float = 5.0
    # A place that has run for so long was repaired.
    sound: float = 300.0
    # From the last answer to the snapshot of its files: most conversations go on before that.
    keep_files: float = 30.0
    # How often a runtime that was missing is looked for.
    missing: float = 60.0
