"""Files that daemons read: configurations, hosts, options, and what they leave behind."""
