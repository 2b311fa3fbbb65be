"""Sessions with other OpenStack services, by the credentials of a section of the configuration.

keystoneauth is imported here on first use, so that a server without such credentials does not load it.
"""

from typing import Any

from oslo_config import cfg

from neutrino.configuration.options import Configuration

# Any of them shows that credentials are meant; without auth_type they are an error.
_CREDENTIALS = ("auth_type", "auth_plugin", "auth_section", "auth_url", "username")
REQUEST_TIMEOUT = 30.0


def is_configured(conf: Configuration, group: str) -> bool:
    """Whether the section names credentials."""
    items = conf.given.items()
    return any(section == group and name in _CREDENTIALS and values[-1] for (section, name), values in items)


def session_from_conf(conf: cfg.ConfigOpts, group: str, purpose: str) -> Any:
    """A keystoneauth session; `purpose` is for the error if there is no auth_type."""
    from keystoneauth1 import loading

    loading.register_auth_conf_options(conf, group)
    loading.register_session_conf_options(conf, group)
    auth = loading.load_auth_from_conf_options(conf, group)
    if auth is None:
        raise ValueError(f"[{group}] auth_type is not set: it is required to {purpose}")
    session = loading.load_session_from_conf_options(conf, group, auth=auth)
    # requests has no timeout by default, and a silent service would hold the thread for ever.
    if session.timeout is None:
        session.timeout = REQUEST_TIMEOUT
    return session


def forget_catalogue(session: Any, error: Exception) -> None:
    """After a failure: the catalogue is in the token, and a new one may have a service that was added or has moved."""
    from keystoneauth1 import exceptions

    if isinstance(error, exceptions.EndpointNotFound | exceptions.ConnectFailure):
        session.invalidate()
