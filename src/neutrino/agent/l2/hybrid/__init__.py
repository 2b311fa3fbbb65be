"""Security groups of ports that are plugged through a Linux bridge of their own."""
