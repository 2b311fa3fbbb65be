"""Long runs with faults: killed servers, agents and switches, failovers of databases, a soak."""
