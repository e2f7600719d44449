"""Functions that commit steps of several sessions in one statement."""

from agentos.migrations.script import run_script

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
