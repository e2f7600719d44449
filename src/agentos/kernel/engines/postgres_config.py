"""The configuration of the embedded PostgreSQL: small when idle, quick enough under load."""

from __future__ import annotations

from pathlib import Path

# No host lines and no trust: every connection comes through the socket with a password.
HBA = "local all all scram-sha-256\n"

_SETTINGS = {
    "max_connections": "120",
    "shared_buffers": "64MB",
    "effective_cache_size": "512MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "jit": "off",
    "random_page_cost": "1.1",
    "io_method": "sync",  # no idle I/O workers; our reads are small and cached
    "max_worker_processes": "4",
    "max_parallel_workers_per_gather": "1",
    "max_logical_replication_workers": "0",  # each would be a process for nothing
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",  # bounds the replay after a crash to a few seconds
    "min_wal_size": "80MB",
    "autovacuum": "on",
    "autovacuum_worker_slots": "4",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    # Statements, their parameters and the rows in error details may hold secrets.
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}

_WITHOUT_DURABILITY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def configuration(*, hba_file: Path, durable: bool) -> str:
    """The text of the configuration file. ALTER SYSTEM overrides any of it."""
    settings = {"hba_file": str(hba_file), **_SETTINGS, **({} if durable else _WITHOUT_DURABILITY)}
    lines = [f"{name} = {_quote(value)}" for name, value in settings.items()]
    return "\n".join(["# Written by AgentOS at every start. Use ALTER SYSTEM instead.", *lines, ""])


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
