/**
 * The kinds of objects that the page loads, each with its collection and the attributes that are asked for: what tables, graph and
 * search need. The others are read with the one object that is shown.
 *
 * @typedef {{collection: string, fields: string[], status?: boolean}} Kind
 */

const COMMON = ['id', 'name', 'project_id', 'revision_number'];

/** @type {Object<string, Kind>} */
export const KINDS = {
  network: {
    collection: 'networks',
    fields: [...COMMON, 'status', 'admin_state_up', 'shared', 'router:external',
      'provider:network_type', 'provider:physical_network', 'provider:segmentation_id'],
  },
  subnet: {
    collection: 'subnets',
    fields: [...COMMON, 'network_id', 'cidr', 'ip_version', 'gateway_ip', 'allocation_pools'],
  },
  router: {
    collection: 'routers',
    fields: [...COMMON, 'status', 'admin_state_up', 'external_gateway_info', 'distributed', 'ha'],
  },
  port: {
    collection: 'ports',
    fields: [...COMMON, 'network_id', 'device_id', 'device_owner', 'status', 'admin_state_up', 'mac_address', 'fixed_ips',
      'binding:host_id', 'binding:vif_type', 'dns_name'],
  },
  floatingip: {
    collection: 'floatingips',
    fields: ['id', 'project_id', 'revision_number', 'floating_ip_address', 'fixed_ip_address', 'port_id', 'router_id',
      'floating_network_id', 'status'],
  },
  security_group: { collection: 'security-groups', fields: [...COMMON, 'description'] },
};

/** The key of a collection in the API's answers. */
export function answerKey(kind) {
  return KINDS[kind].collection.replaceAll('-', '_');
}

/** What a kind is called, for people. */
export const TITLES = {
  network: 'Network', subnet: 'Subnet', router: 'Router', port: 'Port', floatingip: 'Floating IP',
  security_group: 'Security group', agent: 'Agent', host: 'Host', project: 'Project', object: 'Object',
};

/** Whether the page has a list of this kind; a kind may come from a link. @param {string} kind */
export function isListed(kind) {
  return Object.hasOwn(KINDS, kind);
}
