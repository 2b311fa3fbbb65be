"""What the server tells its neighbours after a change: notifications on a message bus, and events to Nova."""
