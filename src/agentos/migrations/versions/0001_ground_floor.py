"""Tenants, people, vault, audit, events, the edge, objects."""

from agentos.migrations.script import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
