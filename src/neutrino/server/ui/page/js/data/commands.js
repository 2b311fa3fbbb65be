/** Commands of the openstack client for what is shown: to read, not to change. Pure. */

/** @type {Object<string, (object: any) => string[]>} */
const COMMANDS = {
  network: ({ id }) => [`openstack network show ${id}`, `openstack subnet list --network ${id}`, `openstack port list --network ${id}`,
    `openstack network agent list --network ${id}`],
  subnet: ({ id, network_id: network }) => [`openstack subnet show ${id}`, `openstack port list --fixed-ip subnet=${id}`, `openstack ip availability show ${network}`],
  router: ({ id }) => [`openstack router show ${id}`, `openstack port list --router ${id}`, `openstack network agent list --router ${id}`,
    `openstack floating ip list --router ${id}`],
  port: ({ id, device_id: device, device_owner: owner }) => [
    `openstack port show ${id}`, `openstack floating ip list --port ${id}`,
    ...((owner ?? '').startsWith('compute:') && device ? [`openstack server show ${word(device)}`] : []),
  ],
  floatingip: ({ id }) => [`openstack floating ip show ${id}`],
  security_group: ({ id }) => [`openstack security group show ${id}`, `openstack security group rule list ${id}`],
  agent: ({ id }) => [`openstack network agent show ${id}`],
  host: ({ name }) => [`openstack network agent list --host ${word(name)}`, `openstack port list --host ${word(name)}`, `neutrino status --host ${word(name)}`],
};

/** @param {string} kind @param {any} object @returns {string[]} */
export function commandsFor(kind, object) {
  return Object.hasOwn(COMMANDS, kind) ? COMMANDS[kind](object) : [];
}

/** One word of a shell, whatever it has in it: names of hosts come from hosts. @param {string} text */
function word(text) {
  return /^[A-Za-z0-9_.:@/-]+$/.test(text) && !text.startsWith('-') ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
