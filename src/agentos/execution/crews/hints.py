"""How the keepers of teams are told that something has changed."""

# A hint, not an order: its data is the id of a team that was changed, or one of its messages.
CHANGED_SUBJECT = "platform.crews.changed"
