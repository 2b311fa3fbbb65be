SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.address_groups (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    addresses text NOT NULL
);
CREATE TABLE public.address_scopes (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    ip_version integer NOT NULL
);
CREATE TABLE public.agents (
    id character varying(36) NOT NULL,
    agent_type character varying(255) NOT NULL,
    "binary" character varying(255) NOT NULL,
    topic character varying(255) NOT NULL,
    host character varying(255) NOT NULL,
    availability_zone character varying(255),
    description character varying(255),
    admin_state_up boolean NOT NULL,
    created_at character varying(20) NOT NULL,
    started_at character varying(20) NOT NULL,
    heartbeat_timestamp character varying(20) NOT NULL,
    load integer NOT NULL,
    resources_synced boolean,
    configurations text NOT NULL,
    resource_versions text NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.auto_allocated_topologies (
    project_id character varying(255) NOT NULL,
    network_id character varying(36) NOT NULL,
    router_id character varying(36)
);
CREATE TABLE public.change_head (
    id integer NOT NULL,
    identity character varying(36) NOT NULL,
    "position" bigint NOT NULL,
    removed bigint NOT NULL
);
CREATE TABLE public.changes (
    id bigint NOT NULL,
    kind character varying(32) NOT NULL,
    object_id character varying(36) NOT NULL,
    deleted boolean NOT NULL,
    at character varying(20) NOT NULL,
    "position" bigint
);
CREATE SEQUENCE public.changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.changes_id_seq OWNED BY public.changes.id;
CREATE TABLE public.conntrack_helpers (
    id character varying(36) NOT NULL,
    router_id character varying(36) NOT NULL,
    protocol character varying(40) NOT NULL,
    port integer NOT NULL,
    helper character varying(64) NOT NULL
);
CREATE TABLE public.default_firewall_groups (
    project_id character varying(255) NOT NULL,
    firewall_group_id character varying(36) NOT NULL
);
CREATE TABLE public.default_qos_policies (
    project_id character varying(255) NOT NULL,
    qos_policy_id character varying(36) NOT NULL
);
CREATE TABLE public.default_security_groups (
    project_id character varying(255) NOT NULL,
    security_group_id character varying(36) NOT NULL
);
CREATE TABLE public.distributed_port_hosts (
    port_id character varying(36) NOT NULL,
    host character varying(255) NOT NULL
);
CREATE TABLE public.dvr_host_macs (
    host character varying(255) NOT NULL,
    mac_address character varying(32) NOT NULL
);
CREATE TABLE public.firewall_group_hosts (
    firewall_group_id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    role character varying(16) NOT NULL,
    revision integer NOT NULL,
    status character varying(16) NOT NULL
);
CREATE TABLE public.firewall_group_ports (
    port_id character varying(36) NOT NULL,
    firewall_group_id character varying(36) NOT NULL
);
CREATE TABLE public.firewall_groups (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    admin_state_up boolean NOT NULL,
    shared boolean NOT NULL,
    is_default boolean NOT NULL,
    status character varying(16) NOT NULL,
    ingress_firewall_policy_id character varying(36),
    egress_firewall_policy_id character varying(36)
);
CREATE TABLE public.firewall_policies (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    shared boolean NOT NULL,
    audited boolean NOT NULL,
    firewall_rules text NOT NULL
);
CREATE TABLE public.firewall_policy_rules (
    firewall_policy_id character varying(36) NOT NULL,
    firewall_rule_id character varying(36) NOT NULL,
    "position" integer NOT NULL
);
CREATE TABLE public.firewall_rules (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    shared boolean NOT NULL,
    enabled boolean NOT NULL,
    protocol character varying(40),
    ip_version integer NOT NULL,
    source_ip_address character varying(64),
    destination_ip_address character varying(64),
    source_port character varying(16),
    destination_port character varying(16),
    action character varying(16) NOT NULL
);
CREATE TABLE public.flavor_service_profiles (
    flavor_id character varying(36) NOT NULL,
    service_profile_id character varying(36) NOT NULL
);
CREATE TABLE public.flavors (
    id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(1024),
    service_type character varying(36) NOT NULL,
    enabled boolean NOT NULL,
    service_profiles text NOT NULL
);
CREATE TABLE public.floatingips (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    floating_network_id character varying(36) NOT NULL,
    floating_ip_address character varying(64) NOT NULL,
    floating_port_id character varying(36) NOT NULL,
    router_id character varying(36),
    port_id character varying(36),
    fixed_ip_address character varying(64),
    status character varying(16) NOT NULL,
    dns_name character varying(255) NOT NULL,
    dns_domain character varying(255) NOT NULL,
    qos_policy_id character varying(36),
    port_forwardings text NOT NULL
);
CREATE TABLE public.ha_networks (
    project_id character varying(255) NOT NULL,
    network_id character varying(36) NOT NULL
);
CREATE TABLE public.host_credentials (
    host character varying(255) NOT NULL,
    digest character varying(64) NOT NULL,
    created_at character varying(20) NOT NULL,
    roles character varying(255) DEFAULT 'l2,dhcp,l3,metadata'::character varying NOT NULL
);
CREATE TABLE public.ip_allocations (
    subnet_id character varying(36) NOT NULL,
    ip_address character varying(64) NOT NULL,
    port_id character varying(36) NOT NULL,
    network_id character varying(36) NOT NULL
);
CREATE TABLE public.journal (
    id character varying(36) NOT NULL,
    operation character varying(64) NOT NULL,
    object_id character varying(36) NOT NULL,
    before text,
    after text,
    at double precision NOT NULL,
    owner character varying(64) NOT NULL
);
CREATE TABLE public.network_attributes (
    object_id character varying(36) NOT NULL,
    name character varying(64) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.network_dhcp_agents (
    network_id character varying(36) NOT NULL,
    agent_id character varying(36) NOT NULL
);
CREATE TABLE public.network_segments (
    id character varying(36) NOT NULL,
    network_id character varying(36) NOT NULL,
    network_type character varying(32) NOT NULL,
    physical_network character varying(64),
    segmentation_id integer,
    "position" integer NOT NULL,
    identity character varying(255) NOT NULL
);
CREATE TABLE public.networks (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    admin_state_up boolean NOT NULL,
    port_security_enabled boolean NOT NULL,
    status character varying(16) NOT NULL,
    mtu integer NOT NULL,
    external boolean NOT NULL,
    is_default boolean NOT NULL,
    dns_domain character varying(255) NOT NULL,
    qos_policy_id character varying(36),
    ipv4_address_scope character varying(36),
    ipv6_address_scope character varying(36),
    availability_zone_hints text NOT NULL,
    extra_dhcp_opts text NOT NULL,
    subnets text NOT NULL,
    network_type character varying(32),
    physical_network character varying(64),
    segmentation_id integer,
    segments text NOT NULL
);
CREATE TABLE public.port_attributes (
    object_id character varying(36) NOT NULL,
    name character varying(64) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.port_bindings (
    port_id character varying(36) NOT NULL,
    host character varying(255) NOT NULL,
    status character varying(16) NOT NULL,
    vnic_type character varying(64) NOT NULL,
    vif_type character varying(64) NOT NULL,
    profile text NOT NULL,
    vif_details text NOT NULL,
    levels text NOT NULL
);
CREATE TABLE public.port_forwardings (
    id character varying(36) NOT NULL,
    floatingip_id character varying(36) NOT NULL,
    internal_port_id character varying(36) NOT NULL,
    internal_ip_address character varying(64) NOT NULL,
    protocol character varying(40) NOT NULL,
    external_port_range character varying(16) NOT NULL,
    internal_port_range character varying(16) NOT NULL,
    external_port integer,
    internal_port integer,
    description character varying(255) NOT NULL
);
CREATE TABLE public.port_security_groups (
    port_id character varying(36) NOT NULL,
    security_group_id character varying(36) NOT NULL
);
CREATE TABLE public.ports (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    network_id character varying(36) NOT NULL,
    mac_address character varying(32) NOT NULL,
    admin_state_up boolean NOT NULL,
    port_security_enabled boolean NOT NULL,
    propagate_uplink_status boolean NOT NULL,
    status character varying(16) NOT NULL,
    device_id character varying(255) NOT NULL,
    device_owner character varying(255) NOT NULL,
    dns_name character varying(255) NOT NULL,
    dns_domain character varying(255) NOT NULL,
    ip_allocation character varying(16) NOT NULL,
    qos_policy_id character varying(36),
    data_plane_status character varying(16),
    numa_affinity_policy character varying(64),
    device_profile character varying(255),
    vnic_type character varying(64) NOT NULL,
    host character varying(255) NOT NULL,
    vif_type character varying(64) NOT NULL,
    profile text NOT NULL,
    vif_details text NOT NULL,
    fixed_ips text NOT NULL,
    security_groups text NOT NULL,
    allowed_address_pairs text NOT NULL,
    extra_dhcp_opts text NOT NULL,
    dns_assignment text NOT NULL,
    hints text NOT NULL,
    trusted boolean
);
CREATE TABLE public.provisioning_blocks (
    port_id character varying(36) NOT NULL,
    component character varying(32) NOT NULL
);
CREATE TABLE public.qos_policies (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    is_default boolean NOT NULL,
    rules text NOT NULL
);
CREATE TABLE public.qos_rules (
    id character varying(36) NOT NULL,
    qos_policy_id character varying(36) NOT NULL,
    type character varying(32) NOT NULL,
    direction character varying(16) NOT NULL,
    max_kbps integer,
    max_burst_kbps integer,
    min_kbps integer,
    max_kpps integer,
    max_burst_kpps integer,
    min_kpps integer,
    dscp_mark integer
);
CREATE TABLE public.quota_usages (
    project_id character varying(255) NOT NULL,
    resource character varying(64) NOT NULL,
    used integer NOT NULL
);
CREATE TABLE public.quotas (
    project_id character varying(255) NOT NULL,
    resource character varying(64) NOT NULL,
    "limit" integer NOT NULL
);
CREATE TABLE public.rbac_policies (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    object_type character varying(32) NOT NULL,
    object_id character varying(36) NOT NULL,
    action character varying(32) NOT NULL,
    target_project character varying(255) NOT NULL
);
CREATE TABLE public.router_l3_agents (
    router_id character varying(36) NOT NULL,
    agent_id character varying(36) NOT NULL,
    ha_port_id character varying(36),
    ha_state character varying(16)
);
CREATE TABLE public.router_ports (
    port_id character varying(36) NOT NULL,
    router_id character varying(36) NOT NULL,
    port_type character varying(255) NOT NULL
);
CREATE TABLE public.routers (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    admin_state_up boolean NOT NULL,
    enable_snat boolean NOT NULL,
    status character varying(16) NOT NULL,
    distributed boolean NOT NULL,
    ha boolean NOT NULL,
    gw_port_id character varying(36),
    gw_network_id character varying(36),
    gw_qos_policy_id character varying(36),
    flavor_id character varying(36),
    ha_network_id character varying(36),
    ha_vr_id integer,
    availability_zone_hints text NOT NULL,
    routes text NOT NULL,
    conntrack_helpers text NOT NULL
);
CREATE TABLE public.security_group_rules (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    security_group_id character varying(36) NOT NULL,
    direction character varying(16) NOT NULL,
    ethertype character varying(16) NOT NULL,
    protocol character varying(64),
    port_range_min integer,
    port_range_max integer,
    remote_ip_prefix character varying(64),
    normalized_cidr character varying(64),
    remote_group_id character varying(36),
    remote_address_group_id character varying(36),
    identity character varying(255) NOT NULL
);
CREATE TABLE public.security_groups (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    stateful boolean NOT NULL,
    is_default boolean NOT NULL
);
CREATE TABLE public.service_profiles (
    id character varying(36) NOT NULL,
    description character varying(1024),
    driver character varying(1024) NOT NULL,
    metainfo character varying(4096) NOT NULL,
    enabled boolean NOT NULL
);
CREATE TABLE public.subnet_attributes (
    object_id character varying(36) NOT NULL,
    name character varying(64) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.subnetpools (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    ip_version integer NOT NULL,
    default_prefixlen integer NOT NULL,
    min_prefixlen integer NOT NULL,
    max_prefixlen integer NOT NULL,
    is_default boolean NOT NULL,
    default_quota integer,
    address_scope_id character varying(36),
    prefixes text NOT NULL,
    allocation_version integer NOT NULL
);
CREATE TABLE public.subnets (
    id character varying(36) NOT NULL,
    project_id character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    description character varying(255),
    created_at character varying(20) NOT NULL,
    updated_at character varying(20) NOT NULL,
    revision_number integer NOT NULL,
    tags text NOT NULL,
    network_id character varying(36) NOT NULL,
    ip_version integer NOT NULL,
    cidr character varying(64) NOT NULL,
    gateway_ip character varying(64),
    enable_dhcp boolean NOT NULL,
    ipv6_ra_mode character varying(32),
    ipv6_address_mode character varying(32),
    subnetpool_id character varying(36),
    prefix_delegated boolean DEFAULT false NOT NULL,
    segment_id character varying(36),
    dns_publish_fixed_ip boolean NOT NULL,
    allocation_pools text NOT NULL,
    dns_nameservers text NOT NULL,
    host_routes text NOT NULL,
    service_types text NOT NULL
);
CREATE TABLE public.tags (
    object_id character varying(36) NOT NULL,
    tag character varying(255) NOT NULL
);
ALTER TABLE ONLY public.changes ALTER COLUMN id SET DEFAULT nextval('public.changes_id_seq'::regclass);
COPY public.address_groups (id, project_id, name, description, created_at, updated_at, revision_number, tags, addresses) FROM stdin;
7f6563aa-f870-417b-b2d5-5efbaa74f702	0123456789abcdef0123456789abcdef	office		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	2	[]	["198.51.100.0/24","2001:db8:ffff::/48"]
\.
COPY public.address_scopes (id, project_id, name, description, created_at, updated_at, revision_number, tags, ip_version) FROM stdin;
2f36e9ee-28b0-4f4c-8fa6-765357492b18	0123456789abcdef0123456789abcdef	scope		2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	2	[]	4
\.
COPY public.agents (id, agent_type, "binary", topic, host, availability_zone, description, admin_state_up, created_at, started_at, heartbeat_timestamp, load, resources_synced, configurations, resource_versions) FROM stdin;
f1caeccb-0d81-4b23-be2c-a10d5533f4f2	Open vSwitch agent	neutron-openvswitch-agent	topic	h2	\N	\N	t	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	\N	{"bridge_mappings":{"physnet1":"br-ex"},"tunnel_types":["vxlan"],"tunneling_ip":"192.0.2.2"}	{}
43bbb48e-795f-4746-8ee4-802387b7cb26	L3 agent	neutron-l3-agent	l3_agent	h2	\N	\N	t	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	\N	{"agent_mode":"dvr_snat","external_network_bridge":""}	{}
f0d2f77d-194b-45aa-b0e0-24710a3a2cc0	Open vSwitch agent	neutron-openvswitch-agent	N/A	h1	\N	\N	t	2026-11-16T13:15:56Z	2026-11-16T13:15:58Z	2026-11-16T13:15:58Z	0	\N	{"bridge_mappings":{"physnet1":"br-ex"},"dataplane":"ok","devices":2,"l2_population":true,"tunnel_types":["vxlan"],"tunneling_ip":"192.0.2.1","feed_behind":0}	{}
b538395d-1ecd-42da-b244-c4934360bf42	DHCP agent	neutron-dhcp-agent	dhcp_agent	h1	\N	\N	t	2026-11-16T13:15:57Z	2026-11-16T13:15:58Z	2026-11-16T13:15:58Z	2	\N	{"networks":2,"feed_behind":0}	{}
91af1c61-7f53-45d5-a5a6-7b1d3f371241	L3 agent	neutron-l3-agent	l3_agent	h1	\N	\N	t	2026-11-16T13:15:56Z	2026-11-16T13:15:58Z	2026-11-16T13:15:58Z	0	\N	{"agent_mode":"dvr_snat","feed_behind":0}	{}
667af8eb-916d-4419-95ae-6328f942ed3f	Metadata agent	neutron-metadata-agent	N/A	h1	\N	\N	t	2026-11-16T13:15:57Z	2026-11-16T13:15:58Z	2026-11-16T13:15:58Z	0	\N	{"feed_behind":0}	{}
\.
COPY public.alembic_version (version_num) FROM stdin;
0004
\.
COPY public.auto_allocated_topologies (project_id, network_id, router_id) FROM stdin;
\.
COPY public.change_head (id, identity, "position", removed) FROM stdin;
1	831123a4-f286-4e9d-97cc-964d866f8126	81	0
\.
COPY public.changes (id, kind, object_id, deleted, at, "position") FROM stdin;
1	agent	f0d2f77d-194b-45aa-b0e0-24710a3a2cc0	f	2026-11-16T13:15:56Z	1
2	agent	f1caeccb-0d81-4b23-be2c-a10d5533f4f2	f	2026-11-16T13:15:56Z	2
3	agent	91af1c61-7f53-45d5-a5a6-7b1d3f371241	f	2026-11-16T13:15:56Z	3
4	agent	43bbb48e-795f-4746-8ee4-802387b7cb26	f	2026-11-16T13:15:56Z	4
5	security_group	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	f	2026-11-16T13:15:56Z	5
6	network	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	f	2026-11-16T13:15:56Z	6
69	agent	f0d2f77d-194b-45aa-b0e0-24710a3a2cc0	f	2026-11-16T13:15:57Z	69
70	agent	b538395d-1ecd-42da-b244-c4934360bf42	f	2026-11-16T13:15:57Z	70
71	agent	91af1c61-7f53-45d5-a5a6-7b1d3f371241	f	2026-11-16T13:15:57Z	71
72	agent	667af8eb-916d-4419-95ae-6328f942ed3f	f	2026-11-16T13:15:57Z	72
75	port	15c07166-b487-4c78-b935-6502e038c774	f	2026-11-16T13:15:57Z	75
76	port	342123cb-dfd7-4b0b-ab66-3f2222413fa5	f	2026-11-16T13:15:57Z	76
77	port	eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	f	2026-11-16T13:15:57Z	77
78	agent	f0d2f77d-194b-45aa-b0e0-24710a3a2cc0	f	2026-11-16T13:15:58Z	78
79	agent	b538395d-1ecd-42da-b244-c4934360bf42	f	2026-11-16T13:15:58Z	79
80	agent	91af1c61-7f53-45d5-a5a6-7b1d3f371241	f	2026-11-16T13:15:58Z	80
81	agent	667af8eb-916d-4419-95ae-6328f942ed3f	f	2026-11-16T13:15:58Z	81
7	network	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	f	2026-11-16T13:15:56Z	7
8	subnet	6e10dbb5-8942-4ccf-bdef-f90d71446dbf	f	2026-11-16T13:15:56Z	8
9	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	9
10	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	10
11	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	11
12	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	12
13	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	13
14	qos_policy	65d5059b-1983-4804-a339-0905fe94bd57	f	2026-11-16T13:15:56Z	14
15	network	242831f1-30da-4790-a7e1-af981aa66b31	f	2026-11-16T13:15:56Z	15
16	network	242831f1-30da-4790-a7e1-af981aa66b31	f	2026-11-16T13:15:57Z	16
17	subnet	652b995f-a273-4ff1-ad5c-7ea73c3aa0f1	f	2026-11-16T13:15:57Z	17
18	network	242831f1-30da-4790-a7e1-af981aa66b31	f	2026-11-16T13:15:57Z	18
19	subnet	d1006eaa-b40d-4310-99d8-5efaffedbb25	f	2026-11-16T13:15:57Z	19
20	network	f2bf0b0b-e930-421d-a952-0da884762a67	f	2026-11-16T13:15:57Z	20
21	network	f2bf0b0b-e930-421d-a952-0da884762a67	f	2026-11-16T13:15:57Z	21
22	subnet	c72c972e-aad1-4f78-b559-701acddcf275	f	2026-11-16T13:15:57Z	22
23	network	8142663e-cb51-4219-bc9a-3ad950262522	f	2026-11-16T13:15:57Z	23
24	address_group	7f6563aa-f870-417b-b2d5-5efbaa74f702	f	2026-11-16T13:15:57Z	24
25	security_group	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	f	2026-11-16T13:15:57Z	25
26	security_group	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	f	2026-11-16T13:15:57Z	26
27	security_group	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	f	2026-11-16T13:15:57Z	27
28	security_group	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	f	2026-11-16T13:15:57Z	28
29	security_group	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	f	2026-11-16T13:15:57Z	29
30	port	15c07166-b487-4c78-b935-6502e038c774	f	2026-11-16T13:15:57Z	30
31	port	4597b605-0015-4e9f-91a4-bb163c4f0a1e	f	2026-11-16T13:15:57Z	31
32	port	342123cb-dfd7-4b0b-ab66-3f2222413fa5	f	2026-11-16T13:15:57Z	32
33	port	e8dee019-9489-4007-9f2d-6afb2381658d	f	2026-11-16T13:15:57Z	33
34	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	34
35	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	35
36	port	9f5a4e62-fe4c-4063-8fa3-659510952e93	f	2026-11-16T13:15:57Z	36
37	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	37
38	port	980c610b-f764-42c0-8ffb-733a1329ebb8	f	2026-11-16T13:15:57Z	38
39	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	39
40	network	200c1bf1-d2c4-467a-adf8-372d0710797b	f	2026-11-16T13:15:57Z	40
41	network	200c1bf1-d2c4-467a-adf8-372d0710797b	f	2026-11-16T13:15:57Z	41
42	subnet	5540e093-6db4-4184-a8f6-6fb5bfd04993	f	2026-11-16T13:15:57Z	42
43	router	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	f	2026-11-16T13:15:57Z	43
44	port	eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	f	2026-11-16T13:15:57Z	44
45	port	e80aa304-814d-4c2e-9ee4-e1aca371cb4b	f	2026-11-16T13:15:57Z	45
46	router	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	f	2026-11-16T13:15:57Z	46
47	port	18589780-ad6c-43ea-9f80-88f4e44573db	f	2026-11-16T13:15:57Z	47
48	router	63886eb2-dbcd-49fa-85dd-5cea2c410587	f	2026-11-16T13:15:57Z	48
49	port	fef5124a-92ae-4db2-9d07-12d0551fba55	f	2026-11-16T13:15:57Z	49
50	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	50
51	port	0139047d-7eec-4ab6-904d-7d9a69e62f2e	f	2026-11-16T13:15:57Z	51
52	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	52
53	firewall_rule	e2077f37-0548-4455-a84c-ed4bdc586201	f	2026-11-16T13:15:57Z	53
54	firewall_rule	87fb213b-1ca1-4b8c-8543-08ac55d58702	f	2026-11-16T13:15:57Z	54
55	firewall_policy	1860e332-ca31-434f-bd4b-c64ed9807b27	f	2026-11-16T13:15:57Z	55
56	firewall_rule	790a0b67-c92e-4ab0-8c39-e07466b8033b	f	2026-11-16T13:15:57Z	56
57	firewall_rule	f7063b49-6cf0-49a2-af55-ea82f314fb93	f	2026-11-16T13:15:57Z	57
58	firewall_policy	f96c2f8f-32e8-46b8-94de-3a6ee408297a	f	2026-11-16T13:15:57Z	58
59	firewall_rule	7818cae8-0764-4661-b484-7aafb9540d7e	f	2026-11-16T13:15:57Z	59
60	firewall_rule	5c96becb-93c6-432d-aa4b-703979fe255c	f	2026-11-16T13:15:57Z	60
61	firewall_policy	324ebbcd-63ee-48ba-981e-15711dda71f1	f	2026-11-16T13:15:57Z	61
62	firewall_group	fc84e0d1-321d-4bf5-a0a9-5fa97d8b7738	f	2026-11-16T13:15:57Z	62
63	firewall_group	40101689-4bf9-43aa-a246-2e25a3136419	f	2026-11-16T13:15:57Z	63
64	port	15c07166-b487-4c78-b935-6502e038c774	f	2026-11-16T13:15:57Z	64
65	network	f2bf0b0b-e930-421d-a952-0da884762a67	f	2026-11-16T13:15:57Z	65
66	network	242831f1-30da-4790-a7e1-af981aa66b31	f	2026-11-16T13:15:57Z	66
67	port	15c07166-b487-4c78-b935-6502e038c774	f	2026-11-16T13:15:57Z	67
68	router	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	f	2026-11-16T13:15:57Z	68
73	network	242831f1-30da-4790-a7e1-af981aa66b31	f	2026-11-16T13:15:57Z	73
74	network	f2bf0b0b-e930-421d-a952-0da884762a67	f	2026-11-16T13:15:57Z	74
\.
COPY public.conntrack_helpers (id, router_id, protocol, port, helper) FROM stdin;
\.
COPY public.default_firewall_groups (project_id, firewall_group_id) FROM stdin;
0123456789abcdef0123456789abcdef	fc84e0d1-321d-4bf5-a0a9-5fa97d8b7738
\.
COPY public.default_qos_policies (project_id, qos_policy_id) FROM stdin;
\.
COPY public.default_security_groups (project_id, security_group_id) FROM stdin;
0123456789abcdef0123456789abcdef	08857e1e-ad52-49f2-8cde-6c5d6793fbd8
\.
COPY public.distributed_port_hosts (port_id, host) FROM stdin;
\.
COPY public.dvr_host_macs (host, mac_address) FROM stdin;
\.
COPY public.firewall_group_hosts (firewall_group_id, host, role, revision, status) FROM stdin;
\.
COPY public.firewall_group_ports (port_id, firewall_group_id) FROM stdin;
15c07166-b487-4c78-b935-6502e038c774	40101689-4bf9-43aa-a246-2e25a3136419
\.
COPY public.firewall_groups (id, project_id, name, description, created_at, updated_at, revision_number, tags, admin_state_up, shared, is_default, status, ingress_firewall_policy_id, egress_firewall_policy_id) FROM stdin;
fc84e0d1-321d-4bf5-a0a9-5fa97d8b7738	0123456789abcdef0123456789abcdef	default	Default firewall group	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	t	f	t	PENDING_CREATE	f96c2f8f-32e8-46b8-94de-3a6ee408297a	324ebbcd-63ee-48ba-981e-15711dda71f1
40101689-4bf9-43aa-a246-2e25a3136419	0123456789abcdef0123456789abcdef	edge		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	t	f	f	PENDING_CREATE	1860e332-ca31-434f-bd4b-c64ed9807b27	\N
\.
COPY public.firewall_policies (id, project_id, name, description, created_at, updated_at, revision_number, tags, shared, audited, firewall_rules) FROM stdin;
1860e332-ca31-434f-bd4b-c64ed9807b27	0123456789abcdef0123456789abcdef	inbound		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	f	["e2077f37-0548-4455-a84c-ed4bdc586201","87fb213b-1ca1-4b8c-8543-08ac55d58702"]
f96c2f8f-32e8-46b8-94de-3a6ee408297a	0123456789abcdef0123456789abcdef	default ingress	Ingress firewall policy	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	f	["790a0b67-c92e-4ab0-8c39-e07466b8033b","f7063b49-6cf0-49a2-af55-ea82f314fb93"]
324ebbcd-63ee-48ba-981e-15711dda71f1	0123456789abcdef0123456789abcdef	default egress	Egress firewall policy	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	f	["7818cae8-0764-4661-b484-7aafb9540d7e","5c96becb-93c6-432d-aa4b-703979fe255c"]
\.
COPY public.firewall_policy_rules (firewall_policy_id, firewall_rule_id, "position") FROM stdin;
1860e332-ca31-434f-bd4b-c64ed9807b27	e2077f37-0548-4455-a84c-ed4bdc586201	1
1860e332-ca31-434f-bd4b-c64ed9807b27	87fb213b-1ca1-4b8c-8543-08ac55d58702	2
f96c2f8f-32e8-46b8-94de-3a6ee408297a	790a0b67-c92e-4ab0-8c39-e07466b8033b	1
f96c2f8f-32e8-46b8-94de-3a6ee408297a	f7063b49-6cf0-49a2-af55-ea82f314fb93	2
324ebbcd-63ee-48ba-981e-15711dda71f1	7818cae8-0764-4661-b484-7aafb9540d7e	1
324ebbcd-63ee-48ba-981e-15711dda71f1	5c96becb-93c6-432d-aa4b-703979fe255c	2
\.
COPY public.firewall_rules (id, project_id, name, description, created_at, updated_at, revision_number, tags, shared, enabled, protocol, ip_version, source_ip_address, destination_ip_address, source_port, destination_port, action) FROM stdin;
e2077f37-0548-4455-a84c-ed4bdc586201	0123456789abcdef0123456789abcdef	allow-web		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	tcp	4	\N	\N	\N	80	allow
87fb213b-1ca1-4b8c-8543-08ac55d58702	0123456789abcdef0123456789abcdef	deny		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	\N	4	203.0.113.0/24	\N	\N	\N	deny
790a0b67-c92e-4ab0-8c39-e07466b8033b	0123456789abcdef0123456789abcdef	default ingress ipv4	default ingress rule for IPv4	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	\N	4	\N	\N	\N	\N	deny
f7063b49-6cf0-49a2-af55-ea82f314fb93	0123456789abcdef0123456789abcdef	default ingress ipv6	default ingress rule for IPv6	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	\N	6	\N	\N	\N	\N	deny
7818cae8-0764-4661-b484-7aafb9540d7e	0123456789abcdef0123456789abcdef	default egress ipv4	default egress rule for IPv4	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	\N	4	\N	\N	\N	\N	allow
5c96becb-93c6-432d-aa4b-703979fe255c	0123456789abcdef0123456789abcdef	default egress ipv6	default egress rule for IPv6	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f	t	\N	6	\N	\N	\N	\N	allow
\.
COPY public.flavor_service_profiles (flavor_id, service_profile_id) FROM stdin;
7022cd24-5268-48e2-8ee2-97649411ffe3	94950fc8-749a-4e57-ace7-18ef720bd895
\.
COPY public.flavors (id, name, description, service_type, enabled, service_profiles) FROM stdin;
7022cd24-5268-48e2-8ee2-97649411ffe3	fast		L3_ROUTER_NAT	t	["94950fc8-749a-4e57-ace7-18ef720bd895"]
\.
COPY public.floatingips (id, project_id, name, description, created_at, updated_at, revision_number, tags, floating_network_id, floating_ip_address, floating_port_id, router_id, port_id, fixed_ip_address, status, dns_name, dns_domain, qos_policy_id, port_forwardings) FROM stdin;
2c16abf7-f8c5-467c-8b47-5d19e892efcd	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	172.24.4.5	fef5124a-92ae-4db2-9d07-12d0551fba55	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	15c07166-b487-4c78-b935-6502e038c774	10.0.0.79	DOWN			65d5059b-1983-4804-a339-0905fe94bd57	[]
a1ffbeef-76ae-4775-bba9-a95362b59871	0123456789abcdef0123456789abcdef		port forwarding	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	172.24.4.76	0139047d-7eec-4ab6-904d-7d9a69e62f2e	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	\N	\N	DOWN			\N	[{"id":"b169e42d-46fa-4f63-a202-fbcb04e12eb5","internal_ip_address":"10.0.0.55","protocol":"tcp","internal_port":22,"external_port":2222,"internal_port_id":"4597b605-0015-4e9f-91a4-bb163c4f0a1e"}]
\.
COPY public.ha_networks (project_id, network_id) FROM stdin;
0123456789abcdef0123456789abcdef	200c1bf1-d2c4-467a-adf8-372d0710797b
\.
COPY public.host_credentials (host, digest, created_at, roles) FROM stdin;
h1	fc3b510b87b65a1599b8cd80bc8230665f804406b94436ad96e4ff0735eb7404	2026-11-16T13:15:57Z	l2,dhcp,l3,metadata
\.
COPY public.ip_allocations (subnet_id, ip_address, port_id, network_id) FROM stdin;
652b995f-a273-4ff1-ad5c-7ea73c3aa0f1	10.0.0.79	15c07166-b487-4c78-b935-6502e038c774	242831f1-30da-4790-a7e1-af981aa66b31
d1006eaa-b40d-4310-99d8-5efaffedbb25	2001:db8:1:0:f816:3eff:fecb:8206	15c07166-b487-4c78-b935-6502e038c774	242831f1-30da-4790-a7e1-af981aa66b31
652b995f-a273-4ff1-ad5c-7ea73c3aa0f1	10.0.0.55	4597b605-0015-4e9f-91a4-bb163c4f0a1e	242831f1-30da-4790-a7e1-af981aa66b31
d1006eaa-b40d-4310-99d8-5efaffedbb25	2001:db8:1:0:f816:3eff:fe97:9f54	4597b605-0015-4e9f-91a4-bb163c4f0a1e	242831f1-30da-4790-a7e1-af981aa66b31
c72c972e-aad1-4f78-b559-701acddcf275	10.64.0.173	342123cb-dfd7-4b0b-ab66-3f2222413fa5	f2bf0b0b-e930-421d-a952-0da884762a67
c72c972e-aad1-4f78-b559-701acddcf275	10.64.0.142	e8dee019-9489-4007-9f2d-6afb2381658d	f2bf0b0b-e930-421d-a952-0da884762a67
652b995f-a273-4ff1-ad5c-7ea73c3aa0f1	10.0.0.1	9f5a4e62-fe4c-4063-8fa3-659510952e93	242831f1-30da-4790-a7e1-af981aa66b31
6e10dbb5-8942-4ccf-bdef-f90d71446dbf	172.24.4.229	980c610b-f764-42c0-8ffb-733a1329ebb8	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48
5540e093-6db4-4184-a8f6-6fb5bfd04993	169.254.253.188	eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	200c1bf1-d2c4-467a-adf8-372d0710797b
5540e093-6db4-4184-a8f6-6fb5bfd04993	169.254.199.39	e80aa304-814d-4c2e-9ee4-e1aca371cb4b	200c1bf1-d2c4-467a-adf8-372d0710797b
c72c972e-aad1-4f78-b559-701acddcf275	10.64.0.1	18589780-ad6c-43ea-9f80-88f4e44573db	f2bf0b0b-e930-421d-a952-0da884762a67
6e10dbb5-8942-4ccf-bdef-f90d71446dbf	172.24.4.5	fef5124a-92ae-4db2-9d07-12d0551fba55	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48
6e10dbb5-8942-4ccf-bdef-f90d71446dbf	172.24.4.76	0139047d-7eec-4ab6-904d-7d9a69e62f2e	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48
\.
COPY public.journal (id, operation, object_id, before, after, at, owner) FROM stdin;
\.
COPY public.network_attributes (object_id, name, value) FROM stdin;
\.
COPY public.network_dhcp_agents (network_id, agent_id) FROM stdin;
242831f1-30da-4790-a7e1-af981aa66b31	b538395d-1ecd-42da-b244-c4934360bf42
f2bf0b0b-e930-421d-a952-0da884762a67	b538395d-1ecd-42da-b244-c4934360bf42
\.
COPY public.network_segments (id, network_id, network_type, physical_network, segmentation_id, "position", identity) FROM stdin;
04e2c5ec-d4fd-4dc9-b696-95ff8a22782d	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	flat	physnet1	\N	0	flat/physnet1
2d2b6564-f602-483a-95df-d2a6ebbeabd9	242831f1-30da-4790-a7e1-af981aa66b31	vxlan	\N	15126	0	vxlan/15126
4815e1ef-8ae6-43e9-aed6-5aa01554a9ff	f2bf0b0b-e930-421d-a952-0da884762a67	vxlan	\N	15671	0	vxlan/15671
72e44c1e-c02a-413b-aaad-cf8d3616c3b0	8142663e-cb51-4219-bc9a-3ad950262522	vlan	physnet1	101	0	vlan/physnet1/101
0f242bbf-a2a6-48c7-bb66-4ae448959898	200c1bf1-d2c4-467a-adf8-372d0710797b	vxlan	\N	15354	0	vxlan/15354
\.
COPY public.networks (id, project_id, name, description, created_at, updated_at, revision_number, tags, admin_state_up, port_security_enabled, status, mtu, external, is_default, dns_domain, qos_policy_id, ipv4_address_scope, ipv6_address_scope, availability_zone_hints, extra_dhcp_opts, subnets, network_type, physical_network, segmentation_id, segments) FROM stdin;
60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	0123456789abcdef0123456789abcdef	public		2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	2	[]	t	t	ACTIVE	1500	t	f		\N	\N	\N	[]	[]	["6e10dbb5-8942-4ccf-bdef-f90d71446dbf"]	flat	physnet1	\N	null
8142663e-cb51-4219-bc9a-3ad950262522	0123456789abcdef0123456789abcdef	vlan		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	t	t	ACTIVE	1400	f	f		\N	\N	\N	[]	[]	[]	vlan	physnet1	101	null
200c1bf1-d2c4-467a-adf8-372d0710797b		HA network tenant 0123456789abcdef0123456789abcdef		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	2	[]	t	f	ACTIVE	1450	f	f		\N	\N	\N	[]	[]	["5540e093-6db4-4184-a8f6-6fb5bfd04993"]	vxlan	\N	15354	null
f2bf0b0b-e930-421d-a952-0da884762a67	0123456789abcdef0123456789abcdef	green		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	t	t	ACTIVE	1450	f	f		\N	2f36e9ee-28b0-4f4c-8fa6-765357492b18	\N	[]	[]	["c72c972e-aad1-4f78-b559-701acddcf275"]	vxlan	\N	15671	null
242831f1-30da-4790-a7e1-af981aa66b31	0123456789abcdef0123456789abcdef	blue		2026-11-16T13:15:56Z	2026-11-16T13:15:57Z	4	["prod","tier=1"]	t	t	ACTIVE	1450	f	f	blue.example.org.	65d5059b-1983-4804-a339-0905fe94bd57	\N	\N	[]	[]	["652b995f-a273-4ff1-ad5c-7ea73c3aa0f1","d1006eaa-b40d-4310-99d8-5efaffedbb25"]	vxlan	\N	15126	null
\.
COPY public.port_attributes (object_id, name, value) FROM stdin;
\.
COPY public.port_bindings (port_id, host, status, vnic_type, vif_type, profile, vif_details, levels) FROM stdin;
15c07166-b487-4c78-b935-6502e038c774	h1	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"2d2b6564-f602-483a-95df-d2a6ebbeabd9"}]
4597b605-0015-4e9f-91a4-bb163c4f0a1e	h2	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"2d2b6564-f602-483a-95df-d2a6ebbeabd9"}]
342123cb-dfd7-4b0b-ab66-3f2222413fa5	h1	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"4815e1ef-8ae6-43e9-aed6-5aa01554a9ff"}]
9f5a4e62-fe4c-4063-8fa3-659510952e93	h2	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"2d2b6564-f602-483a-95df-d2a6ebbeabd9"}]
980c610b-f764-42c0-8ffb-733a1329ebb8	h2	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"04e2c5ec-d4fd-4dc9-b696-95ff8a22782d"}]
eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	h1	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"0f242bbf-a2a6-48c7-bb66-4ae448959898"}]
e80aa304-814d-4c2e-9ee4-e1aca371cb4b	h2	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"0f242bbf-a2a6-48c7-bb66-4ae448959898"}]
18589780-ad6c-43ea-9f80-88f4e44573db	h2	ACTIVE	normal	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"level":0,"driver":"openvswitch","segment_id":"4815e1ef-8ae6-43e9-aed6-5aa01554a9ff"}]
\.
COPY public.port_forwardings (id, floatingip_id, internal_port_id, internal_ip_address, protocol, external_port_range, internal_port_range, external_port, internal_port, description) FROM stdin;
b169e42d-46fa-4f63-a202-fbcb04e12eb5	a1ffbeef-76ae-4775-bba9-a95362b59871	4597b605-0015-4e9f-91a4-bb163c4f0a1e	10.0.0.55	tcp	2222:2222	22:22	2222	22	
\.
COPY public.port_security_groups (port_id, security_group_id) FROM stdin;
15c07166-b487-4c78-b935-6502e038c774	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8
4597b605-0015-4e9f-91a4-bb163c4f0a1e	08857e1e-ad52-49f2-8cde-6c5d6793fbd8
e8dee019-9489-4007-9f2d-6afb2381658d	08857e1e-ad52-49f2-8cde-6c5d6793fbd8
\.
COPY public.ports (id, project_id, name, description, created_at, updated_at, revision_number, tags, network_id, mac_address, admin_state_up, port_security_enabled, propagate_uplink_status, status, device_id, device_owner, dns_name, dns_domain, ip_allocation, qos_policy_id, data_plane_status, numa_affinity_policy, device_profile, vnic_type, host, vif_type, profile, vif_details, fixed_ips, security_groups, allowed_address_pairs, extra_dhcp_opts, dns_assignment, hints, trusted) FROM stdin;
4597b605-0015-4e9f-91a4-bb163c4f0a1e	0123456789abcdef0123456789abcdef	vm2		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	242831f1-30da-4790-a7e1-af981aa66b31	fa:16:3e:97:9f:54	t	t	t	DOWN	b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f02	compute:nova			immediate	\N	\N	\N	\N	normal	h2	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"652b995f-a273-4ff1-ad5c-7ea73c3aa0f1","ip_address":"10.0.0.55"},{"subnet_id":"d1006eaa-b40d-4310-99d8-5efaffedbb25","ip_address":"2001:db8:1:0:f816:3eff:fe97:9f54"}]	["08857e1e-ad52-49f2-8cde-6c5d6793fbd8"]	[]	[]	[{"ip_address":"10.0.0.55","hostname":"host-10-0-0-55","fqdn":"host-10-0-0-55.example.org."},{"ip_address":"2001:db8:1:0:f816:3eff:fe97:9f54","hostname":"host-2001-db8-1-0-f816-3eff-fe97-9f54","fqdn":"host-2001-db8-1-0-f816-3eff-fe97-9f54.example.org."}]	null	\N
e8dee019-9489-4007-9f2d-6afb2381658d	0123456789abcdef0123456789abcdef	unbound		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	f2bf0b0b-e930-421d-a952-0da884762a67	fa:16:3e:ba:93:68	t	t	t	DOWN					immediate	\N	\N	\N	\N	normal		unbound	{}	{}	[{"subnet_id":"c72c972e-aad1-4f78-b559-701acddcf275","ip_address":"10.64.0.142"}]	["08857e1e-ad52-49f2-8cde-6c5d6793fbd8"]	[]	[]	[{"ip_address":"10.64.0.142","hostname":"host-10-64-0-142","fqdn":"host-10-64-0-142.example.org."}]	null	\N
9f5a4e62-fe4c-4063-8fa3-659510952e93	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	242831f1-30da-4790-a7e1-af981aa66b31	fa:16:3e:93:7c:d2	t	f	t	DOWN	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	network:router_interface			immediate	\N	\N	\N	\N	normal	h2	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"652b995f-a273-4ff1-ad5c-7ea73c3aa0f1","ip_address":"10.0.0.1"}]	[]	[]	[]	[{"ip_address":"10.0.0.1","hostname":"host-10-0-0-1","fqdn":"host-10-0-0-1.example.org."}]	null	\N
980c610b-f764-42c0-8ffb-733a1329ebb8				2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	fa:16:3e:c4:b8:86	t	f	t	DOWN	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	network:router_gateway			immediate	\N	\N	\N	\N	normal	h2	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"6e10dbb5-8942-4ccf-bdef-f90d71446dbf","ip_address":"172.24.4.229"}]	[]	[]	[]	[{"ip_address":"172.24.4.229","hostname":"host-172-24-4-229","fqdn":"host-172-24-4-229.example.org."}]	null	\N
e80aa304-814d-4c2e-9ee4-e1aca371cb4b		HA port tenant 0123456789abcdef0123456789abcdef		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	200c1bf1-d2c4-467a-adf8-372d0710797b	fa:16:3e:fa:8f:8d	t	f	t	DOWN	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:router_ha_interface			immediate	\N	\N	\N	\N	normal	h2	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"5540e093-6db4-4184-a8f6-6fb5bfd04993","ip_address":"169.254.199.39"}]	[]	[]	[]	[{"ip_address":"169.254.199.39","hostname":"host-169-254-199-39","fqdn":"host-169-254-199-39.example.org."}]	null	\N
18589780-ad6c-43ea-9f80-88f4e44573db	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	3	[]	f2bf0b0b-e930-421d-a952-0da884762a67	fa:16:3e:0c:18:fe	t	f	t	DOWN	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:ha_router_replicated_interface			immediate	\N	\N	\N	\N	normal	h2	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"c72c972e-aad1-4f78-b559-701acddcf275","ip_address":"10.64.0.1"}]	[]	[]	[]	[{"ip_address":"10.64.0.1","hostname":"host-10-64-0-1","fqdn":"host-10-64-0-1.example.org."}]	null	\N
fef5124a-92ae-4db2-9d07-12d0551fba55				2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	fa:16:3e:17:54:ea	t	f	t	N/A	2c16abf7-f8c5-467c-8b47-5d19e892efcd	network:floatingip			immediate	\N	\N	\N	\N	normal		unbound	{}	{}	[{"subnet_id":"6e10dbb5-8942-4ccf-bdef-f90d71446dbf","ip_address":"172.24.4.5"}]	[]	[]	[]	[{"ip_address":"172.24.4.5","hostname":"host-172-24-4-5","fqdn":"host-172-24-4-5.example.org."}]	null	\N
0139047d-7eec-4ab6-904d-7d9a69e62f2e				2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	fa:16:3e:d9:fc:b3	t	f	t	N/A	a1ffbeef-76ae-4775-bba9-a95362b59871	network:floatingip			immediate	\N	\N	\N	\N	normal		unbound	{}	{}	[{"subnet_id":"6e10dbb5-8942-4ccf-bdef-f90d71446dbf","ip_address":"172.24.4.76"}]	[]	[]	[]	[{"ip_address":"172.24.4.76","hostname":"host-172-24-4-76","fqdn":"host-172-24-4-76.example.org."}]	null	\N
342123cb-dfd7-4b0b-ab66-3f2222413fa5	0123456789abcdef0123456789abcdef	open		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	4	[]	f2bf0b0b-e930-421d-a952-0da884762a67	fa:16:3e:e6:c8:2d	t	f	t	ACTIVE		compute:nova			immediate	\N	\N	\N	\N	normal	h1	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"c72c972e-aad1-4f78-b559-701acddcf275","ip_address":"10.64.0.173"}]	[]	[]	[]	[{"ip_address":"10.64.0.173","hostname":"host-10-64-0-173","fqdn":"host-10-64-0-173.example.org."}]	null	\N
eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2		HA port tenant 0123456789abcdef0123456789abcdef		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	4	[]	200c1bf1-d2c4-467a-adf8-372d0710797b	fa:16:3e:2d:38:ce	t	f	t	ACTIVE	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:router_ha_interface			immediate	\N	\N	\N	\N	normal	h1	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"5540e093-6db4-4184-a8f6-6fb5bfd04993","ip_address":"169.254.253.188"}]	[]	[]	[]	[{"ip_address":"169.254.253.188","hostname":"host-169-254-253-188","fqdn":"host-169-254-253-188.example.org."}]	null	\N
15c07166-b487-4c78-b935-6502e038c774	0123456789abcdef0123456789abcdef	vm1		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	5	["prod","tier=1"]	242831f1-30da-4790-a7e1-af981aa66b31	fa:16:3e:cb:82:06	t	t	t	ACTIVE	b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f01	compute:nova	vm1		immediate	\N	\N	\N	\N	normal	h1	ovs	{}	{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}	[{"subnet_id":"652b995f-a273-4ff1-ad5c-7ea73c3aa0f1","ip_address":"10.0.0.79"},{"subnet_id":"d1006eaa-b40d-4310-99d8-5efaffedbb25","ip_address":"2001:db8:1:0:f816:3eff:fecb:8206"}]	["6f90509b-3dd1-4611-9ad6-5b7bf6630bc8"]	[{"mac_address":"fa:16:3e:cb:82:06","ip_address":"10.0.0.100"}]	[{"opt_name":"bootfile-name","opt_value":"pxe.0","ip_version":4}]	[{"ip_address":"10.0.0.79","hostname":"vm1","fqdn":"vm1.example.org."},{"ip_address":"2001:db8:1:0:f816:3eff:fecb:8206","hostname":"vm1","fqdn":"vm1.example.org."}]	null	\N
\.
COPY public.provisioning_blocks (port_id, component) FROM stdin;
4597b605-0015-4e9f-91a4-bb163c4f0a1e	L2
9f5a4e62-fe4c-4063-8fa3-659510952e93	L2
980c610b-f764-42c0-8ffb-733a1329ebb8	L2
e80aa304-814d-4c2e-9ee4-e1aca371cb4b	L2
18589780-ad6c-43ea-9f80-88f4e44573db	L2
\.
COPY public.qos_policies (id, project_id, name, description, created_at, updated_at, revision_number, tags, is_default, rules) FROM stdin;
65d5059b-1983-4804-a339-0905fe94bd57	0123456789abcdef0123456789abcdef	gold	all types of rules	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	5	[]	f	[{"id":"278ff1df-3145-44ba-852d-132b05a9aabf","max_kbps":10000,"max_burst_kbps":800,"direction":"egress","qos_policy_id":"65d5059b-1983-4804-a339-0905fe94bd57","type":"bandwidth_limit"},{"id":"f98de0d7-3d83-420e-a596-85bd3f324811","dscp_mark":26,"qos_policy_id":"65d5059b-1983-4804-a339-0905fe94bd57","type":"dscp_marking"},{"id":"53fccfd0-61c3-4d79-aac0-4e5eff0a85ee","min_kbps":500,"direction":"egress","qos_policy_id":"65d5059b-1983-4804-a339-0905fe94bd57","type":"minimum_bandwidth"},{"id":"3eab06da-9793-4f59-8b3e-feff40b7cd38","max_kpps":10,"max_burst_kpps":5,"direction":"egress","qos_policy_id":"65d5059b-1983-4804-a339-0905fe94bd57","type":"packet_rate_limit"},{"id":"22e79645-6950-4c2f-a368-1a9bbcb7ca35","min_kpps":1,"direction":"egress","qos_policy_id":"65d5059b-1983-4804-a339-0905fe94bd57","type":"minimum_packet_rate"}]
\.
COPY public.qos_rules (id, qos_policy_id, type, direction, max_kbps, max_burst_kbps, min_kbps, max_kpps, max_burst_kpps, min_kpps, dscp_mark) FROM stdin;
278ff1df-3145-44ba-852d-132b05a9aabf	65d5059b-1983-4804-a339-0905fe94bd57	bandwidth_limit	egress	10000	800	\N	\N	\N	\N	\N
f98de0d7-3d83-420e-a596-85bd3f324811	65d5059b-1983-4804-a339-0905fe94bd57	dscp_marking		\N	\N	\N	\N	\N	\N	26
53fccfd0-61c3-4d79-aac0-4e5eff0a85ee	65d5059b-1983-4804-a339-0905fe94bd57	minimum_bandwidth	egress	\N	\N	500	\N	\N	\N	\N
3eab06da-9793-4f59-8b3e-feff40b7cd38	65d5059b-1983-4804-a339-0905fe94bd57	packet_rate_limit	egress	\N	\N	\N	10	5	\N	\N
22e79645-6950-4c2f-a368-1a9bbcb7ca35	65d5059b-1983-4804-a339-0905fe94bd57	minimum_packet_rate	egress	\N	\N	\N	\N	\N	1	\N
\.
COPY public.quota_usages (project_id, resource, used) FROM stdin;
0123456789abcdef0123456789abcdef	subnet	4
0123456789abcdef0123456789abcdef	network	4
0123456789abcdef0123456789abcdef	address_group	1
0123456789abcdef0123456789abcdef	security_group	2
0123456789abcdef0123456789abcdef	security_group_rule	10
	network	1
	subnet	1
0123456789abcdef0123456789abcdef	port	6
0123456789abcdef0123456789abcdef	router	3
0123456789abcdef0123456789abcdef	floatingip	2
0123456789abcdef0123456789abcdef	port_forwarding	1
0123456789abcdef0123456789abcdef	firewall_policy	3
0123456789abcdef0123456789abcdef	firewall_rule	6
0123456789abcdef0123456789abcdef	firewall_group	2
0123456789abcdef0123456789abcdef	rbac_policy	5
\.
COPY public.quotas (project_id, resource, "limit") FROM stdin;
0123456789abcdef0123456789abcdef	network	7
0123456789abcdef0123456789abcdef	port	77
\.
COPY public.rbac_policies (id, project_id, object_type, object_id, action, target_project) FROM stdin;
9bc0140f-b21e-4bc2-93f1-8b2ac6b5f458	0123456789abcdef0123456789abcdef	network	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	access_as_external	*
3880e13c-ce5e-430f-91a0-414e236d6e59	0123456789abcdef0123456789abcdef	address_scope	2f36e9ee-28b0-4f4c-8fa6-765357492b18	access_as_shared	*
c4c1daf1-bcc3-4fa6-b646-b22e48b74773	0123456789abcdef0123456789abcdef	subnetpool	5e10b564-ad31-4111-93f4-a96ddccb3e25	access_as_shared	*
9b71ddcc-fcfe-4bbb-a2d4-fac39161d08a	0123456789abcdef0123456789abcdef	network	8142663e-cb51-4219-bc9a-3ad950262522	access_as_shared	*
86e4642a-afc5-4f36-91c3-740fc2e202b2	0123456789abcdef0123456789abcdef	network	f2bf0b0b-e930-421d-a952-0da884762a67	access_as_shared	00000000000000000000000000000000
\.
COPY public.router_l3_agents (router_id, agent_id, ha_port_id, ha_state) FROM stdin;
531a29b2-5a6b-4d9e-b5dd-434da6bd4039	43bbb48e-795f-4746-8ee4-802387b7cb26	\N	\N
cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	91af1c61-7f53-45d5-a5a6-7b1d3f371241	eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	\N
cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	43bbb48e-795f-4746-8ee4-802387b7cb26	e80aa304-814d-4c2e-9ee4-e1aca371cb4b	\N
\.
COPY public.router_ports (port_id, router_id, port_type) FROM stdin;
9f5a4e62-fe4c-4063-8fa3-659510952e93	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	network:router_interface
980c610b-f764-42c0-8ffb-733a1329ebb8	531a29b2-5a6b-4d9e-b5dd-434da6bd4039	network:router_gateway
eb05d0a3-0c42-4bdf-a0cb-ec1cd379b4e2	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:router_ha_interface
e80aa304-814d-4c2e-9ee4-e1aca371cb4b	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:router_ha_interface
18589780-ad6c-43ea-9f80-88f4e44573db	cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	network:ha_router_replicated_interface
\.
COPY public.routers (id, project_id, name, description, created_at, updated_at, revision_number, tags, admin_state_up, enable_snat, status, distributed, ha, gw_port_id, gw_network_id, gw_qos_policy_id, flavor_id, ha_network_id, ha_vr_id, availability_zone_hints, routes, conntrack_helpers) FROM stdin;
cbc0f2a4-a93f-41fb-9e6e-4099a6765e77	0123456789abcdef0123456789abcdef	ha		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	2	[]	t	t	ACTIVE	f	t	\N	\N	\N	\N	200c1bf1-d2c4-467a-adf8-372d0710797b	1	[]	[]	[]
63886eb2-dbcd-49fa-85dd-5cea2c410587	0123456789abcdef0123456789abcdef	dvr		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	1	[]	t	t	ACTIVE	t	f	\N	\N	\N	\N	\N	\N	[]	[]	[]
531a29b2-5a6b-4d9e-b5dd-434da6bd4039	0123456789abcdef0123456789abcdef	r1		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	7	["prod","tier=1"]	t	t	ACTIVE	f	f	980c610b-f764-42c0-8ffb-733a1329ebb8	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	65d5059b-1983-4804-a339-0905fe94bd57	\N	\N	\N	[]	[{"destination":"10.10.0.0/16","nexthop":"10.0.0.9"}]	[]
\.
COPY public.security_group_rules (id, project_id, name, description, created_at, updated_at, revision_number, tags, security_group_id, direction, ethertype, protocol, port_range_min, port_range_max, remote_ip_prefix, normalized_cidr, remote_group_id, remote_address_group_id, identity) FROM stdin;
db8a9bcc-aec0-4b54-ae10-85d2b7fa624f	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	egress	IPv4	\N	\N	\N	\N	\N	\N	\N	egress IPv4 any - anywhere
4ad3c1b2-0bf2-4117-ab61-e603ef770e58	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	egress	IPv6	\N	\N	\N	\N	\N	\N	\N	egress IPv6 any - anywhere
17f71f44-1bf0-487f-891c-86babee8427b	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	ingress	IPv4	\N	\N	\N	\N	\N	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	\N	ingress IPv4 any - group:08857e1e-ad52-49f2-8cde-6c5d6793fbd8
f4ecec0c-f584-49a6-bd98-147487483d18	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	ingress	IPv6	\N	\N	\N	\N	\N	08857e1e-ad52-49f2-8cde-6c5d6793fbd8	\N	ingress IPv6 any - group:08857e1e-ad52-49f2-8cde-6c5d6793fbd8
a9ed9b80-f1a3-4a80-a0cd-706c68aab315	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	egress	IPv4	\N	\N	\N	\N	\N	\N	\N	egress IPv4 any - anywhere
eb577ddf-6484-4219-88bf-c7e392500867	0123456789abcdef0123456789abcdef		\N	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	egress	IPv6	\N	\N	\N	\N	\N	\N	\N	egress IPv6 any - anywhere
e23a65e3-b525-478b-b763-dde45905e843	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	ingress	IPv4	tcp	80	443	0.0.0.0/0	0.0.0.0/0	\N	\N	ingress IPv4 6 80-443 anywhere
6993386e-9d2f-4892-9605-df3c7059b05e	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	ingress	IPv4	icmp	\N	\N	\N	\N	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	\N	ingress IPv4 1 - group:6f90509b-3dd1-4611-9ad6-5b7bf6630bc8
5ba6cb82-b5f5-487a-ac27-59704c13ec2a	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	ingress	IPv4	tcp	22	22	\N	\N	\N	7f6563aa-f870-417b-b2d5-5efbaa74f702	ingress IPv4 6 22-22 addresses:7f6563aa-f870-417b-b2d5-5efbaa74f702
33188ae2-bae1-457c-94fb-e1c9f30c0174	0123456789abcdef0123456789abcdef			2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	ingress	IPv6	ipv6-icmp	\N	\N	\N	\N	\N	\N	ingress IPv6 58 - anywhere
\.
COPY public.security_groups (id, project_id, name, description, created_at, updated_at, revision_number, tags, stateful, is_default) FROM stdin;
08857e1e-ad52-49f2-8cde-6c5d6793fbd8	0123456789abcdef0123456789abcdef	default	Default security group	2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	1	[]	t	t
6f90509b-3dd1-4611-9ad6-5b7bf6630bc8	0123456789abcdef0123456789abcdef	web	web servers	2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	5	[]	t	f
\.
COPY public.service_profiles (id, description, driver, metainfo, enabled) FROM stdin;
94950fc8-749a-4e57-ace7-18ef720bd895	ha	ha		t
\.
COPY public.subnet_attributes (object_id, name, value) FROM stdin;
\.
COPY public.subnetpools (id, project_id, name, description, created_at, updated_at, revision_number, tags, ip_version, default_prefixlen, min_prefixlen, max_prefixlen, is_default, default_quota, address_scope_id, prefixes, allocation_version) FROM stdin;
5e10b564-ad31-4111-93f4-a96ddccb3e25	0123456789abcdef0123456789abcdef	pool		2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	4	24	8	32	f	\N	2f36e9ee-28b0-4f4c-8fa6-765357492b18	["10.64.0.0/16"]	1
\.
COPY public.subnets (id, project_id, name, description, created_at, updated_at, revision_number, tags, network_id, ip_version, cidr, gateway_ip, enable_dhcp, ipv6_ra_mode, ipv6_address_mode, subnetpool_id, prefix_delegated, segment_id, dns_publish_fixed_ip, allocation_pools, dns_nameservers, host_routes, service_types) FROM stdin;
6e10dbb5-8942-4ccf-bdef-f90d71446dbf	0123456789abcdef0123456789abcdef	public-v4		2026-11-16T13:15:56Z	2026-11-16T13:15:56Z	0	[]	60eb2dec-59ad-4a4c-bf77-02b0a70d9c48	4	172.24.4.0/24	172.24.4.1	f	\N	\N	\N	f	\N	f	[{"start":"172.24.4.2","end":"172.24.4.254"}]	[]	[]	[]
652b995f-a273-4ff1-ad5c-7ea73c3aa0f1	0123456789abcdef0123456789abcdef	blue-v4		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	242831f1-30da-4790-a7e1-af981aa66b31	4	10.0.0.0/24	10.0.0.1	t	\N	\N	\N	f	\N	f	[{"start":"10.0.0.2","end":"10.0.0.254"}]	["192.0.2.53"]	[{"destination":"10.9.0.0/16","nexthop":"10.0.0.9"}]	[]
d1006eaa-b40d-4310-99d8-5efaffedbb25	0123456789abcdef0123456789abcdef	blue-v6		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	242831f1-30da-4790-a7e1-af981aa66b31	6	2001:db8:1::/64	2001:db8:1::	t	slaac	slaac	\N	f	\N	f	[{"start":"2001:db8:1::1","end":"2001:db8:1:0:ffff:ffff:ffff:ffff"}]	[]	[]	[]
c72c972e-aad1-4f78-b559-701acddcf275	0123456789abcdef0123456789abcdef	green-v4		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	f2bf0b0b-e930-421d-a952-0da884762a67	4	10.64.0.0/24	10.64.0.1	t	\N	\N	5e10b564-ad31-4111-93f4-a96ddccb3e25	f	\N	f	[{"start":"10.64.0.2","end":"10.64.0.254"}]	[]	[]	[]
5540e093-6db4-4184-a8f6-6fb5bfd04993		HA subnet tenant 0123456789abcdef0123456789abcdef		2026-11-16T13:15:57Z	2026-11-16T13:15:57Z	0	[]	200c1bf1-d2c4-467a-adf8-372d0710797b	4	169.254.192.0/18	\N	f	\N	\N	\N	f	\N	f	[{"start":"169.254.192.1","end":"169.254.255.254"}]	[]	[]	[]
\.
COPY public.tags (object_id, tag) FROM stdin;
242831f1-30da-4790-a7e1-af981aa66b31	prod
242831f1-30da-4790-a7e1-af981aa66b31	tier=1
15c07166-b487-4c78-b935-6502e038c774	prod
15c07166-b487-4c78-b935-6502e038c774	tier=1
531a29b2-5a6b-4d9e-b5dd-434da6bd4039	prod
531a29b2-5a6b-4d9e-b5dd-434da6bd4039	tier=1
\.
SELECT pg_catalog.setval('public.changes_id_seq', 81, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.address_groups
    ADD CONSTRAINT pk_address_groups PRIMARY KEY (id);
ALTER TABLE ONLY public.address_scopes
    ADD CONSTRAINT pk_address_scopes PRIMARY KEY (id);
ALTER TABLE ONLY public.agents
    ADD CONSTRAINT pk_agents PRIMARY KEY (id);
ALTER TABLE ONLY public.auto_allocated_topologies
    ADD CONSTRAINT pk_auto_allocated_topologies PRIMARY KEY (project_id);
ALTER TABLE ONLY public.change_head
    ADD CONSTRAINT pk_change_head PRIMARY KEY (id);
ALTER TABLE ONLY public.changes
    ADD CONSTRAINT pk_changes PRIMARY KEY (id);
ALTER TABLE ONLY public.conntrack_helpers
    ADD CONSTRAINT pk_conntrack_helpers PRIMARY KEY (id);
ALTER TABLE ONLY public.default_firewall_groups
    ADD CONSTRAINT pk_default_firewall_groups PRIMARY KEY (project_id);
ALTER TABLE ONLY public.default_qos_policies
    ADD CONSTRAINT pk_default_qos_policies PRIMARY KEY (project_id);
ALTER TABLE ONLY public.default_security_groups
    ADD CONSTRAINT pk_default_security_groups PRIMARY KEY (project_id);
ALTER TABLE ONLY public.distributed_port_hosts
    ADD CONSTRAINT pk_distributed_port_hosts PRIMARY KEY (port_id, host);
ALTER TABLE ONLY public.dvr_host_macs
    ADD CONSTRAINT pk_dvr_host_macs PRIMARY KEY (host);
ALTER TABLE ONLY public.firewall_group_hosts
    ADD CONSTRAINT pk_firewall_group_hosts PRIMARY KEY (firewall_group_id, host, role);
ALTER TABLE ONLY public.firewall_group_ports
    ADD CONSTRAINT pk_firewall_group_ports PRIMARY KEY (port_id);
ALTER TABLE ONLY public.firewall_groups
    ADD CONSTRAINT pk_firewall_groups PRIMARY KEY (id);
ALTER TABLE ONLY public.firewall_policies
    ADD CONSTRAINT pk_firewall_policies PRIMARY KEY (id);
ALTER TABLE ONLY public.firewall_policy_rules
    ADD CONSTRAINT pk_firewall_policy_rules PRIMARY KEY (firewall_policy_id, firewall_rule_id);
ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT pk_firewall_rules PRIMARY KEY (id);
ALTER TABLE ONLY public.flavor_service_profiles
    ADD CONSTRAINT pk_flavor_service_profiles PRIMARY KEY (flavor_id, service_profile_id);
ALTER TABLE ONLY public.flavors
    ADD CONSTRAINT pk_flavors PRIMARY KEY (id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT pk_floatingips PRIMARY KEY (id);
ALTER TABLE ONLY public.ha_networks
    ADD CONSTRAINT pk_ha_networks PRIMARY KEY (project_id);
ALTER TABLE ONLY public.host_credentials
    ADD CONSTRAINT pk_host_credentials PRIMARY KEY (host);
ALTER TABLE ONLY public.ip_allocations
    ADD CONSTRAINT pk_ip_allocations PRIMARY KEY (subnet_id, ip_address);
ALTER TABLE ONLY public.journal
    ADD CONSTRAINT pk_journal PRIMARY KEY (id);
ALTER TABLE ONLY public.network_attributes
    ADD CONSTRAINT pk_network_attributes PRIMARY KEY (object_id, name);
ALTER TABLE ONLY public.network_dhcp_agents
    ADD CONSTRAINT pk_network_dhcp_agents PRIMARY KEY (network_id, agent_id);
ALTER TABLE ONLY public.network_segments
    ADD CONSTRAINT pk_network_segments PRIMARY KEY (id);
ALTER TABLE ONLY public.networks
    ADD CONSTRAINT pk_networks PRIMARY KEY (id);
ALTER TABLE ONLY public.port_attributes
    ADD CONSTRAINT pk_port_attributes PRIMARY KEY (object_id, name);
ALTER TABLE ONLY public.port_bindings
    ADD CONSTRAINT pk_port_bindings PRIMARY KEY (port_id, host);
ALTER TABLE ONLY public.port_forwardings
    ADD CONSTRAINT pk_port_forwardings PRIMARY KEY (id);
ALTER TABLE ONLY public.port_security_groups
    ADD CONSTRAINT pk_port_security_groups PRIMARY KEY (port_id, security_group_id);
ALTER TABLE ONLY public.ports
    ADD CONSTRAINT pk_ports PRIMARY KEY (id);
ALTER TABLE ONLY public.provisioning_blocks
    ADD CONSTRAINT pk_provisioning_blocks PRIMARY KEY (port_id, component);
ALTER TABLE ONLY public.qos_policies
    ADD CONSTRAINT pk_qos_policies PRIMARY KEY (id);
ALTER TABLE ONLY public.qos_rules
    ADD CONSTRAINT pk_qos_rules PRIMARY KEY (id);
ALTER TABLE ONLY public.quota_usages
    ADD CONSTRAINT pk_quota_usages PRIMARY KEY (project_id, resource);
ALTER TABLE ONLY public.quotas
    ADD CONSTRAINT pk_quotas PRIMARY KEY (project_id, resource);
ALTER TABLE ONLY public.rbac_policies
    ADD CONSTRAINT pk_rbac_policies PRIMARY KEY (id);
ALTER TABLE ONLY public.router_l3_agents
    ADD CONSTRAINT pk_router_l3_agents PRIMARY KEY (router_id, agent_id);
ALTER TABLE ONLY public.router_ports
    ADD CONSTRAINT pk_router_ports PRIMARY KEY (port_id);
ALTER TABLE ONLY public.routers
    ADD CONSTRAINT pk_routers PRIMARY KEY (id);
ALTER TABLE ONLY public.security_group_rules
    ADD CONSTRAINT pk_security_group_rules PRIMARY KEY (id);
ALTER TABLE ONLY public.security_groups
    ADD CONSTRAINT pk_security_groups PRIMARY KEY (id);
ALTER TABLE ONLY public.service_profiles
    ADD CONSTRAINT pk_service_profiles PRIMARY KEY (id);
ALTER TABLE ONLY public.subnet_attributes
    ADD CONSTRAINT pk_subnet_attributes PRIMARY KEY (object_id, name);
ALTER TABLE ONLY public.subnetpools
    ADD CONSTRAINT pk_subnetpools PRIMARY KEY (id);
ALTER TABLE ONLY public.subnets
    ADD CONSTRAINT pk_subnets PRIMARY KEY (id);
ALTER TABLE ONLY public.tags
    ADD CONSTRAINT pk_tags PRIMARY KEY (object_id, tag);
ALTER TABLE ONLY public.agents
    ADD CONSTRAINT uq_agents_host_agent_type UNIQUE (host, agent_type);
ALTER TABLE ONLY public.conntrack_helpers
    ADD CONSTRAINT uq_conntrack_helpers_router_id_protocol_port_helper UNIQUE (router_id, protocol, port, helper);
ALTER TABLE ONLY public.dvr_host_macs
    ADD CONSTRAINT uq_dvr_host_macs_mac_address UNIQUE (mac_address);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT uq_floatingips_floating_port_id UNIQUE (floating_port_id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT uq_floatingips_port_id_fixed_ip_address_floating_network_id UNIQUE (port_id, fixed_ip_address, floating_network_id);
ALTER TABLE ONLY public.network_segments
    ADD CONSTRAINT uq_network_segments_identity UNIQUE (identity);
ALTER TABLE ONLY public.port_forwardings
    ADD CONSTRAINT uq_port_forwardings_inside UNIQUE (internal_port_id, internal_ip_address, protocol, internal_port_range);
ALTER TABLE ONLY public.ports
    ADD CONSTRAINT uq_ports_network_id_mac_address UNIQUE (network_id, mac_address);
ALTER TABLE ONLY public.qos_rules
    ADD CONSTRAINT uq_qos_rules_qos_policy_id_type_direction UNIQUE (qos_policy_id, type, direction);
ALTER TABLE ONLY public.rbac_policies
    ADD CONSTRAINT uq_rbac_policies_object_id_action_target_project_object_type UNIQUE (object_id, action, target_project, object_type);
ALTER TABLE ONLY public.routers
    ADD CONSTRAINT uq_routers_ha_network_id_ha_vr_id UNIQUE (ha_network_id, ha_vr_id);
ALTER TABLE ONLY public.security_group_rules
    ADD CONSTRAINT uq_security_group_rules_security_group_id_identity UNIQUE (security_group_id, identity);
CREATE INDEX ix_address_groups_project_id ON public.address_groups USING btree (project_id);
CREATE INDEX ix_address_scopes_project_id ON public.address_scopes USING btree (project_id);
CREATE INDEX ix_auto_allocated_topologies_network_id ON public.auto_allocated_topologies USING btree (network_id);
CREATE INDEX ix_conntrack_helpers_router_id ON public.conntrack_helpers USING btree (router_id);
CREATE INDEX ix_default_firewall_groups_firewall_group_id ON public.default_firewall_groups USING btree (firewall_group_id);
CREATE INDEX ix_default_qos_policies_qos_policy_id ON public.default_qos_policies USING btree (qos_policy_id);
CREATE INDEX ix_default_security_groups_security_group_id ON public.default_security_groups USING btree (security_group_id);
CREATE INDEX ix_firewall_group_ports_firewall_group_id ON public.firewall_group_ports USING btree (firewall_group_id);
CREATE INDEX ix_firewall_groups_egress_firewall_policy_id ON public.firewall_groups USING btree (egress_firewall_policy_id);
CREATE INDEX ix_firewall_groups_ingress_firewall_policy_id ON public.firewall_groups USING btree (ingress_firewall_policy_id);
CREATE INDEX ix_firewall_groups_project_id ON public.firewall_groups USING btree (project_id);
CREATE INDEX ix_firewall_groups_shared ON public.firewall_groups USING btree (shared);
CREATE INDEX ix_firewall_policies_project_id ON public.firewall_policies USING btree (project_id);
CREATE INDEX ix_firewall_policies_shared ON public.firewall_policies USING btree (shared);
CREATE INDEX ix_firewall_policy_rules_firewall_rule_id ON public.firewall_policy_rules USING btree (firewall_rule_id);
CREATE INDEX ix_firewall_rules_project_id ON public.firewall_rules USING btree (project_id);
CREATE INDEX ix_firewall_rules_shared ON public.firewall_rules USING btree (shared);
CREATE INDEX ix_flavor_service_profiles_service_profile_id ON public.flavor_service_profiles USING btree (service_profile_id);
CREATE INDEX ix_floatingips_floating_ip_address ON public.floatingips USING btree (floating_ip_address);
CREATE INDEX ix_floatingips_floating_network_id ON public.floatingips USING btree (floating_network_id);
CREATE INDEX ix_floatingips_port_id ON public.floatingips USING btree (port_id);
CREATE INDEX ix_floatingips_project_id ON public.floatingips USING btree (project_id);
CREATE INDEX ix_floatingips_qos_policy_id ON public.floatingips USING btree (qos_policy_id);
CREATE INDEX ix_floatingips_router_id ON public.floatingips USING btree (router_id);
CREATE INDEX ix_ha_networks_network_id ON public.ha_networks USING btree (network_id);
CREATE INDEX ix_ip_allocations_network_id ON public.ip_allocations USING btree (network_id);
CREATE INDEX ix_ip_allocations_port_id ON public.ip_allocations USING btree (port_id);
CREATE INDEX ix_network_dhcp_agents_agent_id ON public.network_dhcp_agents USING btree (agent_id);
CREATE INDEX ix_network_segments_network_id ON public.network_segments USING btree (network_id);
CREATE INDEX ix_networks_external ON public.networks USING btree (external);
CREATE INDEX ix_networks_project_id ON public.networks USING btree (project_id);
CREATE INDEX ix_networks_qos_policy_id ON public.networks USING btree (qos_policy_id);
CREATE INDEX ix_port_bindings_host ON public.port_bindings USING btree (host);
CREATE INDEX ix_port_forwardings_floatingip_id ON public.port_forwardings USING btree (floatingip_id);
CREATE INDEX ix_port_forwardings_internal_port_id ON public.port_forwardings USING btree (internal_port_id);
CREATE INDEX ix_port_security_groups_security_group_id ON public.port_security_groups USING btree (security_group_id);
CREATE INDEX ix_ports_device_id ON public.ports USING btree (device_id);
CREATE INDEX ix_ports_host ON public.ports USING btree (host);
CREATE INDEX ix_ports_network_id ON public.ports USING btree (network_id);
CREATE INDEX ix_ports_project_id ON public.ports USING btree (project_id);
CREATE INDEX ix_ports_qos_policy_id ON public.ports USING btree (qos_policy_id);
CREATE INDEX ix_qos_policies_project_id ON public.qos_policies USING btree (project_id);
CREATE INDEX ix_qos_rules_qos_policy_id ON public.qos_rules USING btree (qos_policy_id);
CREATE INDEX ix_rbac_policies_object_id ON public.rbac_policies USING btree (object_id);
CREATE INDEX ix_rbac_policies_project_id ON public.rbac_policies USING btree (project_id);
CREATE INDEX ix_rbac_policies_target_project ON public.rbac_policies USING btree (target_project);
CREATE INDEX ix_router_l3_agents_agent_id ON public.router_l3_agents USING btree (agent_id);
CREATE INDEX ix_router_ports_router_id ON public.router_ports USING btree (router_id);
CREATE INDEX ix_routers_flavor_id ON public.routers USING btree (flavor_id);
CREATE INDEX ix_routers_gw_network_id ON public.routers USING btree (gw_network_id);
CREATE INDEX ix_routers_gw_qos_policy_id ON public.routers USING btree (gw_qos_policy_id);
CREATE INDEX ix_routers_project_id ON public.routers USING btree (project_id);
CREATE INDEX ix_security_group_rules_project_id ON public.security_group_rules USING btree (project_id);
CREATE INDEX ix_security_group_rules_remote_address_group_id ON public.security_group_rules USING btree (remote_address_group_id);
CREATE INDEX ix_security_group_rules_remote_group_id ON public.security_group_rules USING btree (remote_group_id);
CREATE INDEX ix_security_group_rules_security_group_id ON public.security_group_rules USING btree (security_group_id);
CREATE INDEX ix_security_groups_project_id ON public.security_groups USING btree (project_id);
CREATE INDEX ix_subnetpools_address_scope_id ON public.subnetpools USING btree (address_scope_id);
CREATE INDEX ix_subnetpools_project_id ON public.subnetpools USING btree (project_id);
CREATE INDEX ix_subnets_network_id ON public.subnets USING btree (network_id);
CREATE INDEX ix_subnets_project_id ON public.subnets USING btree (project_id);
CREATE INDEX ix_subnets_subnetpool_id ON public.subnets USING btree (subnetpool_id);
CREATE INDEX ix_tags_tag ON public.tags USING btree (tag);
CREATE UNIQUE INDEX uq_changes_position ON public.changes USING btree ("position");
ALTER TABLE ONLY public.auto_allocated_topologies
    ADD CONSTRAINT fk_auto_allocated_topologies_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.conntrack_helpers
    ADD CONSTRAINT fk_conntrack_helpers_router_id FOREIGN KEY (router_id) REFERENCES public.routers(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.default_firewall_groups
    ADD CONSTRAINT fk_default_firewall_groups_firewall_group_id FOREIGN KEY (firewall_group_id) REFERENCES public.firewall_groups(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.default_qos_policies
    ADD CONSTRAINT fk_default_qos_policies_qos_policy_id FOREIGN KEY (qos_policy_id) REFERENCES public.qos_policies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.default_security_groups
    ADD CONSTRAINT fk_default_security_groups_security_group_id FOREIGN KEY (security_group_id) REFERENCES public.security_groups(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.distributed_port_hosts
    ADD CONSTRAINT fk_distributed_port_hosts_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.firewall_group_hosts
    ADD CONSTRAINT fk_firewall_group_hosts_firewall_group_id FOREIGN KEY (firewall_group_id) REFERENCES public.firewall_groups(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.firewall_group_ports
    ADD CONSTRAINT fk_firewall_group_ports_firewall_group_id FOREIGN KEY (firewall_group_id) REFERENCES public.firewall_groups(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.firewall_group_ports
    ADD CONSTRAINT fk_firewall_group_ports_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.firewall_groups
    ADD CONSTRAINT fk_firewall_groups_egress_firewall_policy_id FOREIGN KEY (egress_firewall_policy_id) REFERENCES public.firewall_policies(id);
ALTER TABLE ONLY public.firewall_groups
    ADD CONSTRAINT fk_firewall_groups_ingress_firewall_policy_id FOREIGN KEY (ingress_firewall_policy_id) REFERENCES public.firewall_policies(id);
ALTER TABLE ONLY public.firewall_policy_rules
    ADD CONSTRAINT fk_firewall_policy_rules_firewall_policy_id FOREIGN KEY (firewall_policy_id) REFERENCES public.firewall_policies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.firewall_policy_rules
    ADD CONSTRAINT fk_firewall_policy_rules_firewall_rule_id FOREIGN KEY (firewall_rule_id) REFERENCES public.firewall_rules(id);
ALTER TABLE ONLY public.flavor_service_profiles
    ADD CONSTRAINT fk_flavor_service_profiles_flavor_id FOREIGN KEY (flavor_id) REFERENCES public.flavors(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.flavor_service_profiles
    ADD CONSTRAINT fk_flavor_service_profiles_service_profile_id FOREIGN KEY (service_profile_id) REFERENCES public.service_profiles(id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT fk_floatingips_floating_port_id FOREIGN KEY (floating_port_id) REFERENCES public.ports(id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT fk_floatingips_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT fk_floatingips_qos_policy_id FOREIGN KEY (qos_policy_id) REFERENCES public.qos_policies(id);
ALTER TABLE ONLY public.floatingips
    ADD CONSTRAINT fk_floatingips_router_id FOREIGN KEY (router_id) REFERENCES public.routers(id);
ALTER TABLE ONLY public.ha_networks
    ADD CONSTRAINT fk_ha_networks_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.ip_allocations
    ADD CONSTRAINT fk_ip_allocations_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.ip_allocations
    ADD CONSTRAINT fk_ip_allocations_subnet_id FOREIGN KEY (subnet_id) REFERENCES public.subnets(id);
ALTER TABLE ONLY public.network_attributes
    ADD CONSTRAINT fk_network_attributes_object_id FOREIGN KEY (object_id) REFERENCES public.networks(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.network_dhcp_agents
    ADD CONSTRAINT fk_network_dhcp_agents_agent_id FOREIGN KEY (agent_id) REFERENCES public.agents(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.network_dhcp_agents
    ADD CONSTRAINT fk_network_dhcp_agents_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.network_segments
    ADD CONSTRAINT fk_network_segments_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.networks
    ADD CONSTRAINT fk_networks_qos_policy_id FOREIGN KEY (qos_policy_id) REFERENCES public.qos_policies(id);
ALTER TABLE ONLY public.port_attributes
    ADD CONSTRAINT fk_port_attributes_object_id FOREIGN KEY (object_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.port_bindings
    ADD CONSTRAINT fk_port_bindings_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.port_forwardings
    ADD CONSTRAINT fk_port_forwardings_floatingip_id FOREIGN KEY (floatingip_id) REFERENCES public.floatingips(id);
ALTER TABLE ONLY public.port_forwardings
    ADD CONSTRAINT fk_port_forwardings_internal_port_id FOREIGN KEY (internal_port_id) REFERENCES public.ports(id);
ALTER TABLE ONLY public.port_security_groups
    ADD CONSTRAINT fk_port_security_groups_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.port_security_groups
    ADD CONSTRAINT fk_port_security_groups_security_group_id FOREIGN KEY (security_group_id) REFERENCES public.security_groups(id);
ALTER TABLE ONLY public.ports
    ADD CONSTRAINT fk_ports_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id);
ALTER TABLE ONLY public.ports
    ADD CONSTRAINT fk_ports_qos_policy_id FOREIGN KEY (qos_policy_id) REFERENCES public.qos_policies(id);
ALTER TABLE ONLY public.provisioning_blocks
    ADD CONSTRAINT fk_provisioning_blocks_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.qos_rules
    ADD CONSTRAINT fk_qos_rules_qos_policy_id FOREIGN KEY (qos_policy_id) REFERENCES public.qos_policies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.router_l3_agents
    ADD CONSTRAINT fk_router_l3_agents_agent_id FOREIGN KEY (agent_id) REFERENCES public.agents(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.router_l3_agents
    ADD CONSTRAINT fk_router_l3_agents_router_id FOREIGN KEY (router_id) REFERENCES public.routers(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.router_ports
    ADD CONSTRAINT fk_router_ports_port_id FOREIGN KEY (port_id) REFERENCES public.ports(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.router_ports
    ADD CONSTRAINT fk_router_ports_router_id FOREIGN KEY (router_id) REFERENCES public.routers(id);
ALTER TABLE ONLY public.routers
    ADD CONSTRAINT fk_routers_flavor_id FOREIGN KEY (flavor_id) REFERENCES public.flavors(id);
ALTER TABLE ONLY public.routers
    ADD CONSTRAINT fk_routers_gw_qos_policy_id FOREIGN KEY (gw_qos_policy_id) REFERENCES public.qos_policies(id);
ALTER TABLE ONLY public.security_group_rules
    ADD CONSTRAINT fk_security_group_rules_remote_address_group_id FOREIGN KEY (remote_address_group_id) REFERENCES public.address_groups(id);
ALTER TABLE ONLY public.security_group_rules
    ADD CONSTRAINT fk_security_group_rules_remote_group_id FOREIGN KEY (remote_group_id) REFERENCES public.security_groups(id);
ALTER TABLE ONLY public.security_group_rules
    ADD CONSTRAINT fk_security_group_rules_security_group_id FOREIGN KEY (security_group_id) REFERENCES public.security_groups(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.subnet_attributes
    ADD CONSTRAINT fk_subnet_attributes_object_id FOREIGN KEY (object_id) REFERENCES public.subnets(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.subnetpools
    ADD CONSTRAINT fk_subnetpools_address_scope_id FOREIGN KEY (address_scope_id) REFERENCES public.address_scopes(id);
ALTER TABLE ONLY public.subnets
    ADD CONSTRAINT fk_subnets_network_id FOREIGN KEY (network_id) REFERENCES public.networks(id);
ALTER TABLE ONLY public.subnets
    ADD CONSTRAINT fk_subnets_subnetpool_id FOREIGN KEY (subnetpool_id) REFERENCES public.subnetpools(id);
