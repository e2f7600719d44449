"""The logs of teams: what they lived through, and what their agent CLIs printed."""

from agentos.migrations.script import run_script

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
