"""PostgreSQL on one machine, or on two of which the second is a synchronous standby."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from qa.deploy.machines import MGMT, Failed, Machine, wait_for

INSTALL = """
cd /etc/postgresql/*/main
cat >conf.d/test.conf <<END
listen_addresses = '*'
wal_level = replica
hot_standby = on
max_connections = 200
shared_buffers = 32MB
tcp_keepalives_idle = 5
tcp_keepalives_interval = 2
tcp_keepalives_count = 3
tcp_user_timeout = 10s
wal_receiver_timeout = 10s
wal_sender_timeout = 10s
END
echo 'host all,replication all {network} scram-sha-256' >>pg_hba.conf
systemctl start postgresql@$(ls /etc/postgresql)-main
"""
FOLLOW = """
version=$(ls /etc/postgresql)
systemctl stop postgresql@$version-main
rm -rf /var/lib/postgresql/$version/main
echo "{primary}:5432:*:replicator:{password}" >/var/lib/postgresql/.pgpass
chown postgres: /var/lib/postgresql/.pgpass
chmod 600 /var/lib/postgresql/.pgpass
runuser -u postgres -- pg_basebackup -h {primary} -U replicator -D /var/lib/postgresql/$version/main -R -X stream -c fast
systemctl start postgresql@$version-main
"""
REPLICAS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
PROMOTE = "pg_ctlcluster $(ls /etc/postgresql) main promote"


@dataclass(eq=False)
class Databases:
    """`machines`: the primary, and then its standby."""

    machines: Sequence[Machine]
    password: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def url(self) -> str:
        """Of both: it stays when they change their roles."""
        hosts = "&".join(sorted(f"host={machine.address}:5432" for machine in self.machines))
        return f"postgresql+psycopg://neutrino:{self.password}@/neutrino?{hosts}&target_session_attrs=read-write"

    def start(self) -> None:
        first, *others = self.machines
        first.shell(INSTALL.format(network=MGMT))
        self._sql(first, f"CREATE USER neutrino PASSWORD '{self.password}'")
        self._sql(first, "CREATE DATABASE neutrino OWNER neutrino")
        for other in others:
            self._sql(first, f"CREATE USER replicator REPLICATION PASSWORD '{self.password}'")
            other.shell(INSTALL.format(network=MGMT))
            self.follow()

    @property
    def standby(self) -> Machine:
        return self.machines[1]

    def follow(self) -> None:
        """Make the second machine a synchronous standby of the first one, with a copy of its data."""
        primary, standby = self.machines
        standby.shell(FOLLOW.format(primary=primary.address, password=self.password))
        wait_for("the standby", 60, lambda: self._sql(primary, REPLICAS) == "1")
        # The primary's alone, so not before the copy: the standby has none after it is promoted.
        self._sql(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._sql(primary, "SELECT pg_reload_conf()")

    def fail_over(self) -> None:
        """What a failover manager does: the primary is switched off, then the standby is promoted."""
        primary, standby = self.machines
        primary.kill()
        standby.shell(PROMOTE)
        if self._sql(standby, "SELECT pg_is_in_recovery()") != "f":
            raise Failed("the standby was not promoted")
        self.machines = (standby, primary)

    @staticmethod
    def _sql(machine: Machine, statement: str) -> str:
        words = ("runuser", "-u", "postgres", "--", "psql", "--no-psqlrc", "-qAtc", statement)
        return machine.run(*words).strip()
