"""Pulse: sessions, their journal, checkpoints, approvals, chains, workers; tool policies."""

from agentos.migrations.script import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
