"""Credentials of deleted teams are refused by the bus."""

from agentos.migrations.script import run_script

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
