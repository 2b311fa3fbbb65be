"""A RabbitMQ broker for the tests."""

import base64
import hashlib
import json
import secrets
import shutil
import socket
from pathlib import Path

from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer

# Debian's /usr/sbin/rabbitmq-server switches to its own user and directories; this one uses the given ones.
_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
VHOSTS = ("/", "metering", "notifications")  # of modules of tests that use queues by the names of Neutron


class RabbitMQ(TemporaryServer):
    """`with RabbitMQ() as broker:` runs a broker at `broker.url`; it has some more virtual hosts."""

    name = "rabbitmq"
    users = ("rabbitmq",)

    def __init__(self, *, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.host = host
        self.port = free_port()
        self.user = "neutrino"
        self.password = secrets.token_hex(16)

    @property
    def url(self) -> str:
        return self.at("/")

    def at(self, vhost: str) -> str:
        """The URL of a virtual host, one of VHOSTS."""
        return f"amqp://{self.user}:{self.password}@{self.host}:{self.port}/{vhost}"

    def start(self) -> None:
        epmd = shutil.which("epmd")
        if epmd is None or not _SERVER.exists():
            raise RuntimeError("RabbitMQ is not installed: run scripts/setup test")
        epmd_port = free_port()
        # Erlang would start a port mapper (epmd) that outlives the broker: run one in the foreground instead.
        self.spawn(
            [epmd, "-address", "127.0.0.1", "-port", str(epmd_port)],
            {"ERL_EPMD_RELAXED_COMMAND_CHECK": "1"},
            ready=lambda: listening(epmd_port),
        )
        config = self.write(
            "rabbitmq.conf",
            f"listeners.tcp.1 = {self.host}:{self.port}\n"
            f"load_definitions = {self.write('definitions.json', json.dumps(self._definitions()))}\n"
            "log.console = true\n"
            "log.file = false\n"
            # On a small disk the default limit would block publishers.
            "disk_free_limit.absolute = 1MB\n",
        )
        self.write(".erlang.cookie", secrets.token_hex(16)).chmod(0o400)
        self.spawn(
            [_SERVER],
            {
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "ERL_EPMD_PORT": str(epmd_port),
                "RABBITMQ_NODENAME": f"neutrino-{self.port}@localhost",
                "RABBITMQ_DIST_PORT": str(free_port()),
                "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                "RABBITMQ_CONFIG_FILE": str(config),
                "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.write("advanced.config", "[].\n")),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.write("enabled_plugins", "[].\n")),
                "RABBITMQ_MNESIA_BASE": str(self.mkdir("mnesia")),
                "RABBITMQ_LOG_BASE": str(self.mkdir("log")),
                "RABBITMQ_LOGS": "-",
                "RABBITMQ_PID_FILE": str(self.directory / "rabbitmq.pid"),
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
                # Makes the script exec the broker, so that the pid is that of the broker itself.
                "RUNNING_UNDER_SYSTEMD": "true",
            },
            ready=self._ready,
        )

    def _definitions(self) -> dict[str, object]:
        salt = secrets.token_bytes(4)
        digest = base64.b64encode(salt + hashlib.sha256(salt + self.password.encode()).digest()).decode()
        access = {"user": self.user, "configure": ".*", "write": ".*", "read": ".*"}
        return {
            "users": [{"name": self.user, "password_hash": digest, "tags": "administrator"}],
            "vhosts": [{"name": name} for name in VHOSTS],
            "permissions": [{"vhost": name, **access} for name in VHOSTS],
        }

    def _ready(self) -> bool:
        """The broker opens its port last; it is ready once it responds to the protocol header."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as sock:
                sock.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(sock.recv(1))
        except OSError:
            return False
