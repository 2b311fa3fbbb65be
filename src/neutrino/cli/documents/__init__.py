"""Documents that are generated from the command line's parsers: man pages and shell completion."""
