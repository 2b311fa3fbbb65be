"""The server's end of the feed: what changed, who is concerned, and what they are told."""
