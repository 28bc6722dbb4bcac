"""The lease broker's client: many small operations, few updates of the workflow."""
