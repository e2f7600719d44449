"""Events as clients see them: one ordered stream per tenant, with history before it."""
