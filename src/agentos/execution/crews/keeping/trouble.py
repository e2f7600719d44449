"""What is done about a team that crashes: try again, repair, begin anew, and then ask people.

    some crashes → again    too many in a short time → repair    again too many → renew    → give up

Whatever is done, the files of the team stay. Renewing forgets the agent's own state and its
conversation: what keeps it from starting may be there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

# So many crashes within this time are a loop.
LOOP_CRASHES = 3
LOOP_TIME = timedelta(minutes=5)

Step = Literal["again", "repair", "renew", "give_up"]


def next_step(crashes: int, repairs: int) -> Step:
    """After so many crashes within the time that makes a loop, and so many repairs before."""
    if crashes < LOOP_CRASHES:
        return "again"
    if repairs == 0:
        return "repair"
    return "renew" if repairs == 1 else "give_up"
