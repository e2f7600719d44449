"""Alembic's entry point; it is always called by agentos.kernel.schema with a live connection."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
