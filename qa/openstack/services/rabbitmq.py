"""RabbitMQ, the broker of Nova's services."""

from __future__ import annotations

import socket

from qa.openstack.cloud import ADDRESS, PASSWORD, PORTS, Cloud


def start(cloud: Cloud) -> None:
    home = cloud.directory("rabbitmq")
    # Erlang would start a port mapper that outlives the broker.
    cloud.start("epmd", ["epmd", "-address", "127.0.0.1"], {"ERL_EPMD_RELAXED_COMMAND_CHECK": "1"})
    config = home / "rabbitmq.conf"
    config.write_text(
        f"listeners.tcp.1 = {ADDRESS}:{PORTS['rabbitmq']}\n"
        "default_user = openstack\n"
        f"default_pass = {PASSWORD}\n"
        "default_user_tags.administrator = true\n"
        "log.console = true\n"
        "log.file = false\n"
        "disk_free_limit.absolute = 1MB\n"
    )
    (home / "enabled_plugins").write_text("[].\n")
    (home / "advanced.config").write_text("[].\n")
    cloud.start(
        "rabbitmq",
        ["/usr/lib/rabbitmq/bin/rabbitmq-server"],
        {
            "HOME": str(home),
            "RABBITMQ_NODENAME": "openstack@localhost",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(cloud.directory("rabbitmq", "mnesia")),
            "RABBITMQ_LOG_BASE": str(cloud.directory("rabbitmq", "log")),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script execs the broker, so that the pid is the broker's
        },
    )
    cloud.wait(_responds, "RabbitMQ does not respond", process="rabbitmq")


def _responds() -> bool:
    """The broker opens its port last; it is ready once it responds to the protocol header."""
    try:
        with socket.create_connection((ADDRESS, PORTS["rabbitmq"]), timeout=5) as sock:
            sock.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(sock.recv(1))
    except OSError:
        return False
