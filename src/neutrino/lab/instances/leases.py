"""Why an instance gets no address by DHCP, as far as the API knows it."""

from collections.abc import Callable

from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.model.objects import Object, Values


def why_no_lease(api: ApiClient, port: Values, log: Callable[[str], str]) -> str:
    """`log`: the log of a host's agent."""
    network = port["network_id"]
    try:
        agents: list[Object] = api.request("GET", f"/v2.0/networks/{network}/dhcp-agents")["agents"]
    except ApiError as error:
        return f"the DHCP agents of network {network} cannot be read: {error}"
    if not agents:
        return f"no DHCP agent serves network {network}: start an agent with the role dhcp, or use --no-dhcp"
    serving = [agent for agent in agents if agent["alive"] and agent["admin_state_up"]]
    if not serving:
        states = (f"{agent['host']} ({_fault(agent)})" for agent in agents)
        return f"no DHCP agent of network {network} works: {', '.join(states)}"
    problems = [
        f"{agent['host']}: {name}: {text}"
        for agent in serving
        for name, text in (agent["configurations"].get("problems") or {}).items()
    ]
    if problems:
        return f"its DHCP agents have problems: {'; '.join(problems)}"
    if not port["admin_state_up"]:
        return "its port is disabled"
    hosts = ", ".join(agent["host"] for agent in serving)
    logs = ", ".join(log(agent["host"]) for agent in serving)
    return (
        f"the DHCP agents on {hosts} are alive and report no problem. Look at links and flows of both hosts (neutrino "
        f"status) and at {logs}"
    )


def _fault(agent: Values) -> str:
    return "it does not report" if not agent["alive"] else "disabled"
