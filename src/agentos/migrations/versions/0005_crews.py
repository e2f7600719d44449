"""Crews: teams, their messages, schedules, webhooks, runs, post-actions."""

from agentos.migrations.script import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
