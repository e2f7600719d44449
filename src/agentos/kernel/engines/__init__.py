"""The embedded engines: real PostgreSQL and real NATS, supervised as child processes."""
