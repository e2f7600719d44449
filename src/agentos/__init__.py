"""AgentOS: the operating system for autonomous AI agents."""

__version__ = "0.1.0"
