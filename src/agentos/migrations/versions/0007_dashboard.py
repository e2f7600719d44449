"""What the dashboard asks for often: the sessions of one team."""

from agentos.migrations.script import run_script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
