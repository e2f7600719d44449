"""Models: providers, fallback chains, prices, the ledger, usage."""

from agentos.migrations.script import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_script(__file__, "up")


def downgrade() -> None:
    run_script(__file__, "down")
