"""The agent CLIs that teams are driven with: which versions, and how they come onto a machine."""
