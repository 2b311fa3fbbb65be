BEGIN TRANSACTION;
CREATE TABLE address_groups (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	addresses TEXT NOT NULL, 
	CONSTRAINT pk_address_groups PRIMARY KEY (id)
);
INSERT INTO "address_groups" VALUES('4013b7e3-6400-428a-97af-b55e7683278e','0123456789abcdef0123456789abcdef','office','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',2,'[]','["198.51.100.0/24","2001:db8:ffff::/48"]');
CREATE TABLE address_scopes (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	ip_version INTEGER NOT NULL, 
	CONSTRAINT pk_address_scopes PRIMARY KEY (id)
);
INSERT INTO "address_scopes" VALUES('dbfe0919-cc61-432a-87d5-5d9b161a6917','0123456789abcdef0123456789abcdef','scope','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',2,'[]',4);
CREATE TABLE agents (
	id VARCHAR(36) NOT NULL, 
	agent_type VARCHAR(255) NOT NULL, 
	binary VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	availability_zone VARCHAR(255), 
	description VARCHAR(255), 
	admin_state_up BOOLEAN NOT NULL, 
	created_at VARCHAR(20) NOT NULL, 
	started_at VARCHAR(20) NOT NULL, 
	heartbeat_timestamp VARCHAR(20) NOT NULL, 
	load INTEGER NOT NULL, 
	resources_synced BOOLEAN, 
	configurations TEXT NOT NULL, 
	resource_versions TEXT NOT NULL, 
	CONSTRAINT pk_agents PRIMARY KEY (id), 
	CONSTRAINT uq_agents_host_agent_type UNIQUE (host, agent_type)
);
INSERT INTO "agents" VALUES('f02f8169-571b-4b7b-8b06-89d9d44f248d','Open vSwitch agent','neutron-openvswitch-agent','N/A','h1',NULL,NULL,1,'2026-11-16T13:15:53Z','2026-11-16T13:15:55Z','2026-11-16T13:15:55Z',0,NULL,'{"bridge_mappings":{"physnet1":"br-ex"},"dataplane":"ok","devices":2,"l2_population":true,"tunnel_types":["vxlan"],"tunneling_ip":"192.0.2.1","feed_behind":0}','{}');
INSERT INTO "agents" VALUES('80c20307-6790-4186-bfb3-ea92513f4eb8','Open vSwitch agent','neutron-openvswitch-agent','topic','h2',NULL,NULL,1,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,NULL,'{"bridge_mappings":{"physnet1":"br-ex"},"tunnel_types":["vxlan"],"tunneling_ip":"192.0.2.2"}','{}');
INSERT INTO "agents" VALUES('c818aa19-77df-406a-90b9-740582960286','L3 agent','neutron-l3-agent','l3_agent','h1',NULL,NULL,1,'2026-11-16T13:15:53Z','2026-11-16T13:15:55Z','2026-11-16T13:15:55Z',0,NULL,'{"agent_mode":"dvr_snat","feed_behind":0}','{}');
INSERT INTO "agents" VALUES('dde7da27-b819-4c7a-b2ff-ad7c8c8a8d25','L3 agent','neutron-l3-agent','l3_agent','h2',NULL,NULL,1,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,NULL,'{"agent_mode":"dvr_snat","external_network_bridge":""}','{}');
INSERT INTO "agents" VALUES('5938bead-501a-4272-8862-a47ed6526968','DHCP agent','neutron-dhcp-agent','dhcp_agent','h1',NULL,NULL,1,'2026-11-16T13:15:54Z','2026-11-16T13:15:55Z','2026-11-16T13:15:55Z',2,NULL,'{"networks":2,"feed_behind":0}','{}');
INSERT INTO "agents" VALUES('8d893078-e3dd-474f-b95d-215f98797abe','Metadata agent','neutron-metadata-agent','N/A','h1',NULL,NULL,1,'2026-11-16T13:15:54Z','2026-11-16T13:15:55Z','2026-11-16T13:15:55Z',0,NULL,'{"feed_behind":0}','{}');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
CREATE TABLE auto_allocated_topologies (
	project_id VARCHAR(255) NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	router_id VARCHAR(36), 
	CONSTRAINT pk_auto_allocated_topologies PRIMARY KEY (project_id), 
	CONSTRAINT fk_auto_allocated_topologies_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE CASCADE
);
CREATE TABLE change_head (
	id INTEGER NOT NULL, 
	identity VARCHAR(36) NOT NULL, 
	position BIGINT NOT NULL, 
	removed BIGINT NOT NULL, 
	CONSTRAINT pk_change_head PRIMARY KEY (id)
);
INSERT INTO "change_head" VALUES(1,'0677d146-96ca-4cfa-bd74-5ccc0df66ce1',84,0);
CREATE TABLE changes (
	id INTEGER NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	object_id VARCHAR(36) NOT NULL, 
	deleted BOOLEAN NOT NULL, 
	at VARCHAR(20) NOT NULL, 
	position BIGINT, 
	CONSTRAINT pk_changes PRIMARY KEY (id)
);
INSERT INTO "changes" VALUES(1,'agent','f02f8169-571b-4b7b-8b06-89d9d44f248d',0,'2026-11-16T13:15:53Z',1);
INSERT INTO "changes" VALUES(2,'agent','80c20307-6790-4186-bfb3-ea92513f4eb8',0,'2026-11-16T13:15:53Z',2);
INSERT INTO "changes" VALUES(3,'agent','c818aa19-77df-406a-90b9-740582960286',0,'2026-11-16T13:15:53Z',3);
INSERT INTO "changes" VALUES(4,'agent','dde7da27-b819-4c7a-b2ff-ad7c8c8a8d25',0,'2026-11-16T13:15:53Z',4);
INSERT INTO "changes" VALUES(5,'security_group','59dae15f-86ee-4250-82d7-007876a58dbf',0,'2026-11-16T13:15:53Z',5);
INSERT INTO "changes" VALUES(6,'network','16ddf33d-19f6-47ce-8537-2064d139f75c',0,'2026-11-16T13:15:53Z',6);
INSERT INTO "changes" VALUES(7,'network','16ddf33d-19f6-47ce-8537-2064d139f75c',0,'2026-11-16T13:15:53Z',7);
INSERT INTO "changes" VALUES(8,'subnet','a748ba1a-ed18-4272-8cc0-9470524b67dc',0,'2026-11-16T13:15:53Z',8);
INSERT INTO "changes" VALUES(9,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',9);
INSERT INTO "changes" VALUES(10,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',10);
INSERT INTO "changes" VALUES(11,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',11);
INSERT INTO "changes" VALUES(12,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',12);
INSERT INTO "changes" VALUES(13,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',13);
INSERT INTO "changes" VALUES(14,'qos_policy','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',0,'2026-11-16T13:15:53Z',14);
INSERT INTO "changes" VALUES(15,'network','4b3c68d1-1886-43f6-9e45-b23dab97b170',0,'2026-11-16T13:15:53Z',15);
INSERT INTO "changes" VALUES(16,'network','4b3c68d1-1886-43f6-9e45-b23dab97b170',0,'2026-11-16T13:15:53Z',16);
INSERT INTO "changes" VALUES(17,'subnet','e19c77b4-7615-4af6-af9e-70717181c54f',0,'2026-11-16T13:15:53Z',17);
INSERT INTO "changes" VALUES(18,'network','4b3c68d1-1886-43f6-9e45-b23dab97b170',0,'2026-11-16T13:15:53Z',18);
INSERT INTO "changes" VALUES(19,'subnet','ebb0f5e2-38bb-43c3-b792-905a760862bf',0,'2026-11-16T13:15:53Z',19);
INSERT INTO "changes" VALUES(20,'network','882a8d65-a6de-4545-95f9-ea2b4d7d6410',0,'2026-11-16T13:15:53Z',20);
INSERT INTO "changes" VALUES(21,'network','882a8d65-a6de-4545-95f9-ea2b4d7d6410',0,'2026-11-16T13:15:53Z',21);
INSERT INTO "changes" VALUES(22,'subnet','d669d0e2-a1b1-4622-8479-f174dba8b4aa',0,'2026-11-16T13:15:53Z',22);
INSERT INTO "changes" VALUES(23,'network','5a000abb-b57e-4b66-ba99-d3306d38a5b9',0,'2026-11-16T13:15:53Z',23);
INSERT INTO "changes" VALUES(24,'address_group','4013b7e3-6400-428a-97af-b55e7683278e',0,'2026-11-16T13:15:53Z',24);
INSERT INTO "changes" VALUES(25,'security_group','658dc46b-d918-4639-b81d-47e2c2ddfe49',0,'2026-11-16T13:15:53Z',25);
INSERT INTO "changes" VALUES(26,'security_group','658dc46b-d918-4639-b81d-47e2c2ddfe49',0,'2026-11-16T13:15:53Z',26);
INSERT INTO "changes" VALUES(27,'security_group','658dc46b-d918-4639-b81d-47e2c2ddfe49',0,'2026-11-16T13:15:53Z',27);
INSERT INTO "changes" VALUES(28,'security_group','658dc46b-d918-4639-b81d-47e2c2ddfe49',0,'2026-11-16T13:15:53Z',28);
INSERT INTO "changes" VALUES(29,'security_group','658dc46b-d918-4639-b81d-47e2c2ddfe49',0,'2026-11-16T13:15:53Z',29);
INSERT INTO "changes" VALUES(30,'port','babd52ca-bab3-4437-910f-27f5877f5036',0,'2026-11-16T13:15:53Z',30);
INSERT INTO "changes" VALUES(31,'port','6ef81cf1-985b-498e-a21e-6ab476b7c6d7',0,'2026-11-16T13:15:53Z',31);
INSERT INTO "changes" VALUES(32,'port','f1b2da5a-c893-416c-a163-3a4e61a81546',0,'2026-11-16T13:15:53Z',32);
INSERT INTO "changes" VALUES(33,'port','1bacd1dd-76d5-4c82-9552-4351e5935ca3',0,'2026-11-16T13:15:53Z',33);
INSERT INTO "changes" VALUES(34,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',34);
INSERT INTO "changes" VALUES(35,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',35);
INSERT INTO "changes" VALUES(36,'port','310254b9-db99-4edf-b682-484e63fffca2',0,'2026-11-16T13:15:53Z',36);
INSERT INTO "changes" VALUES(37,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',37);
INSERT INTO "changes" VALUES(38,'port','0d62b930-41c3-4ba1-876e-c2ff9c774121',0,'2026-11-16T13:15:53Z',38);
INSERT INTO "changes" VALUES(39,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',39);
INSERT INTO "changes" VALUES(40,'network','ad477bcd-adad-45b8-957c-c32ca512bf42',0,'2026-11-16T13:15:53Z',40);
INSERT INTO "changes" VALUES(41,'network','ad477bcd-adad-45b8-957c-c32ca512bf42',0,'2026-11-16T13:15:53Z',41);
INSERT INTO "changes" VALUES(42,'subnet','99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f',0,'2026-11-16T13:15:53Z',42);
INSERT INTO "changes" VALUES(43,'router','70d0318b-939d-45ec-bf0f-36c6e1d47554',0,'2026-11-16T13:15:53Z',43);
INSERT INTO "changes" VALUES(44,'port','f14a151f-3cb7-4187-b9ca-8cb1b1dac032',0,'2026-11-16T13:15:53Z',44);
INSERT INTO "changes" VALUES(45,'port','5beea649-f65f-4ee0-83db-f231f1abd6b0',0,'2026-11-16T13:15:53Z',45);
INSERT INTO "changes" VALUES(46,'router','70d0318b-939d-45ec-bf0f-36c6e1d47554',0,'2026-11-16T13:15:53Z',46);
INSERT INTO "changes" VALUES(47,'port','db16480f-564c-4005-b0cf-a34c60ddeb46',0,'2026-11-16T13:15:53Z',47);
INSERT INTO "changes" VALUES(48,'router','73fb2140-3fab-4944-b356-f772b47c0b7f',0,'2026-11-16T13:15:53Z',48);
INSERT INTO "changes" VALUES(49,'port','23d41cf5-e1b6-43c9-a82e-2fd904b0e6ef',0,'2026-11-16T13:15:53Z',49);
INSERT INTO "changes" VALUES(50,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',50);
INSERT INTO "changes" VALUES(51,'port','c8871156-c846-46c2-93e1-7c9acaeed671',0,'2026-11-16T13:15:53Z',51);
INSERT INTO "changes" VALUES(52,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',52);
INSERT INTO "changes" VALUES(53,'firewall_rule','d8a2c317-1f7f-4cf3-a9c7-f95ecb6966c3',0,'2026-11-16T13:15:53Z',53);
INSERT INTO "changes" VALUES(54,'firewall_rule','1b18dd97-04c9-4abe-8f35-898d79bacded',0,'2026-11-16T13:15:53Z',54);
INSERT INTO "changes" VALUES(55,'firewall_policy','bcf7bd81-3d8e-4c6f-9179-7d873e060d4a',0,'2026-11-16T13:15:53Z',55);
INSERT INTO "changes" VALUES(56,'firewall_rule','a38cd5f9-c2bd-447e-b084-5c31d230e3be',0,'2026-11-16T13:15:53Z',56);
INSERT INTO "changes" VALUES(57,'firewall_rule','85af11cd-b3d6-42ff-9899-b751174c708f',0,'2026-11-16T13:15:53Z',57);
INSERT INTO "changes" VALUES(58,'firewall_policy','7bb06380-0bc0-49f5-9afa-df61229b08f4',0,'2026-11-16T13:15:53Z',58);
INSERT INTO "changes" VALUES(59,'firewall_rule','05b4cfaa-4e52-4a1a-829c-ce791ff367d0',0,'2026-11-16T13:15:53Z',59);
INSERT INTO "changes" VALUES(60,'firewall_rule','b7b511e5-5b17-416c-924b-5307a379d73a',0,'2026-11-16T13:15:53Z',60);
INSERT INTO "changes" VALUES(61,'firewall_policy','69ee5a83-89a8-4a5a-8e9e-117cbc01e237',0,'2026-11-16T13:15:53Z',61);
INSERT INTO "changes" VALUES(62,'firewall_group','2acf76dd-072c-45f0-a242-8824cda0226a',0,'2026-11-16T13:15:53Z',62);
INSERT INTO "changes" VALUES(63,'firewall_group','f4414cb9-ae62-4cac-b1fb-2ed1a7a5ab98',0,'2026-11-16T13:15:53Z',63);
INSERT INTO "changes" VALUES(64,'port','babd52ca-bab3-4437-910f-27f5877f5036',0,'2026-11-16T13:15:53Z',64);
INSERT INTO "changes" VALUES(65,'network','882a8d65-a6de-4545-95f9-ea2b4d7d6410',0,'2026-11-16T13:15:53Z',65);
INSERT INTO "changes" VALUES(66,'network','4b3c68d1-1886-43f6-9e45-b23dab97b170',0,'2026-11-16T13:15:53Z',66);
INSERT INTO "changes" VALUES(67,'port','babd52ca-bab3-4437-910f-27f5877f5036',0,'2026-11-16T13:15:53Z',67);
INSERT INTO "changes" VALUES(68,'router','71282941-5182-4534-a931-4cb1328ab266',0,'2026-11-16T13:15:53Z',68);
INSERT INTO "changes" VALUES(69,'agent','f02f8169-571b-4b7b-8b06-89d9d44f248d',0,'2026-11-16T13:15:54Z',69);
INSERT INTO "changes" VALUES(70,'agent','5938bead-501a-4272-8862-a47ed6526968',0,'2026-11-16T13:15:54Z',70);
INSERT INTO "changes" VALUES(71,'agent','c818aa19-77df-406a-90b9-740582960286',0,'2026-11-16T13:15:54Z',71);
INSERT INTO "changes" VALUES(72,'agent','8d893078-e3dd-474f-b95d-215f98797abe',0,'2026-11-16T13:15:54Z',72);
INSERT INTO "changes" VALUES(73,'network','4b3c68d1-1886-43f6-9e45-b23dab97b170',0,'2026-11-16T13:15:54Z',73);
INSERT INTO "changes" VALUES(74,'network','882a8d65-a6de-4545-95f9-ea2b4d7d6410',0,'2026-11-16T13:15:54Z',74);
INSERT INTO "changes" VALUES(75,'port','0d62b930-41c3-4ba1-876e-c2ff9c774121',0,'2026-11-16T13:15:54Z',75);
INSERT INTO "changes" VALUES(76,'port','310254b9-db99-4edf-b682-484e63fffca2',0,'2026-11-16T13:15:54Z',76);
INSERT INTO "changes" VALUES(77,'port','5beea649-f65f-4ee0-83db-f231f1abd6b0',0,'2026-11-16T13:15:54Z',77);
INSERT INTO "changes" VALUES(78,'port','babd52ca-bab3-4437-910f-27f5877f5036',0,'2026-11-16T13:15:54Z',78);
INSERT INTO "changes" VALUES(79,'port','db16480f-564c-4005-b0cf-a34c60ddeb46',0,'2026-11-16T13:15:54Z',79);
INSERT INTO "changes" VALUES(80,'port','f1b2da5a-c893-416c-a163-3a4e61a81546',0,'2026-11-16T13:15:54Z',80);
INSERT INTO "changes" VALUES(81,'agent','f02f8169-571b-4b7b-8b06-89d9d44f248d',0,'2026-11-16T13:15:55Z',81);
INSERT INTO "changes" VALUES(82,'agent','5938bead-501a-4272-8862-a47ed6526968',0,'2026-11-16T13:15:55Z',82);
INSERT INTO "changes" VALUES(83,'agent','c818aa19-77df-406a-90b9-740582960286',0,'2026-11-16T13:15:55Z',83);
INSERT INTO "changes" VALUES(84,'agent','8d893078-e3dd-474f-b95d-215f98797abe',0,'2026-11-16T13:15:55Z',84);
CREATE TABLE conntrack_helpers (
	id VARCHAR(36) NOT NULL, 
	router_id VARCHAR(36) NOT NULL, 
	protocol VARCHAR(40) NOT NULL, 
	port INTEGER NOT NULL, 
	helper VARCHAR(64) NOT NULL, 
	CONSTRAINT pk_conntrack_helpers PRIMARY KEY (id), 
	CONSTRAINT uq_conntrack_helpers_router_id_protocol_port_helper UNIQUE (router_id, protocol, port, helper), 
	CONSTRAINT fk_conntrack_helpers_router_id FOREIGN KEY(router_id) REFERENCES routers (id) ON DELETE CASCADE
);
CREATE TABLE default_firewall_groups (
	project_id VARCHAR(255) NOT NULL, 
	firewall_group_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_default_firewall_groups PRIMARY KEY (project_id), 
	CONSTRAINT fk_default_firewall_groups_firewall_group_id FOREIGN KEY(firewall_group_id) REFERENCES firewall_groups (id) ON DELETE CASCADE
);
INSERT INTO "default_firewall_groups" VALUES('0123456789abcdef0123456789abcdef','2acf76dd-072c-45f0-a242-8824cda0226a');
CREATE TABLE default_qos_policies (
	project_id VARCHAR(255) NOT NULL, 
	qos_policy_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_default_qos_policies PRIMARY KEY (project_id), 
	CONSTRAINT fk_default_qos_policies_qos_policy_id FOREIGN KEY(qos_policy_id) REFERENCES qos_policies (id) ON DELETE CASCADE
);
CREATE TABLE default_security_groups (
	project_id VARCHAR(255) NOT NULL, 
	security_group_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_default_security_groups PRIMARY KEY (project_id), 
	CONSTRAINT fk_default_security_groups_security_group_id FOREIGN KEY(security_group_id) REFERENCES security_groups (id) ON DELETE CASCADE
);
INSERT INTO "default_security_groups" VALUES('0123456789abcdef0123456789abcdef','59dae15f-86ee-4250-82d7-007876a58dbf');
CREATE TABLE distributed_port_hosts (
	port_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_distributed_port_hosts PRIMARY KEY (port_id, host), 
	CONSTRAINT fk_distributed_port_hosts_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
);
CREATE TABLE dvr_host_macs (
	host VARCHAR(255) NOT NULL, 
	mac_address VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_dvr_host_macs PRIMARY KEY (host), 
	CONSTRAINT uq_dvr_host_macs_mac_address UNIQUE (mac_address)
);
CREATE TABLE firewall_group_hosts (
	firewall_group_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	revision INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	CONSTRAINT pk_firewall_group_hosts PRIMARY KEY (firewall_group_id, host, role), 
	CONSTRAINT fk_firewall_group_hosts_firewall_group_id FOREIGN KEY(firewall_group_id) REFERENCES firewall_groups (id) ON DELETE CASCADE
);
CREATE TABLE firewall_group_ports (
	port_id VARCHAR(36) NOT NULL, 
	firewall_group_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_firewall_group_ports PRIMARY KEY (port_id), 
	CONSTRAINT fk_firewall_group_ports_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_firewall_group_ports_firewall_group_id FOREIGN KEY(firewall_group_id) REFERENCES firewall_groups (id) ON DELETE CASCADE
);
INSERT INTO "firewall_group_ports" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','f4414cb9-ae62-4cac-b1fb-2ed1a7a5ab98');
CREATE TABLE firewall_groups (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	admin_state_up BOOLEAN NOT NULL, 
	shared BOOLEAN NOT NULL, 
	is_default BOOLEAN NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	ingress_firewall_policy_id VARCHAR(36), 
	egress_firewall_policy_id VARCHAR(36), 
	CONSTRAINT pk_firewall_groups PRIMARY KEY (id), 
	CONSTRAINT fk_firewall_groups_ingress_firewall_policy_id FOREIGN KEY(ingress_firewall_policy_id) REFERENCES firewall_policies (id), 
	CONSTRAINT fk_firewall_groups_egress_firewall_policy_id FOREIGN KEY(egress_firewall_policy_id) REFERENCES firewall_policies (id)
);
INSERT INTO "firewall_groups" VALUES('2acf76dd-072c-45f0-a242-8824cda0226a','0123456789abcdef0123456789abcdef','default','Default firewall group','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',1,0,1,'PENDING_CREATE','7bb06380-0bc0-49f5-9afa-df61229b08f4','69ee5a83-89a8-4a5a-8e9e-117cbc01e237');
INSERT INTO "firewall_groups" VALUES('f4414cb9-ae62-4cac-b1fb-2ed1a7a5ab98','0123456789abcdef0123456789abcdef','edge','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',1,0,0,'PENDING_CREATE','bcf7bd81-3d8e-4c6f-9179-7d873e060d4a',NULL);
CREATE TABLE firewall_policies (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	shared BOOLEAN NOT NULL, 
	audited BOOLEAN NOT NULL, 
	firewall_rules TEXT NOT NULL, 
	CONSTRAINT pk_firewall_policies PRIMARY KEY (id)
);
INSERT INTO "firewall_policies" VALUES('bcf7bd81-3d8e-4c6f-9179-7d873e060d4a','0123456789abcdef0123456789abcdef','inbound','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,0,'["d8a2c317-1f7f-4cf3-a9c7-f95ecb6966c3","1b18dd97-04c9-4abe-8f35-898d79bacded"]');
INSERT INTO "firewall_policies" VALUES('7bb06380-0bc0-49f5-9afa-df61229b08f4','0123456789abcdef0123456789abcdef','default ingress','Ingress firewall policy','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,0,'["a38cd5f9-c2bd-447e-b084-5c31d230e3be","85af11cd-b3d6-42ff-9899-b751174c708f"]');
INSERT INTO "firewall_policies" VALUES('69ee5a83-89a8-4a5a-8e9e-117cbc01e237','0123456789abcdef0123456789abcdef','default egress','Egress firewall policy','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,0,'["05b4cfaa-4e52-4a1a-829c-ce791ff367d0","b7b511e5-5b17-416c-924b-5307a379d73a"]');
CREATE TABLE firewall_policy_rules (
	firewall_policy_id VARCHAR(36) NOT NULL, 
	firewall_rule_id VARCHAR(36) NOT NULL, 
	position INTEGER NOT NULL, 
	CONSTRAINT pk_firewall_policy_rules PRIMARY KEY (firewall_policy_id, firewall_rule_id), 
	CONSTRAINT fk_firewall_policy_rules_firewall_policy_id FOREIGN KEY(firewall_policy_id) REFERENCES firewall_policies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_firewall_policy_rules_firewall_rule_id FOREIGN KEY(firewall_rule_id) REFERENCES firewall_rules (id)
);
INSERT INTO "firewall_policy_rules" VALUES('bcf7bd81-3d8e-4c6f-9179-7d873e060d4a','d8a2c317-1f7f-4cf3-a9c7-f95ecb6966c3',1);
INSERT INTO "firewall_policy_rules" VALUES('bcf7bd81-3d8e-4c6f-9179-7d873e060d4a','1b18dd97-04c9-4abe-8f35-898d79bacded',2);
INSERT INTO "firewall_policy_rules" VALUES('7bb06380-0bc0-49f5-9afa-df61229b08f4','a38cd5f9-c2bd-447e-b084-5c31d230e3be',1);
INSERT INTO "firewall_policy_rules" VALUES('7bb06380-0bc0-49f5-9afa-df61229b08f4','85af11cd-b3d6-42ff-9899-b751174c708f',2);
INSERT INTO "firewall_policy_rules" VALUES('69ee5a83-89a8-4a5a-8e9e-117cbc01e237','05b4cfaa-4e52-4a1a-829c-ce791ff367d0',1);
INSERT INTO "firewall_policy_rules" VALUES('69ee5a83-89a8-4a5a-8e9e-117cbc01e237','b7b511e5-5b17-416c-924b-5307a379d73a',2);
CREATE TABLE firewall_rules (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	shared BOOLEAN NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	protocol VARCHAR(40), 
	ip_version INTEGER NOT NULL, 
	source_ip_address VARCHAR(64), 
	destination_ip_address VARCHAR(64), 
	source_port VARCHAR(16), 
	destination_port VARCHAR(16), 
	action VARCHAR(16) NOT NULL, 
	CONSTRAINT pk_firewall_rules PRIMARY KEY (id)
);
INSERT INTO "firewall_rules" VALUES('d8a2c317-1f7f-4cf3-a9c7-f95ecb6966c3','0123456789abcdef0123456789abcdef','allow-web','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,'tcp',4,NULL,NULL,NULL,'80','allow');
INSERT INTO "firewall_rules" VALUES('1b18dd97-04c9-4abe-8f35-898d79bacded','0123456789abcdef0123456789abcdef','deny','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,NULL,4,'203.0.113.0/24',NULL,NULL,NULL,'deny');
INSERT INTO "firewall_rules" VALUES('a38cd5f9-c2bd-447e-b084-5c31d230e3be','0123456789abcdef0123456789abcdef','default ingress ipv4','default ingress rule for IPv4','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,NULL,4,NULL,NULL,NULL,NULL,'deny');
INSERT INTO "firewall_rules" VALUES('85af11cd-b3d6-42ff-9899-b751174c708f','0123456789abcdef0123456789abcdef','default ingress ipv6','default ingress rule for IPv6','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,NULL,6,NULL,NULL,NULL,NULL,'deny');
INSERT INTO "firewall_rules" VALUES('05b4cfaa-4e52-4a1a-829c-ce791ff367d0','0123456789abcdef0123456789abcdef','default egress ipv4','default egress rule for IPv4','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,NULL,4,NULL,NULL,NULL,NULL,'allow');
INSERT INTO "firewall_rules" VALUES('b7b511e5-5b17-416c-924b-5307a379d73a','0123456789abcdef0123456789abcdef','default egress ipv6','default egress rule for IPv6','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',0,1,NULL,6,NULL,NULL,NULL,NULL,'allow');
CREATE TABLE flavor_service_profiles (
	flavor_id VARCHAR(36) NOT NULL, 
	service_profile_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_flavor_service_profiles PRIMARY KEY (flavor_id, service_profile_id), 
	CONSTRAINT fk_flavor_service_profiles_flavor_id FOREIGN KEY(flavor_id) REFERENCES flavors (id) ON DELETE CASCADE, 
	CONSTRAINT fk_flavor_service_profiles_service_profile_id FOREIGN KEY(service_profile_id) REFERENCES service_profiles (id)
);
INSERT INTO "flavor_service_profiles" VALUES('4e1e67f1-cde1-45ff-8955-a3d8450a4600','c7cef94d-4e2e-4301-b8a4-e88d5d6bac72');
CREATE TABLE flavors (
	id VARCHAR(36) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(1024), 
	service_type VARCHAR(36) NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	service_profiles TEXT NOT NULL, 
	CONSTRAINT pk_flavors PRIMARY KEY (id)
);
INSERT INTO "flavors" VALUES('4e1e67f1-cde1-45ff-8955-a3d8450a4600','fast','','L3_ROUTER_NAT',1,'["c7cef94d-4e2e-4301-b8a4-e88d5d6bac72"]');
CREATE TABLE floatingips (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	floating_network_id VARCHAR(36) NOT NULL, 
	floating_ip_address VARCHAR(64) NOT NULL, 
	floating_port_id VARCHAR(36) NOT NULL, 
	router_id VARCHAR(36), 
	port_id VARCHAR(36), 
	fixed_ip_address VARCHAR(64), 
	status VARCHAR(16) NOT NULL, 
	dns_name VARCHAR(255) NOT NULL, 
	dns_domain VARCHAR(255) NOT NULL, 
	qos_policy_id VARCHAR(36), 
	port_forwardings TEXT NOT NULL, 
	CONSTRAINT pk_floatingips PRIMARY KEY (id), 
	CONSTRAINT uq_floatingips_port_id_fixed_ip_address_floating_network_id UNIQUE (port_id, fixed_ip_address, floating_network_id), 
	CONSTRAINT uq_floatingips_floating_port_id UNIQUE (floating_port_id), 
	CONSTRAINT fk_floatingips_floating_port_id FOREIGN KEY(floating_port_id) REFERENCES ports (id), 
	CONSTRAINT fk_floatingips_router_id FOREIGN KEY(router_id) REFERENCES routers (id), 
	CONSTRAINT fk_floatingips_port_id FOREIGN KEY(port_id) REFERENCES ports (id), 
	CONSTRAINT fk_floatingips_qos_policy_id FOREIGN KEY(qos_policy_id) REFERENCES qos_policies (id)
);
INSERT INTO "floatingips" VALUES('e6ec28f3-ca9f-4d22-9018-cafc212015d5','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c','172.24.4.83','23d41cf5-e1b6-43c9-a82e-2fd904b0e6ef','71282941-5182-4534-a931-4cb1328ab266','babd52ca-bab3-4437-910f-27f5877f5036','10.0.0.100','ACTIVE','','','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','[]');
INSERT INTO "floatingips" VALUES('4aeaecaa-4912-49a1-8672-826ae54ec642','0123456789abcdef0123456789abcdef','','port forwarding','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c','172.24.4.132','c8871156-c846-46c2-93e1-7c9acaeed671','71282941-5182-4534-a931-4cb1328ab266',NULL,NULL,'ACTIVE','','',NULL,'[{"id":"3cb3d2b5-5a15-4a75-a656-7b8781415f6a","internal_ip_address":"10.0.0.72","protocol":"tcp","internal_port":22,"external_port":2222,"internal_port_id":"6ef81cf1-985b-498e-a21e-6ab476b7c6d7"}]');
CREATE TABLE ha_networks (
	project_id VARCHAR(255) NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_ha_networks PRIMARY KEY (project_id), 
	CONSTRAINT fk_ha_networks_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE CASCADE
);
INSERT INTO "ha_networks" VALUES('0123456789abcdef0123456789abcdef','ad477bcd-adad-45b8-957c-c32ca512bf42');
CREATE TABLE host_credentials (
	host VARCHAR(255) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	created_at VARCHAR(20) NOT NULL, 
	roles VARCHAR(255) DEFAULT 'l2,dhcp,l3,metadata' NOT NULL, 
	CONSTRAINT pk_host_credentials PRIMARY KEY (host)
);
INSERT INTO "host_credentials" VALUES('h1','f50dfb3c1bc5f5ab42158fc739ada1d3c251b31ea135f6316e68b0aa9223463d','2026-11-16T13:15:53Z','l2,dhcp,l3,metadata');
CREATE TABLE ip_allocations (
	subnet_id VARCHAR(36) NOT NULL, 
	ip_address VARCHAR(64) NOT NULL, 
	port_id VARCHAR(36) NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_ip_allocations PRIMARY KEY (subnet_id, ip_address), 
	CONSTRAINT fk_ip_allocations_subnet_id FOREIGN KEY(subnet_id) REFERENCES subnets (id), 
	CONSTRAINT fk_ip_allocations_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
);
INSERT INTO "ip_allocations" VALUES('e19c77b4-7615-4af6-af9e-70717181c54f','10.0.0.100','babd52ca-bab3-4437-910f-27f5877f5036','4b3c68d1-1886-43f6-9e45-b23dab97b170');
INSERT INTO "ip_allocations" VALUES('ebb0f5e2-38bb-43c3-b792-905a760862bf','2001:db8:1:0:f816:3eff:fe8f:a54b','babd52ca-bab3-4437-910f-27f5877f5036','4b3c68d1-1886-43f6-9e45-b23dab97b170');
INSERT INTO "ip_allocations" VALUES('e19c77b4-7615-4af6-af9e-70717181c54f','10.0.0.72','6ef81cf1-985b-498e-a21e-6ab476b7c6d7','4b3c68d1-1886-43f6-9e45-b23dab97b170');
INSERT INTO "ip_allocations" VALUES('ebb0f5e2-38bb-43c3-b792-905a760862bf','2001:db8:1:0:f816:3eff:fe12:321e','6ef81cf1-985b-498e-a21e-6ab476b7c6d7','4b3c68d1-1886-43f6-9e45-b23dab97b170');
INSERT INTO "ip_allocations" VALUES('d669d0e2-a1b1-4622-8479-f174dba8b4aa','10.64.0.58','f1b2da5a-c893-416c-a163-3a4e61a81546','882a8d65-a6de-4545-95f9-ea2b4d7d6410');
INSERT INTO "ip_allocations" VALUES('d669d0e2-a1b1-4622-8479-f174dba8b4aa','10.64.0.55','1bacd1dd-76d5-4c82-9552-4351e5935ca3','882a8d65-a6de-4545-95f9-ea2b4d7d6410');
INSERT INTO "ip_allocations" VALUES('e19c77b4-7615-4af6-af9e-70717181c54f','10.0.0.1','310254b9-db99-4edf-b682-484e63fffca2','4b3c68d1-1886-43f6-9e45-b23dab97b170');
INSERT INTO "ip_allocations" VALUES('a748ba1a-ed18-4272-8cc0-9470524b67dc','172.24.4.89','0d62b930-41c3-4ba1-876e-c2ff9c774121','16ddf33d-19f6-47ce-8537-2064d139f75c');
INSERT INTO "ip_allocations" VALUES('99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f','169.254.228.255','f14a151f-3cb7-4187-b9ca-8cb1b1dac032','ad477bcd-adad-45b8-957c-c32ca512bf42');
INSERT INTO "ip_allocations" VALUES('99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f','169.254.206.84','5beea649-f65f-4ee0-83db-f231f1abd6b0','ad477bcd-adad-45b8-957c-c32ca512bf42');
INSERT INTO "ip_allocations" VALUES('d669d0e2-a1b1-4622-8479-f174dba8b4aa','10.64.0.1','db16480f-564c-4005-b0cf-a34c60ddeb46','882a8d65-a6de-4545-95f9-ea2b4d7d6410');
INSERT INTO "ip_allocations" VALUES('a748ba1a-ed18-4272-8cc0-9470524b67dc','172.24.4.83','23d41cf5-e1b6-43c9-a82e-2fd904b0e6ef','16ddf33d-19f6-47ce-8537-2064d139f75c');
INSERT INTO "ip_allocations" VALUES('a748ba1a-ed18-4272-8cc0-9470524b67dc','172.24.4.132','c8871156-c846-46c2-93e1-7c9acaeed671','16ddf33d-19f6-47ce-8537-2064d139f75c');
CREATE TABLE journal (
	id VARCHAR(36) NOT NULL, 
	operation VARCHAR(64) NOT NULL, 
	object_id VARCHAR(36) NOT NULL, 
	"before" TEXT, 
	"after" TEXT, 
	at FLOAT NOT NULL, 
	owner VARCHAR(64) NOT NULL, 
	CONSTRAINT pk_journal PRIMARY KEY (id)
);
CREATE TABLE network_attributes (
	object_id VARCHAR(36) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_network_attributes PRIMARY KEY (object_id, name), 
	CONSTRAINT fk_network_attributes_object_id FOREIGN KEY(object_id) REFERENCES networks (id) ON DELETE CASCADE
);
CREATE TABLE network_dhcp_agents (
	network_id VARCHAR(36) NOT NULL, 
	agent_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_network_dhcp_agents PRIMARY KEY (network_id, agent_id), 
	CONSTRAINT fk_network_dhcp_agents_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_network_dhcp_agents_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id) ON DELETE CASCADE
);
INSERT INTO "network_dhcp_agents" VALUES('4b3c68d1-1886-43f6-9e45-b23dab97b170','5938bead-501a-4272-8862-a47ed6526968');
INSERT INTO "network_dhcp_agents" VALUES('882a8d65-a6de-4545-95f9-ea2b4d7d6410','5938bead-501a-4272-8862-a47ed6526968');
CREATE TABLE network_segments (
	id VARCHAR(36) NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	network_type VARCHAR(32) NOT NULL, 
	physical_network VARCHAR(64), 
	segmentation_id INTEGER, 
	position INTEGER NOT NULL, 
	identity VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_network_segments PRIMARY KEY (id), 
	CONSTRAINT fk_network_segments_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE CASCADE, 
	CONSTRAINT uq_network_segments_identity UNIQUE (identity)
);
INSERT INTO "network_segments" VALUES('0163233d-b9e2-49e5-81cf-362ac0eba71a','16ddf33d-19f6-47ce-8537-2064d139f75c','flat','physnet1',NULL,0,'flat/physnet1');
INSERT INTO "network_segments" VALUES('579c45cd-4f4e-45a4-8b91-4802802cf0c9','4b3c68d1-1886-43f6-9e45-b23dab97b170','vxlan',NULL,5191,0,'vxlan/5191');
INSERT INTO "network_segments" VALUES('0330ee5f-d132-4e8c-96e6-8f16acae7f32','882a8d65-a6de-4545-95f9-ea2b4d7d6410','vxlan',NULL,12946,0,'vxlan/12946');
INSERT INTO "network_segments" VALUES('37350801-b3cb-400b-a0af-aa51cdab9d40','5a000abb-b57e-4b66-ba99-d3306d38a5b9','vlan','physnet1',101,0,'vlan/physnet1/101');
INSERT INTO "network_segments" VALUES('87e63e6e-58e4-4f9e-8aba-160920f9ea8f','ad477bcd-adad-45b8-957c-c32ca512bf42','vxlan',NULL,8627,0,'vxlan/8627');
CREATE TABLE networks (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	admin_state_up BOOLEAN NOT NULL, 
	port_security_enabled BOOLEAN NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	mtu INTEGER NOT NULL, 
	external BOOLEAN NOT NULL, 
	is_default BOOLEAN NOT NULL, 
	dns_domain VARCHAR(255) NOT NULL, 
	qos_policy_id VARCHAR(36), 
	ipv4_address_scope VARCHAR(36), 
	ipv6_address_scope VARCHAR(36), 
	availability_zone_hints TEXT NOT NULL, 
	extra_dhcp_opts TEXT NOT NULL, 
	subnets TEXT NOT NULL, 
	network_type VARCHAR(32), 
	physical_network VARCHAR(64), 
	segmentation_id INTEGER, 
	segments TEXT NOT NULL, 
	CONSTRAINT pk_networks PRIMARY KEY (id), 
	CONSTRAINT fk_networks_qos_policy_id FOREIGN KEY(qos_policy_id) REFERENCES qos_policies (id)
);
INSERT INTO "networks" VALUES('16ddf33d-19f6-47ce-8537-2064d139f75c','0123456789abcdef0123456789abcdef','public','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',2,'[]',1,1,'ACTIVE',1500,1,0,'',NULL,NULL,NULL,'[]','[]','["a748ba1a-ed18-4272-8cc0-9470524b67dc"]','flat','physnet1',NULL,'null');
INSERT INTO "networks" VALUES('4b3c68d1-1886-43f6-9e45-b23dab97b170','0123456789abcdef0123456789abcdef','blue','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',4,'["prod","tier=1"]',1,1,'ACTIVE',1450,0,0,'blue.example.org.','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',NULL,NULL,'[]','[]','["e19c77b4-7615-4af6-af9e-70717181c54f","ebb0f5e2-38bb-43c3-b792-905a760862bf"]','vxlan',NULL,5191,'null');
INSERT INTO "networks" VALUES('882a8d65-a6de-4545-95f9-ea2b4d7d6410','0123456789abcdef0123456789abcdef','green','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',3,'[]',1,1,'ACTIVE',1450,0,0,'',NULL,'dbfe0919-cc61-432a-87d5-5d9b161a6917',NULL,'[]','[]','["d669d0e2-a1b1-4622-8479-f174dba8b4aa"]','vxlan',NULL,12946,'null');
INSERT INTO "networks" VALUES('5a000abb-b57e-4b66-ba99-d3306d38a5b9','0123456789abcdef0123456789abcdef','vlan','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',1,1,'ACTIVE',1400,0,0,'',NULL,NULL,NULL,'[]','[]','[]','vlan','physnet1',101,'null');
INSERT INTO "networks" VALUES('ad477bcd-adad-45b8-957c-c32ca512bf42','','HA network tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',2,'[]',1,0,'ACTIVE',1450,0,0,'',NULL,NULL,NULL,'[]','[]','["99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f"]','vxlan',NULL,8627,'null');
CREATE TABLE port_attributes (
	object_id VARCHAR(36) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_port_attributes PRIMARY KEY (object_id, name), 
	CONSTRAINT fk_port_attributes_object_id FOREIGN KEY(object_id) REFERENCES ports (id) ON DELETE CASCADE
);
CREATE TABLE port_bindings (
	port_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	vnic_type VARCHAR(64) NOT NULL, 
	vif_type VARCHAR(64) NOT NULL, 
	profile TEXT NOT NULL, 
	vif_details TEXT NOT NULL, 
	levels TEXT NOT NULL, 
	CONSTRAINT pk_port_bindings PRIMARY KEY (port_id, host), 
	CONSTRAINT fk_port_bindings_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
);
INSERT INTO "port_bindings" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"579c45cd-4f4e-45a4-8b91-4802802cf0c9"}]');
INSERT INTO "port_bindings" VALUES('6ef81cf1-985b-498e-a21e-6ab476b7c6d7','h2','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"579c45cd-4f4e-45a4-8b91-4802802cf0c9"}]');
INSERT INTO "port_bindings" VALUES('f1b2da5a-c893-416c-a163-3a4e61a81546','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"0330ee5f-d132-4e8c-96e6-8f16acae7f32"}]');
INSERT INTO "port_bindings" VALUES('310254b9-db99-4edf-b682-484e63fffca2','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"579c45cd-4f4e-45a4-8b91-4802802cf0c9"}]');
INSERT INTO "port_bindings" VALUES('0d62b930-41c3-4ba1-876e-c2ff9c774121','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"0163233d-b9e2-49e5-81cf-362ac0eba71a"}]');
INSERT INTO "port_bindings" VALUES('f14a151f-3cb7-4187-b9ca-8cb1b1dac032','h2','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"87e63e6e-58e4-4f9e-8aba-160920f9ea8f"}]');
INSERT INTO "port_bindings" VALUES('5beea649-f65f-4ee0-83db-f231f1abd6b0','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"87e63e6e-58e4-4f9e-8aba-160920f9ea8f"}]');
INSERT INTO "port_bindings" VALUES('db16480f-564c-4005-b0cf-a34c60ddeb46','h1','ACTIVE','normal','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"level":0,"driver":"openvswitch","segment_id":"0330ee5f-d132-4e8c-96e6-8f16acae7f32"}]');
CREATE TABLE port_forwardings (
	id VARCHAR(36) NOT NULL, 
	floatingip_id VARCHAR(36) NOT NULL, 
	internal_port_id VARCHAR(36) NOT NULL, 
	internal_ip_address VARCHAR(64) NOT NULL, 
	protocol VARCHAR(40) NOT NULL, 
	external_port_range VARCHAR(16) NOT NULL, 
	internal_port_range VARCHAR(16) NOT NULL, 
	external_port INTEGER, 
	internal_port INTEGER, 
	description VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_port_forwardings PRIMARY KEY (id), 
	CONSTRAINT uq_port_forwardings_inside UNIQUE (internal_port_id, internal_ip_address, protocol, internal_port_range), 
	CONSTRAINT fk_port_forwardings_floatingip_id FOREIGN KEY(floatingip_id) REFERENCES floatingips (id), 
	CONSTRAINT fk_port_forwardings_internal_port_id FOREIGN KEY(internal_port_id) REFERENCES ports (id)
);
INSERT INTO "port_forwardings" VALUES('3cb3d2b5-5a15-4a75-a656-7b8781415f6a','4aeaecaa-4912-49a1-8672-826ae54ec642','6ef81cf1-985b-498e-a21e-6ab476b7c6d7','10.0.0.72','tcp','2222:2222','22:22',2222,22,'');
CREATE TABLE port_security_groups (
	port_id VARCHAR(36) NOT NULL, 
	security_group_id VARCHAR(36) NOT NULL, 
	CONSTRAINT pk_port_security_groups PRIMARY KEY (port_id, security_group_id), 
	CONSTRAINT fk_port_security_groups_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_port_security_groups_security_group_id FOREIGN KEY(security_group_id) REFERENCES security_groups (id)
);
INSERT INTO "port_security_groups" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','658dc46b-d918-4639-b81d-47e2c2ddfe49');
INSERT INTO "port_security_groups" VALUES('6ef81cf1-985b-498e-a21e-6ab476b7c6d7','59dae15f-86ee-4250-82d7-007876a58dbf');
INSERT INTO "port_security_groups" VALUES('1bacd1dd-76d5-4c82-9552-4351e5935ca3','59dae15f-86ee-4250-82d7-007876a58dbf');
CREATE TABLE ports (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	mac_address VARCHAR(32) NOT NULL, 
	admin_state_up BOOLEAN NOT NULL, 
	port_security_enabled BOOLEAN NOT NULL, 
	propagate_uplink_status BOOLEAN NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	device_id VARCHAR(255) NOT NULL, 
	device_owner VARCHAR(255) NOT NULL, 
	dns_name VARCHAR(255) NOT NULL, 
	dns_domain VARCHAR(255) NOT NULL, 
	ip_allocation VARCHAR(16) NOT NULL, 
	qos_policy_id VARCHAR(36), 
	data_plane_status VARCHAR(16), 
	numa_affinity_policy VARCHAR(64), 
	device_profile VARCHAR(255), 
	vnic_type VARCHAR(64) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	vif_type VARCHAR(64) NOT NULL, 
	profile TEXT NOT NULL, 
	vif_details TEXT NOT NULL, 
	fixed_ips TEXT NOT NULL, 
	security_groups TEXT NOT NULL, 
	allowed_address_pairs TEXT NOT NULL, 
	extra_dhcp_opts TEXT NOT NULL, 
	dns_assignment TEXT NOT NULL, 
	hints TEXT NOT NULL, 
	trusted BOOLEAN, 
	CONSTRAINT pk_ports PRIMARY KEY (id), 
	CONSTRAINT uq_ports_network_id_mac_address UNIQUE (network_id, mac_address), 
	CONSTRAINT fk_ports_network_id FOREIGN KEY(network_id) REFERENCES networks (id), 
	CONSTRAINT fk_ports_qos_policy_id FOREIGN KEY(qos_policy_id) REFERENCES qos_policies (id)
);
INSERT INTO "ports" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','0123456789abcdef0123456789abcdef','vm1','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',5,'["prod","tier=1"]','4b3c68d1-1886-43f6-9e45-b23dab97b170','fa:16:3e:8f:a5:4b',1,1,1,'ACTIVE','b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f01','compute:nova','vm1','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"e19c77b4-7615-4af6-af9e-70717181c54f","ip_address":"10.0.0.100"},{"subnet_id":"ebb0f5e2-38bb-43c3-b792-905a760862bf","ip_address":"2001:db8:1:0:f816:3eff:fe8f:a54b"}]','["658dc46b-d918-4639-b81d-47e2c2ddfe49"]','[{"mac_address":"fa:16:3e:8f:a5:4b","ip_address":"10.0.0.100"}]','[{"opt_name":"bootfile-name","opt_value":"pxe.0","ip_version":4}]','[{"ip_address":"10.0.0.100","hostname":"vm1","fqdn":"vm1.example.org."},{"ip_address":"2001:db8:1:0:f816:3eff:fe8f:a54b","hostname":"vm1","fqdn":"vm1.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('6ef81cf1-985b-498e-a21e-6ab476b7c6d7','0123456789abcdef0123456789abcdef','vm2','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',3,'[]','4b3c68d1-1886-43f6-9e45-b23dab97b170','fa:16:3e:12:32:1e',1,1,1,'DOWN','b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f02','compute:nova','','','immediate',NULL,NULL,NULL,NULL,'normal','h2','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"e19c77b4-7615-4af6-af9e-70717181c54f","ip_address":"10.0.0.72"},{"subnet_id":"ebb0f5e2-38bb-43c3-b792-905a760862bf","ip_address":"2001:db8:1:0:f816:3eff:fe12:321e"}]','["59dae15f-86ee-4250-82d7-007876a58dbf"]','[]','[]','[{"ip_address":"10.0.0.72","hostname":"host-10-0-0-72","fqdn":"host-10-0-0-72.example.org."},{"ip_address":"2001:db8:1:0:f816:3eff:fe12:321e","hostname":"host-2001-db8-1-0-f816-3eff-fe12-321e","fqdn":"host-2001-db8-1-0-f816-3eff-fe12-321e.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('f1b2da5a-c893-416c-a163-3a4e61a81546','0123456789abcdef0123456789abcdef','open','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',4,'[]','882a8d65-a6de-4545-95f9-ea2b4d7d6410','fa:16:3e:2c:51:0d',1,0,1,'ACTIVE','','compute:nova','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"d669d0e2-a1b1-4622-8479-f174dba8b4aa","ip_address":"10.64.0.58"}]','[]','[]','[]','[{"ip_address":"10.64.0.58","hostname":"host-10-64-0-58","fqdn":"host-10-64-0-58.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('1bacd1dd-76d5-4c82-9552-4351e5935ca3','0123456789abcdef0123456789abcdef','unbound','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]','882a8d65-a6de-4545-95f9-ea2b4d7d6410','fa:16:3e:53:b4:3c',1,1,1,'DOWN','','','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{"subnet_id":"d669d0e2-a1b1-4622-8479-f174dba8b4aa","ip_address":"10.64.0.55"}]','["59dae15f-86ee-4250-82d7-007876a58dbf"]','[]','[]','[{"ip_address":"10.64.0.55","hostname":"host-10-64-0-55","fqdn":"host-10-64-0-55.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('310254b9-db99-4edf-b682-484e63fffca2','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',4,'[]','4b3c68d1-1886-43f6-9e45-b23dab97b170','fa:16:3e:10:b5:da',1,0,1,'ACTIVE','71282941-5182-4534-a931-4cb1328ab266','network:router_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"e19c77b4-7615-4af6-af9e-70717181c54f","ip_address":"10.0.0.1"}]','[]','[]','[]','[{"ip_address":"10.0.0.1","hostname":"host-10-0-0-1","fqdn":"host-10-0-0-1.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('0d62b930-41c3-4ba1-876e-c2ff9c774121','','','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',4,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c','fa:16:3e:58:ce:e2',1,0,1,'ACTIVE','71282941-5182-4534-a931-4cb1328ab266','network:router_gateway','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"a748ba1a-ed18-4272-8cc0-9470524b67dc","ip_address":"172.24.4.89"}]','[]','[]','[]','[{"ip_address":"172.24.4.89","hostname":"host-172-24-4-89","fqdn":"host-172-24-4-89.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('f14a151f-3cb7-4187-b9ca-8cb1b1dac032','','HA port tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',3,'[]','ad477bcd-adad-45b8-957c-c32ca512bf42','fa:16:3e:43:f9:5b',1,0,1,'DOWN','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:router_ha_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h2','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f","ip_address":"169.254.228.255"}]','[]','[]','[]','[{"ip_address":"169.254.228.255","hostname":"host-169-254-228-255","fqdn":"host-169-254-228-255.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('5beea649-f65f-4ee0-83db-f231f1abd6b0','','HA port tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',4,'[]','ad477bcd-adad-45b8-957c-c32ca512bf42','fa:16:3e:87:91:18',1,0,1,'ACTIVE','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:router_ha_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f","ip_address":"169.254.206.84"}]','[]','[]','[]','[{"ip_address":"169.254.206.84","hostname":"host-169-254-206-84","fqdn":"host-169-254-206-84.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('db16480f-564c-4005-b0cf-a34c60ddeb46','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:54Z',4,'[]','882a8d65-a6de-4545-95f9-ea2b4d7d6410','fa:16:3e:20:ee:1c',1,0,1,'ACTIVE','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:ha_router_replicated_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{"port_filter":true,"connectivity":"l2","bridge_name":"br-int","datapath_type":"system","ovs_hybrid_plug":false,"bound_drivers":{"0":"openvswitch"}}','[{"subnet_id":"d669d0e2-a1b1-4622-8479-f174dba8b4aa","ip_address":"10.64.0.1"}]','[]','[]','[]','[{"ip_address":"10.64.0.1","hostname":"host-10-64-0-1","fqdn":"host-10-64-0-1.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('23d41cf5-e1b6-43c9-a82e-2fd904b0e6ef','','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c','fa:16:3e:5d:2a:55',1,0,1,'N/A','e6ec28f3-ca9f-4d22-9018-cafc212015d5','network:floatingip','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{"subnet_id":"a748ba1a-ed18-4272-8cc0-9470524b67dc","ip_address":"172.24.4.83"}]','[]','[]','[]','[{"ip_address":"172.24.4.83","hostname":"host-172-24-4-83","fqdn":"host-172-24-4-83.example.org."}]','null',NULL);
INSERT INTO "ports" VALUES('c8871156-c846-46c2-93e1-7c9acaeed671','','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c','fa:16:3e:d1:c0:f3',1,0,1,'N/A','4aeaecaa-4912-49a1-8672-826ae54ec642','network:floatingip','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{"subnet_id":"a748ba1a-ed18-4272-8cc0-9470524b67dc","ip_address":"172.24.4.132"}]','[]','[]','[]','[{"ip_address":"172.24.4.132","hostname":"host-172-24-4-132","fqdn":"host-172-24-4-132.example.org."}]','null',NULL);
CREATE TABLE provisioning_blocks (
	port_id VARCHAR(36) NOT NULL, 
	component VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_provisioning_blocks PRIMARY KEY (port_id, component), 
	CONSTRAINT fk_provisioning_blocks_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
);
INSERT INTO "provisioning_blocks" VALUES('6ef81cf1-985b-498e-a21e-6ab476b7c6d7','L2');
INSERT INTO "provisioning_blocks" VALUES('f14a151f-3cb7-4187-b9ca-8cb1b1dac032','L2');
CREATE TABLE qos_policies (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	is_default BOOLEAN NOT NULL, 
	rules TEXT NOT NULL, 
	CONSTRAINT pk_qos_policies PRIMARY KEY (id)
);
INSERT INTO "qos_policies" VALUES('6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','0123456789abcdef0123456789abcdef','gold','all types of rules','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',5,'[]',0,'[{"id":"86cd569a-4e02-4ebc-b830-7f03497ed56d","max_kbps":10000,"max_burst_kbps":800,"direction":"egress","qos_policy_id":"6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2","type":"bandwidth_limit"},{"id":"bf3fc0e8-e85f-4364-8dee-889699a3c942","dscp_mark":26,"qos_policy_id":"6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2","type":"dscp_marking"},{"id":"58dd9a02-59c2-4370-9297-77a3e6ad8782","min_kbps":500,"direction":"egress","qos_policy_id":"6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2","type":"minimum_bandwidth"},{"id":"cb0c8cfe-c800-492a-b4ab-0e884cea651f","max_kpps":10,"max_burst_kpps":5,"direction":"egress","qos_policy_id":"6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2","type":"packet_rate_limit"},{"id":"0931ec17-e020-41dc-b02f-b7a257d78cc6","min_kpps":1,"direction":"egress","qos_policy_id":"6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2","type":"minimum_packet_rate"}]');
CREATE TABLE qos_rules (
	id VARCHAR(36) NOT NULL, 
	qos_policy_id VARCHAR(36) NOT NULL, 
	type VARCHAR(32) NOT NULL, 
	direction VARCHAR(16) NOT NULL, 
	max_kbps INTEGER, 
	max_burst_kbps INTEGER, 
	min_kbps INTEGER, 
	max_kpps INTEGER, 
	max_burst_kpps INTEGER, 
	min_kpps INTEGER, 
	dscp_mark INTEGER, 
	CONSTRAINT pk_qos_rules PRIMARY KEY (id), 
	CONSTRAINT uq_qos_rules_qos_policy_id_type_direction UNIQUE (qos_policy_id, type, direction), 
	CONSTRAINT fk_qos_rules_qos_policy_id FOREIGN KEY(qos_policy_id) REFERENCES qos_policies (id) ON DELETE CASCADE
);
INSERT INTO "qos_rules" VALUES('86cd569a-4e02-4ebc-b830-7f03497ed56d','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','bandwidth_limit','egress',10000,800,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "qos_rules" VALUES('bf3fc0e8-e85f-4364-8dee-889699a3c942','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','dscp_marking','',NULL,NULL,NULL,NULL,NULL,NULL,26);
INSERT INTO "qos_rules" VALUES('58dd9a02-59c2-4370-9297-77a3e6ad8782','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','minimum_bandwidth','egress',NULL,NULL,500,NULL,NULL,NULL,NULL);
INSERT INTO "qos_rules" VALUES('cb0c8cfe-c800-492a-b4ab-0e884cea651f','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','packet_rate_limit','egress',NULL,NULL,NULL,10,5,NULL,NULL);
INSERT INTO "qos_rules" VALUES('0931ec17-e020-41dc-b02f-b7a257d78cc6','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2','minimum_packet_rate','egress',NULL,NULL,NULL,NULL,NULL,1,NULL);
CREATE TABLE quota_usages (
	project_id VARCHAR(255) NOT NULL, 
	resource VARCHAR(64) NOT NULL, 
	used INTEGER NOT NULL, 
	CONSTRAINT pk_quota_usages PRIMARY KEY (project_id, resource)
);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','network',4);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','subnet',4);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','address_group',1);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','security_group',2);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','security_group_rule',10);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','port',6);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','router',3);
INSERT INTO "quota_usages" VALUES('','network',1);
INSERT INTO "quota_usages" VALUES('','subnet',1);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','floatingip',2);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','port_forwarding',1);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','firewall_rule',6);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','firewall_policy',3);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','firewall_group',2);
INSERT INTO "quota_usages" VALUES('0123456789abcdef0123456789abcdef','rbac_policy',5);
CREATE TABLE quotas (
	project_id VARCHAR(255) NOT NULL, 
	resource VARCHAR(64) NOT NULL, 
	"limit" INTEGER NOT NULL, 
	CONSTRAINT pk_quotas PRIMARY KEY (project_id, resource)
);
INSERT INTO "quotas" VALUES('0123456789abcdef0123456789abcdef','network',7);
INSERT INTO "quotas" VALUES('0123456789abcdef0123456789abcdef','port',77);
CREATE TABLE rbac_policies (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	object_type VARCHAR(32) NOT NULL, 
	object_id VARCHAR(36) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	target_project VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_rbac_policies PRIMARY KEY (id), 
	CONSTRAINT uq_rbac_policies_object_id_action_target_project_object_type UNIQUE (object_id, action, target_project, object_type)
);
INSERT INTO "rbac_policies" VALUES('8ae507c6-2319-4c58-971d-a34ad245a81e','0123456789abcdef0123456789abcdef','network','16ddf33d-19f6-47ce-8537-2064d139f75c','access_as_external','*');
INSERT INTO "rbac_policies" VALUES('e84f2ca9-25be-4e6e-b378-56067f8fc059','0123456789abcdef0123456789abcdef','address_scope','dbfe0919-cc61-432a-87d5-5d9b161a6917','access_as_shared','*');
INSERT INTO "rbac_policies" VALUES('38f39c7b-dbd9-4f5f-9928-8ed4570dbe9b','0123456789abcdef0123456789abcdef','subnetpool','fef3133e-cc03-421e-b759-54569d6490dc','access_as_shared','*');
INSERT INTO "rbac_policies" VALUES('d8db71b9-252a-472a-afd2-c5fb1e4c67db','0123456789abcdef0123456789abcdef','network','5a000abb-b57e-4b66-ba99-d3306d38a5b9','access_as_shared','*');
INSERT INTO "rbac_policies" VALUES('4997848c-fea9-4e14-889a-3bc1692dabfb','0123456789abcdef0123456789abcdef','network','882a8d65-a6de-4545-95f9-ea2b4d7d6410','access_as_shared','00000000000000000000000000000000');
CREATE TABLE router_l3_agents (
	router_id VARCHAR(36) NOT NULL, 
	agent_id VARCHAR(36) NOT NULL, 
	ha_port_id VARCHAR(36), 
	ha_state VARCHAR(16), 
	CONSTRAINT pk_router_l3_agents PRIMARY KEY (router_id, agent_id), 
	CONSTRAINT fk_router_l3_agents_router_id FOREIGN KEY(router_id) REFERENCES routers (id) ON DELETE CASCADE, 
	CONSTRAINT fk_router_l3_agents_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id) ON DELETE CASCADE
);
INSERT INTO "router_l3_agents" VALUES('71282941-5182-4534-a931-4cb1328ab266','c818aa19-77df-406a-90b9-740582960286',NULL,NULL);
INSERT INTO "router_l3_agents" VALUES('70d0318b-939d-45ec-bf0f-36c6e1d47554','dde7da27-b819-4c7a-b2ff-ad7c8c8a8d25','f14a151f-3cb7-4187-b9ca-8cb1b1dac032',NULL);
INSERT INTO "router_l3_agents" VALUES('70d0318b-939d-45ec-bf0f-36c6e1d47554','c818aa19-77df-406a-90b9-740582960286','5beea649-f65f-4ee0-83db-f231f1abd6b0',NULL);
CREATE TABLE router_ports (
	port_id VARCHAR(36) NOT NULL, 
	router_id VARCHAR(36) NOT NULL, 
	port_type VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_router_ports PRIMARY KEY (port_id), 
	CONSTRAINT fk_router_ports_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_router_ports_router_id FOREIGN KEY(router_id) REFERENCES routers (id)
);
INSERT INTO "router_ports" VALUES('310254b9-db99-4edf-b682-484e63fffca2','71282941-5182-4534-a931-4cb1328ab266','network:router_interface');
INSERT INTO "router_ports" VALUES('0d62b930-41c3-4ba1-876e-c2ff9c774121','71282941-5182-4534-a931-4cb1328ab266','network:router_gateway');
INSERT INTO "router_ports" VALUES('f14a151f-3cb7-4187-b9ca-8cb1b1dac032','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:router_ha_interface');
INSERT INTO "router_ports" VALUES('5beea649-f65f-4ee0-83db-f231f1abd6b0','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:router_ha_interface');
INSERT INTO "router_ports" VALUES('db16480f-564c-4005-b0cf-a34c60ddeb46','70d0318b-939d-45ec-bf0f-36c6e1d47554','network:ha_router_replicated_interface');
CREATE TABLE routers (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	admin_state_up BOOLEAN NOT NULL, 
	enable_snat BOOLEAN NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	distributed BOOLEAN NOT NULL, 
	ha BOOLEAN NOT NULL, 
	gw_port_id VARCHAR(36), 
	gw_network_id VARCHAR(36), 
	gw_qos_policy_id VARCHAR(36), 
	flavor_id VARCHAR(36), 
	ha_network_id VARCHAR(36), 
	ha_vr_id INTEGER, 
	availability_zone_hints TEXT NOT NULL, 
	routes TEXT NOT NULL, 
	conntrack_helpers TEXT NOT NULL, 
	CONSTRAINT pk_routers PRIMARY KEY (id), 
	CONSTRAINT uq_routers_ha_network_id_ha_vr_id UNIQUE (ha_network_id, ha_vr_id), 
	CONSTRAINT fk_routers_gw_qos_policy_id FOREIGN KEY(gw_qos_policy_id) REFERENCES qos_policies (id), 
	CONSTRAINT fk_routers_flavor_id FOREIGN KEY(flavor_id) REFERENCES flavors (id)
);
INSERT INTO "routers" VALUES('71282941-5182-4534-a931-4cb1328ab266','0123456789abcdef0123456789abcdef','r1','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',7,'["prod","tier=1"]',1,1,'ACTIVE',0,0,'0d62b930-41c3-4ba1-876e-c2ff9c774121','16ddf33d-19f6-47ce-8537-2064d139f75c','6c2f9aa3-74b0-4dea-8914-90b5a56dfbf2',NULL,NULL,NULL,'[]','[{"destination":"10.10.0.0/16","nexthop":"10.0.0.9"}]','[]');
INSERT INTO "routers" VALUES('70d0318b-939d-45ec-bf0f-36c6e1d47554','0123456789abcdef0123456789abcdef','ha','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',2,'[]',1,1,'ACTIVE',0,1,NULL,NULL,NULL,NULL,'ad477bcd-adad-45b8-957c-c32ca512bf42',1,'[]','[]','[]');
INSERT INTO "routers" VALUES('73fb2140-3fab-4944-b356-f772b47c0b7f','0123456789abcdef0123456789abcdef','dvr','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',1,1,'ACTIVE',1,0,NULL,NULL,NULL,NULL,NULL,NULL,'[]','[]','[]');
CREATE TABLE security_group_rules (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	security_group_id VARCHAR(36) NOT NULL, 
	direction VARCHAR(16) NOT NULL, 
	ethertype VARCHAR(16) NOT NULL, 
	protocol VARCHAR(64), 
	port_range_min INTEGER, 
	port_range_max INTEGER, 
	remote_ip_prefix VARCHAR(64), 
	normalized_cidr VARCHAR(64), 
	remote_group_id VARCHAR(36), 
	remote_address_group_id VARCHAR(36), 
	identity VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_security_group_rules PRIMARY KEY (id), 
	CONSTRAINT uq_security_group_rules_security_group_id_identity UNIQUE (security_group_id, identity), 
	CONSTRAINT fk_security_group_rules_security_group_id FOREIGN KEY(security_group_id) REFERENCES security_groups (id) ON DELETE CASCADE, 
	CONSTRAINT fk_security_group_rules_remote_group_id FOREIGN KEY(remote_group_id) REFERENCES security_groups (id), 
	CONSTRAINT fk_security_group_rules_remote_address_group_id FOREIGN KEY(remote_address_group_id) REFERENCES address_groups (id)
);
INSERT INTO "security_group_rules" VALUES('ad0a9f42-6cdf-4009-a70a-efe26a422a6a','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','59dae15f-86ee-4250-82d7-007876a58dbf','egress','IPv4',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv4 any - anywhere');
INSERT INTO "security_group_rules" VALUES('2f751e91-5e6d-4859-9954-289f8a3fb286','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','59dae15f-86ee-4250-82d7-007876a58dbf','egress','IPv6',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv6 any - anywhere');
INSERT INTO "security_group_rules" VALUES('ee280459-740c-448e-98a7-208cb0021145','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','59dae15f-86ee-4250-82d7-007876a58dbf','ingress','IPv4',NULL,NULL,NULL,NULL,NULL,'59dae15f-86ee-4250-82d7-007876a58dbf',NULL,'ingress IPv4 any - group:59dae15f-86ee-4250-82d7-007876a58dbf');
INSERT INTO "security_group_rules" VALUES('173d7dd3-9e57-46df-84eb-5c7e52405a00','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','59dae15f-86ee-4250-82d7-007876a58dbf','ingress','IPv6',NULL,NULL,NULL,NULL,NULL,'59dae15f-86ee-4250-82d7-007876a58dbf',NULL,'ingress IPv6 any - group:59dae15f-86ee-4250-82d7-007876a58dbf');
INSERT INTO "security_group_rules" VALUES('bf422892-bd6d-43c8-b730-4df8a607c161','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','egress','IPv4',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv4 any - anywhere');
INSERT INTO "security_group_rules" VALUES('7f8358a2-b1ab-42a5-85d7-f81848146361','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','egress','IPv6',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv6 any - anywhere');
INSERT INTO "security_group_rules" VALUES('15ed8ce3-2fa5-445b-a1bb-7a2182a3f822','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','ingress','IPv4','tcp',80,443,'0.0.0.0/0','0.0.0.0/0',NULL,NULL,'ingress IPv4 6 80-443 anywhere');
INSERT INTO "security_group_rules" VALUES('dbe86e20-b22e-4f3b-b582-366a0d0db994','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','ingress','IPv4','icmp',NULL,NULL,NULL,NULL,'658dc46b-d918-4639-b81d-47e2c2ddfe49',NULL,'ingress IPv4 1 - group:658dc46b-d918-4639-b81d-47e2c2ddfe49');
INSERT INTO "security_group_rules" VALUES('83ce1eb2-5679-402e-bf61-878cc1a9fe71','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','ingress','IPv4','tcp',22,22,NULL,NULL,NULL,'4013b7e3-6400-428a-97af-b55e7683278e','ingress IPv4 6 22-22 addresses:4013b7e3-6400-428a-97af-b55e7683278e');
INSERT INTO "security_group_rules" VALUES('1db4e776-4e15-44ba-a1d5-66981ca87f4e','0123456789abcdef0123456789abcdef','','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','658dc46b-d918-4639-b81d-47e2c2ddfe49','ingress','IPv6','ipv6-icmp',NULL,NULL,NULL,NULL,NULL,NULL,'ingress IPv6 58 - anywhere');
CREATE TABLE security_groups (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	stateful BOOLEAN NOT NULL, 
	is_default BOOLEAN NOT NULL, 
	CONSTRAINT pk_security_groups PRIMARY KEY (id)
);
INSERT INTO "security_groups" VALUES('59dae15f-86ee-4250-82d7-007876a58dbf','0123456789abcdef0123456789abcdef','default','Default security group','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',1,'[]',1,1);
INSERT INTO "security_groups" VALUES('658dc46b-d918-4639-b81d-47e2c2ddfe49','0123456789abcdef0123456789abcdef','web','web servers','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',5,'[]',1,0);
CREATE TABLE service_profiles (
	id VARCHAR(36) NOT NULL, 
	description VARCHAR(1024), 
	driver VARCHAR(1024) NOT NULL, 
	metainfo VARCHAR(4096) NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	CONSTRAINT pk_service_profiles PRIMARY KEY (id)
);
INSERT INTO "service_profiles" VALUES('c7cef94d-4e2e-4301-b8a4-e88d5d6bac72','ha','ha','',1);
CREATE TABLE subnet_attributes (
	object_id VARCHAR(36) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_subnet_attributes PRIMARY KEY (object_id, name), 
	CONSTRAINT fk_subnet_attributes_object_id FOREIGN KEY(object_id) REFERENCES subnets (id) ON DELETE CASCADE
);
CREATE TABLE subnetpools (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	ip_version INTEGER NOT NULL, 
	default_prefixlen INTEGER NOT NULL, 
	min_prefixlen INTEGER NOT NULL, 
	max_prefixlen INTEGER NOT NULL, 
	is_default BOOLEAN NOT NULL, 
	default_quota INTEGER, 
	address_scope_id VARCHAR(36), 
	prefixes TEXT NOT NULL, 
	allocation_version INTEGER NOT NULL, 
	CONSTRAINT pk_subnetpools PRIMARY KEY (id), 
	CONSTRAINT fk_subnetpools_address_scope_id FOREIGN KEY(address_scope_id) REFERENCES address_scopes (id)
);
INSERT INTO "subnetpools" VALUES('fef3133e-cc03-421e-b759-54569d6490dc','0123456789abcdef0123456789abcdef','pool','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]',4,24,8,32,0,NULL,'dbfe0919-cc61-432a-87d5-5d9b161a6917','["10.64.0.0/16"]',1);
CREATE TABLE subnets (
	id VARCHAR(36) NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	created_at VARCHAR(20) NOT NULL, 
	updated_at VARCHAR(20) NOT NULL, 
	revision_number INTEGER NOT NULL, 
	tags TEXT NOT NULL, 
	network_id VARCHAR(36) NOT NULL, 
	ip_version INTEGER NOT NULL, 
	cidr VARCHAR(64) NOT NULL, 
	gateway_ip VARCHAR(64), 
	enable_dhcp BOOLEAN NOT NULL, 
	ipv6_ra_mode VARCHAR(32), 
	ipv6_address_mode VARCHAR(32), 
	subnetpool_id VARCHAR(36), 
	prefix_delegated BOOLEAN DEFAULT 0 NOT NULL, 
	segment_id VARCHAR(36), 
	dns_publish_fixed_ip BOOLEAN NOT NULL, 
	allocation_pools TEXT NOT NULL, 
	dns_nameservers TEXT NOT NULL, 
	host_routes TEXT NOT NULL, 
	service_types TEXT NOT NULL, 
	CONSTRAINT pk_subnets PRIMARY KEY (id), 
	CONSTRAINT fk_subnets_network_id FOREIGN KEY(network_id) REFERENCES networks (id), 
	CONSTRAINT fk_subnets_subnetpool_id FOREIGN KEY(subnetpool_id) REFERENCES subnetpools (id)
);
INSERT INTO "subnets" VALUES('a748ba1a-ed18-4272-8cc0-9470524b67dc','0123456789abcdef0123456789abcdef','public-v4','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','16ddf33d-19f6-47ce-8537-2064d139f75c',4,'172.24.4.0/24','172.24.4.1',0,NULL,NULL,NULL,0,NULL,0,'[{"start":"172.24.4.2","end":"172.24.4.254"}]','[]','[]','[]');
INSERT INTO "subnets" VALUES('e19c77b4-7615-4af6-af9e-70717181c54f','0123456789abcdef0123456789abcdef','blue-v4','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','4b3c68d1-1886-43f6-9e45-b23dab97b170',4,'10.0.0.0/24','10.0.0.1',1,NULL,NULL,NULL,0,NULL,0,'[{"start":"10.0.0.2","end":"10.0.0.254"}]','["192.0.2.53"]','[{"destination":"10.9.0.0/16","nexthop":"10.0.0.9"}]','[]');
INSERT INTO "subnets" VALUES('ebb0f5e2-38bb-43c3-b792-905a760862bf','0123456789abcdef0123456789abcdef','blue-v6','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','4b3c68d1-1886-43f6-9e45-b23dab97b170',6,'2001:db8:1::/64','2001:db8:1::',1,'slaac','slaac',NULL,0,NULL,0,'[{"start":"2001:db8:1::1","end":"2001:db8:1:0:ffff:ffff:ffff:ffff"}]','[]','[]','[]');
INSERT INTO "subnets" VALUES('d669d0e2-a1b1-4622-8479-f174dba8b4aa','0123456789abcdef0123456789abcdef','green-v4','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','882a8d65-a6de-4545-95f9-ea2b4d7d6410',4,'10.64.0.0/24','10.64.0.1',1,NULL,NULL,'fef3133e-cc03-421e-b759-54569d6490dc',0,NULL,0,'[{"start":"10.64.0.2","end":"10.64.0.254"}]','[]','[]','[]');
INSERT INTO "subnets" VALUES('99142f2d-9fb2-4f87-8b4d-ca56d1e3ad3f','','HA subnet tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:15:53Z','2026-11-16T13:15:53Z',0,'[]','ad477bcd-adad-45b8-957c-c32ca512bf42',4,'169.254.192.0/18',NULL,0,NULL,NULL,NULL,0,NULL,0,'[{"start":"169.254.192.1","end":"169.254.255.254"}]','[]','[]','[]');
CREATE TABLE tags (
	object_id VARCHAR(36) NOT NULL, 
	tag VARCHAR(255) NOT NULL, 
	CONSTRAINT pk_tags PRIMARY KEY (object_id, tag)
);
INSERT INTO "tags" VALUES('4b3c68d1-1886-43f6-9e45-b23dab97b170','prod');
INSERT INTO "tags" VALUES('4b3c68d1-1886-43f6-9e45-b23dab97b170','tier=1');
INSERT INTO "tags" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','prod');
INSERT INTO "tags" VALUES('babd52ca-bab3-4437-910f-27f5877f5036','tier=1');
INSERT INTO "tags" VALUES('71282941-5182-4534-a931-4cb1328ab266','prod');
INSERT INTO "tags" VALUES('71282941-5182-4534-a931-4cb1328ab266','tier=1');
CREATE INDEX ix_address_scopes_project_id ON address_scopes (project_id);
CREATE INDEX ix_security_groups_project_id ON security_groups (project_id);
CREATE INDEX ix_address_groups_project_id ON address_groups (project_id);
CREATE INDEX ix_qos_policies_project_id ON qos_policies (project_id);
CREATE INDEX ix_firewall_rules_shared ON firewall_rules (shared);
CREATE INDEX ix_firewall_rules_project_id ON firewall_rules (project_id);
CREATE INDEX ix_firewall_policies_shared ON firewall_policies (shared);
CREATE INDEX ix_firewall_policies_project_id ON firewall_policies (project_id);
CREATE INDEX ix_rbac_policies_project_id ON rbac_policies (project_id);
CREATE INDEX ix_rbac_policies_target_project ON rbac_policies (target_project);
CREATE INDEX ix_rbac_policies_object_id ON rbac_policies (object_id);
CREATE INDEX ix_tags_tag ON tags (tag);
CREATE UNIQUE INDEX uq_changes_position ON changes (position);
CREATE INDEX ix_networks_project_id ON networks (project_id);
CREATE INDEX ix_networks_qos_policy_id ON networks (qos_policy_id);
CREATE INDEX ix_networks_external ON networks (external);
CREATE INDEX ix_subnetpools_address_scope_id ON subnetpools (address_scope_id);
CREATE INDEX ix_subnetpools_project_id ON subnetpools (project_id);
CREATE INDEX ix_default_security_groups_security_group_id ON default_security_groups (security_group_id);
CREATE INDEX ix_security_group_rules_remote_group_id ON security_group_rules (remote_group_id);
CREATE INDEX ix_security_group_rules_security_group_id ON security_group_rules (security_group_id);
CREATE INDEX ix_security_group_rules_remote_address_group_id ON security_group_rules (remote_address_group_id);
CREATE INDEX ix_security_group_rules_project_id ON security_group_rules (project_id);
CREATE INDEX ix_default_qos_policies_qos_policy_id ON default_qos_policies (qos_policy_id);
CREATE INDEX ix_qos_rules_qos_policy_id ON qos_rules (qos_policy_id);
CREATE INDEX ix_routers_gw_network_id ON routers (gw_network_id);
CREATE INDEX ix_routers_gw_qos_policy_id ON routers (gw_qos_policy_id);
CREATE INDEX ix_routers_project_id ON routers (project_id);
CREATE INDEX ix_routers_flavor_id ON routers (flavor_id);
CREATE INDEX ix_flavor_service_profiles_service_profile_id ON flavor_service_profiles (service_profile_id);
CREATE INDEX ix_firewall_policy_rules_firewall_rule_id ON firewall_policy_rules (firewall_rule_id);
CREATE INDEX ix_firewall_groups_project_id ON firewall_groups (project_id);
CREATE INDEX ix_firewall_groups_shared ON firewall_groups (shared);
CREATE INDEX ix_firewall_groups_egress_firewall_policy_id ON firewall_groups (egress_firewall_policy_id);
CREATE INDEX ix_firewall_groups_ingress_firewall_policy_id ON firewall_groups (ingress_firewall_policy_id);
CREATE INDEX ix_network_segments_network_id ON network_segments (network_id);
CREATE INDEX ix_subnets_project_id ON subnets (project_id);
CREATE INDEX ix_subnets_subnetpool_id ON subnets (subnetpool_id);
CREATE INDEX ix_subnets_network_id ON subnets (network_id);
CREATE INDEX ix_network_dhcp_agents_agent_id ON network_dhcp_agents (agent_id);
CREATE INDEX ix_ports_network_id ON ports (network_id);
CREATE INDEX ix_ports_project_id ON ports (project_id);
CREATE INDEX ix_ports_host ON ports (host);
CREATE INDEX ix_ports_qos_policy_id ON ports (qos_policy_id);
CREATE INDEX ix_ports_device_id ON ports (device_id);
CREATE INDEX ix_router_l3_agents_agent_id ON router_l3_agents (agent_id);
CREATE INDEX ix_ha_networks_network_id ON ha_networks (network_id);
CREATE INDEX ix_conntrack_helpers_router_id ON conntrack_helpers (router_id);
CREATE INDEX ix_auto_allocated_topologies_network_id ON auto_allocated_topologies (network_id);
CREATE INDEX ix_default_firewall_groups_firewall_group_id ON default_firewall_groups (firewall_group_id);
CREATE INDEX ix_ip_allocations_network_id ON ip_allocations (network_id);
CREATE INDEX ix_ip_allocations_port_id ON ip_allocations (port_id);
CREATE INDEX ix_port_security_groups_security_group_id ON port_security_groups (security_group_id);
CREATE INDEX ix_port_bindings_host ON port_bindings (host);
CREATE INDEX ix_router_ports_router_id ON router_ports (router_id);
CREATE INDEX ix_floatingips_project_id ON floatingips (project_id);
CREATE INDEX ix_floatingips_router_id ON floatingips (router_id);
CREATE INDEX ix_floatingips_floating_network_id ON floatingips (floating_network_id);
CREATE INDEX ix_floatingips_qos_policy_id ON floatingips (qos_policy_id);
CREATE INDEX ix_floatingips_floating_ip_address ON floatingips (floating_ip_address);
CREATE INDEX ix_floatingips_port_id ON floatingips (port_id);
CREATE INDEX ix_firewall_group_ports_firewall_group_id ON firewall_group_ports (firewall_group_id);
CREATE INDEX ix_port_forwardings_floatingip_id ON port_forwardings (floatingip_id);
CREATE INDEX ix_port_forwardings_internal_port_id ON port_forwardings (internal_port_id);
COMMIT;
