from __future__ import annotations

from agentos.kernel.errors import Invalid, NotFound


class PostActionNotFound(NotFound):
    """There is no such post-action."""

    code = "post_action_not_found"


class BadPostAction(Invalid):
    """The post-action cannot be made."""

    code = "bad_post_action"
