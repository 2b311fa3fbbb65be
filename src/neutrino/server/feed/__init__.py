"""The server side of the feed: change log, records, subscriptions, fan-out, sessions, reports."""
