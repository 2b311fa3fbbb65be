"""OpenFlow tables of a bridge: reading them and changing them in one step."""
