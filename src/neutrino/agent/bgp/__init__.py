"""The BGP role: FRR's bgpd announces the routes of the speaker that is scheduled to this host."""
