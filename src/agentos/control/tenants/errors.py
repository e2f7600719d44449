from __future__ import annotations

from agentos.kernel.errors import Conflict


class SlugTaken(Conflict):
    """Another tenant has this slug."""

    code = "slug_taken"
    hint = "Choose another slug; it becomes part of the tenant's addresses, so it must be unique."
