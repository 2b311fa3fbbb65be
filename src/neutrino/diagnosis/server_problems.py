"""Problems of servers: database, processes, listeners, Keystone."""

from typing import Final

from neutrino.diagnosis.problems import WARNING, Problem, declared

# --- database ---------------------------------------------------------------------------------------------------------

DATABASE_UNREACHABLE = Problem(
    "database-unreachable",
    "The server cannot start, and a running one answers requests with 503.",
    "Start the database, and check [database] connection: address, user and password.",
)
DATABASE_READ_ONLY = Problem(
    "database-read-only",
    "Requests that change something wait for a failover, and then get 503. Reads, and the traffic of instances, continue.",
    "Promote the standby, or have [database] connection name the primary: on PostgreSQL all hosts, with "
    "target_session_attrs=read-write (docs/databases.md).",
)
DATABASE_MISSING = Problem(
    "database-missing",
    "A new server creates a SQLite file at its start, and an empty schema in an empty database; objects that existed are "
    "not there.",
    "If this server has run before, correct [database] connection or restore the backup. Else start the server, for "
    "SQLite, or create the database first: CREATE DATABASE.",
)
DATABASE_FILE_READ_ONLY = Problem(
    "database-file-read-only",
    "Requests that change something are answered with 503. Reads, and the traffic of instances, continue.",
    "Give the server's user write access to {path} and its directory, or mount the file system read-write.",
)
SCHEMA_OLD = Problem(
    "schema-old",
    "The server upgrades the schema at its start, or refuses to start with auto_upgrade = false.",
    "Make a backup, then run neutrino db upgrade.",
)
SCHEMA_NEW = Problem(
    "schema-new",
    "A newer release has upgraded this database; this release refuses to start on it.",
    "Install that release here too, or restore the backup from before its upgrade.",
)
SCHEMA_DIFFERS = Problem(
    "schema-differs",
    "Requests may fail on columns that are missing.",
    "Run the same release on all servers, then neutrino db upgrade.",
)
DATABASE_SLOW = Problem(
    "database-slow",
    "Every request takes several round trips, so the API is slow.",
    "Move the server close to its database, or reduce the database's load.",
    WARNING,
)
DATABASE_DAMAGED = Problem(
    "database-damaged",
    "The SQLite file is damaged: rows may be lost, and writes may fail.",
    "Stop the server and restore the last backup.",
)
QUOTA_WRONG = Problem(
    "quota-counter-wrong",
    "The project is refused objects too early, or may have too many.",
    "Run neutrino db recount; the server may run meanwhile.",
    WARNING,
)
ADDRESS_DUPLICATE = Problem(
    "address-duplicate",
    "Two ports have the same address on one network: packets reach either of them.",
    "Delete one of the ports, or give it another address.",
)
CLOCK_DATABASE = Problem(
    "clock-skew-database",
    "Servers with different clocks disagree on which agents are alive.",
    "Synchronize the clocks of both machines (chrony, systemd-timesyncd).",
    WARNING,
)

# --- processes and listeners ------------------------------------------------------------------------------------------

PROCESS_SILENT = Problem(
    "server-process-silent",
    "It was killed, hangs, or cannot reach the database; its server may be down.",
    "Look at the server's log on {server}. If it is gone for good, its row is removed within an hour.",
)
FEED_STOPPED = Problem(
    "feed-not-running",
    "Hosts receive no changes and their reports are lost: new ports stay DOWN.",
    "Set [feed] run = true on a server, or run neutrino feed.",
)
RELEASES_DIFFER = Problem(
    "releases-differ",
    "Accepted during an upgrade; features of the newer release depend on which server responds.",
    "Complete the upgrade of all servers.",
    WARNING,
)
DRIVER_NOT_READY = Problem(
    "driver-not-ready",
    "Changes that the driver has to take part in are refused (MechanismDriverError), and it binds no port.",
    "See the reason, and the log of {server} for more: often the equipment or its controller is away, or the driver's "
    "options are wrong. It is tried again every 30 s; one that hangs needs a restart of the server.",
)
SERVICE_PROBLEM = Problem(
    "service-problem", "As stated by neutrino status, which has the whole list.", "As stated by neutrino status."
)
API_SILENT = Problem(
    "api-not-listening",
    "No client reaches the API on this machine.",
    "Start the server (neutrino server, or its systemd unit) and look at its log.",
    WARNING,
)
FEED_SILENT = Problem(
    "feed-not-listening",
    "No host reaches the feed on this machine: changes do not reach the hosts.",
    "Start the feed: [feed] run = true for the server, or neutrino feed.",
    WARNING,
)
KEYSTONE_UNREACHABLE = Problem(
    "keystone-unreachable",
    "Tokens cannot be validated: requests are answered with 503 or 401.",
    "Start Keystone, and check [keystone_authtoken] auth_url.",
)

PROBLEMS: Final = declared(globals())
