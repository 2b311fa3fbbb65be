"""What all roles run on: feed, reports, queues, namespaces, daemons, the switch. It imports no role and no extension."""
