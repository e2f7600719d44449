"""Workspaces: snapshots of the files that sessions work on."""

from agentos.migrations.script import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
