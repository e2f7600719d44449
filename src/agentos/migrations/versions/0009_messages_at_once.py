"""A message to a team is one statement."""

from agentos.migrations.script import run_script

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
