/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;
DROP TABLE IF EXISTS `address_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `address_groups` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `addresses` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_address_groups_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `address_groups` WRITE;
/*!40000 ALTER TABLE `address_groups` DISABLE KEYS */;
INSERT INTO `address_groups` VALUES
('8ddb77ae-dc0f-4269-a48b-8ac1eb5f1a1b','0123456789abcdef0123456789abcdef','office','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',2,'[]','[\"198.51.100.0/24\",\"2001:db8:ffff::/48\"]');
/*!40000 ALTER TABLE `address_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `address_scopes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `address_scopes` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `ip_version` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_address_scopes_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `address_scopes` WRITE;
/*!40000 ALTER TABLE `address_scopes` DISABLE KEYS */;
INSERT INTO `address_scopes` VALUES
('f2dbc726-bf3a-413c-a1d4-f85fbf6897f6','0123456789abcdef0123456789abcdef','scope','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',2,'[]',4);
/*!40000 ALTER TABLE `address_scopes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `agents`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `agents` (
  `id` varchar(36) NOT NULL,
  `agent_type` varchar(255) NOT NULL,
  `binary` varchar(255) NOT NULL,
  `topic` varchar(255) NOT NULL,
  `host` varchar(255) NOT NULL,
  `availability_zone` varchar(255) DEFAULT NULL,
  `description` varchar(255) DEFAULT NULL,
  `admin_state_up` tinyint(1) NOT NULL,
  `created_at` varchar(20) NOT NULL,
  `started_at` varchar(20) NOT NULL,
  `heartbeat_timestamp` varchar(20) NOT NULL,
  `load` int(11) NOT NULL,
  `resources_synced` tinyint(1) DEFAULT NULL,
  `configurations` longtext NOT NULL,
  `resource_versions` longtext NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_agents_host_agent_type` (`host`,`agent_type`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `agents` WRITE;
/*!40000 ALTER TABLE `agents` DISABLE KEYS */;
INSERT INTO `agents` VALUES
('0cdee124-206e-4da4-bd5a-a325ca629f85','DHCP agent','neutron-dhcp-agent','dhcp_agent','h1',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:08Z','2026-11-16T13:16:08Z',2,NULL,'{\"networks\":2,\"feed_behind\":0}','{}'),
('225ff008-2c45-40e8-99c4-850db9f0b126','Open vSwitch agent','neutron-openvswitch-agent','N/A','h1',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:08Z','2026-11-16T13:16:08Z',0,NULL,'{\"bridge_mappings\":{\"physnet1\":\"br-ex\"},\"dataplane\":\"ok\",\"devices\":2,\"l2_population\":true,\"tunnel_types\":[\"vxlan\"],\"tunneling_ip\":\"192.0.2.1\",\"feed_behind\":0}','{}'),
('3a04db70-4de7-47ba-a050-e305160bf29e','L3 agent','neutron-l3-agent','l3_agent','h1',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:08Z','2026-11-16T13:16:08Z',0,NULL,'{\"agent_mode\":\"dvr_snat\",\"feed_behind\":0}','{}'),
('6a4fc1da-0846-44d5-a065-966f8c276495','Metadata agent','neutron-metadata-agent','N/A','h1',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:08Z','2026-11-16T13:16:08Z',0,NULL,'{\"feed_behind\":0}','{}'),
('74b75c42-ec52-4adc-9647-7a4715314510','L3 agent','neutron-l3-agent','l3_agent','h2',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,NULL,'{\"agent_mode\":\"dvr_snat\",\"external_network_bridge\":\"\"}','{}'),
('b539255a-450a-47e9-ab88-632b9ed4adbe','Open vSwitch agent','neutron-openvswitch-agent','topic','h2',NULL,NULL,1,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,NULL,'{\"bridge_mappings\":{\"physnet1\":\"br-ex\"},\"tunnel_types\":[\"vxlan\"],\"tunneling_ip\":\"192.0.2.2\"}','{}');
/*!40000 ALTER TABLE `agents` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `alembic_version`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `alembic_version` (
  `version_num` varchar(32) NOT NULL,
  PRIMARY KEY (`version_num`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `alembic_version` WRITE;
/*!40000 ALTER TABLE `alembic_version` DISABLE KEYS */;
INSERT INTO `alembic_version` VALUES
('0004');
/*!40000 ALTER TABLE `alembic_version` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `auto_allocated_topologies`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `auto_allocated_topologies` (
  `project_id` varchar(255) NOT NULL,
  `network_id` varchar(36) NOT NULL,
  `router_id` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`project_id`),
  KEY `ix_auto_allocated_topologies_network_id` (`network_id`),
  CONSTRAINT `fk_auto_allocated_topologies_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `auto_allocated_topologies` WRITE;
/*!40000 ALTER TABLE `auto_allocated_topologies` DISABLE KEYS */;
/*!40000 ALTER TABLE `auto_allocated_topologies` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `change_head`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `change_head` (
  `id` int(11) NOT NULL,
  `identity` varchar(36) NOT NULL,
  `position` bigint(20) NOT NULL,
  `removed` bigint(20) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `change_head` WRITE;
/*!40000 ALTER TABLE `change_head` DISABLE KEYS */;
INSERT INTO `change_head` VALUES
(1,'d3b18f3f-1f03-45f7-93aa-fca3fbd07d0d',83,0);
/*!40000 ALTER TABLE `change_head` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `changes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `changes` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `kind` varchar(32) NOT NULL,
  `object_id` varchar(36) NOT NULL,
  `deleted` tinyint(1) NOT NULL,
  `at` varchar(20) NOT NULL,
  `position` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_changes_position` (`position`)
) ENGINE=InnoDB AUTO_INCREMENT=84 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `changes` WRITE;
/*!40000 ALTER TABLE `changes` DISABLE KEYS */;
INSERT INTO `changes` VALUES
(1,'agent','225ff008-2c45-40e8-99c4-850db9f0b126',0,'2026-11-16T13:16:06Z',1),
(2,'agent','b539255a-450a-47e9-ab88-632b9ed4adbe',0,'2026-11-16T13:16:06Z',2),
(3,'agent','3a04db70-4de7-47ba-a050-e305160bf29e',0,'2026-11-16T13:16:06Z',3),
(4,'agent','74b75c42-ec52-4adc-9647-7a4715314510',0,'2026-11-16T13:16:06Z',4),
(5,'security_group','4d69d214-ec9b-4a95-863a-62bc2a7418fb',0,'2026-11-16T13:16:06Z',5),
(6,'network','dd7442bc-a521-4a2e-8642-60f45d46919d',0,'2026-11-16T13:16:06Z',6),
(7,'network','dd7442bc-a521-4a2e-8642-60f45d46919d',0,'2026-11-16T13:16:06Z',7),
(8,'subnet','2fb59a4f-5893-4df0-9748-115d832a48ee',0,'2026-11-16T13:16:06Z',8),
(9,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',9),
(10,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',10),
(11,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',11),
(12,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',12),
(13,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',13),
(14,'qos_policy','b137bd18-9660-4cf5-bfdf-8972384b9574',0,'2026-11-16T13:16:06Z',14),
(15,'network','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',0,'2026-11-16T13:16:06Z',15),
(16,'network','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',0,'2026-11-16T13:16:06Z',16),
(17,'subnet','daed5993-c996-4c31-9321-05014365b19e',0,'2026-11-16T13:16:06Z',17),
(18,'network','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',0,'2026-11-16T13:16:06Z',18),
(19,'subnet','532505f3-a1f7-4035-90f4-4c88c622eeff',0,'2026-11-16T13:16:06Z',19),
(20,'network','2c5488d6-e3d9-4bf3-9f59-481c90a22c87',0,'2026-11-16T13:16:06Z',20),
(21,'network','2c5488d6-e3d9-4bf3-9f59-481c90a22c87',0,'2026-11-16T13:16:06Z',21),
(22,'subnet','949451ac-73ec-4ee5-9ebc-3b71bb676118',0,'2026-11-16T13:16:06Z',22),
(23,'network','471885c8-c084-43d4-a81e-d4521e2b5b63',0,'2026-11-16T13:16:06Z',23),
(24,'address_group','8ddb77ae-dc0f-4269-a48b-8ac1eb5f1a1b',0,'2026-11-16T13:16:06Z',24),
(25,'security_group','3c788522-8fbe-4b51-877d-542f68b8e561',0,'2026-11-16T13:16:06Z',25),
(26,'security_group','3c788522-8fbe-4b51-877d-542f68b8e561',0,'2026-11-16T13:16:06Z',26),
(27,'security_group','3c788522-8fbe-4b51-877d-542f68b8e561',0,'2026-11-16T13:16:06Z',27),
(28,'security_group','3c788522-8fbe-4b51-877d-542f68b8e561',0,'2026-11-16T13:16:06Z',28),
(29,'security_group','3c788522-8fbe-4b51-877d-542f68b8e561',0,'2026-11-16T13:16:06Z',29),
(30,'port','ca768648-384b-4c4c-96c7-d262d794a193',0,'2026-11-16T13:16:06Z',30),
(31,'port','a52c366d-76f0-48aa-ac5d-bca41eb45bc2',0,'2026-11-16T13:16:06Z',31),
(32,'port','a6d61984-2f9b-4209-a712-f0df18511710',0,'2026-11-16T13:16:06Z',32),
(33,'port','9487fd0b-23cf-4bb0-ad85-4e5cd855e594',0,'2026-11-16T13:16:06Z',33),
(34,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',34),
(35,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',35),
(36,'port','2207946f-88c2-4a5d-981a-3c06f323b2a1',0,'2026-11-16T13:16:06Z',36),
(37,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',37),
(38,'port','84f697b2-d8cc-43ac-95ab-c74042a42d2a',0,'2026-11-16T13:16:06Z',38),
(39,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',39),
(40,'network','6f8745f6-6dcc-45b1-8025-69ffd711d5cc',0,'2026-11-16T13:16:06Z',40),
(41,'network','6f8745f6-6dcc-45b1-8025-69ffd711d5cc',0,'2026-11-16T13:16:06Z',41),
(42,'subnet','aa2c6429-3405-4088-9902-d77c1c563cc9',0,'2026-11-16T13:16:06Z',42),
(43,'router','665fd962-732c-4e5e-8c0f-f6fd2f900104',0,'2026-11-16T13:16:06Z',43),
(44,'port','cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53',0,'2026-11-16T13:16:06Z',44),
(45,'port','f19165ac-6774-40f2-96bc-cd2d1037b36b',0,'2026-11-16T13:16:06Z',45),
(46,'router','665fd962-732c-4e5e-8c0f-f6fd2f900104',0,'2026-11-16T13:16:06Z',46),
(47,'port','9321c717-4fc2-45f6-8486-1997b88ffe27',0,'2026-11-16T13:16:06Z',47),
(48,'router','267fa3e2-4315-4017-a2c8-43d200a37ead',0,'2026-11-16T13:16:06Z',48),
(49,'port','330b9c5b-6472-4bb3-bfb5-2a6da82e53bc',0,'2026-11-16T13:16:06Z',49),
(50,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',50),
(51,'port','a8cd9649-4652-49a4-aa26-05290f538031',0,'2026-11-16T13:16:06Z',51),
(52,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',52),
(53,'firewall_rule','bb9968fc-6d16-47d9-af38-367c840b659e',0,'2026-11-16T13:16:06Z',53),
(54,'firewall_rule','2f801b7b-b394-4cd2-a414-6599b0b87830',0,'2026-11-16T13:16:06Z',54),
(55,'firewall_policy','e3f2a5ee-2e98-4a20-8716-02870b1ad065',0,'2026-11-16T13:16:06Z',55),
(56,'firewall_rule','e95d4619-d695-46ca-a129-85de0dd7c52e',0,'2026-11-16T13:16:06Z',56),
(57,'firewall_rule','e563cd3a-e778-4bdf-9d9f-2f1133e24e85',0,'2026-11-16T13:16:06Z',57),
(58,'firewall_policy','1fb9473d-5672-4d79-8a6c-5032bcbece50',0,'2026-11-16T13:16:06Z',58),
(59,'firewall_rule','95ff364a-896c-40d3-8a90-e392b1d68ba1',0,'2026-11-16T13:16:06Z',59),
(60,'firewall_rule','5cb43d82-b976-4be1-a39f-5e0739c15a83',0,'2026-11-16T13:16:06Z',60),
(61,'firewall_policy','5181a050-ae74-4b22-8744-f57e1c277e12',0,'2026-11-16T13:16:06Z',61),
(62,'firewall_group','a76955b1-f737-432a-a919-e09fd323ee1f',0,'2026-11-16T13:16:06Z',62),
(63,'firewall_group','633ac3fe-d8a0-4d31-9b91-75abd99f5299',0,'2026-11-16T13:16:06Z',63),
(64,'port','ca768648-384b-4c4c-96c7-d262d794a193',0,'2026-11-16T13:16:06Z',64),
(65,'network','2c5488d6-e3d9-4bf3-9f59-481c90a22c87',0,'2026-11-16T13:16:06Z',65),
(66,'network','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',0,'2026-11-16T13:16:06Z',66),
(67,'port','ca768648-384b-4c4c-96c7-d262d794a193',0,'2026-11-16T13:16:06Z',67),
(68,'router','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',0,'2026-11-16T13:16:06Z',68),
(69,'agent','225ff008-2c45-40e8-99c4-850db9f0b126',0,'2026-11-16T13:16:07Z',69),
(70,'agent','0cdee124-206e-4da4-bd5a-a325ca629f85',0,'2026-11-16T13:16:07Z',70),
(71,'agent','3a04db70-4de7-47ba-a050-e305160bf29e',0,'2026-11-16T13:16:07Z',71),
(72,'agent','6a4fc1da-0846-44d5-a065-966f8c276495',0,'2026-11-16T13:16:07Z',72),
(73,'network','2c5488d6-e3d9-4bf3-9f59-481c90a22c87',0,'2026-11-16T13:16:07Z',73),
(74,'network','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',0,'2026-11-16T13:16:07Z',74),
(75,'port','2207946f-88c2-4a5d-981a-3c06f323b2a1',0,'2026-11-16T13:16:07Z',75),
(76,'port','84f697b2-d8cc-43ac-95ab-c74042a42d2a',0,'2026-11-16T13:16:07Z',76),
(77,'port','a6d61984-2f9b-4209-a712-f0df18511710',0,'2026-11-16T13:16:07Z',77),
(78,'port','ca768648-384b-4c4c-96c7-d262d794a193',0,'2026-11-16T13:16:07Z',78),
(79,'port','f19165ac-6774-40f2-96bc-cd2d1037b36b',0,'2026-11-16T13:16:07Z',79),
(80,'agent','225ff008-2c45-40e8-99c4-850db9f0b126',0,'2026-11-16T13:16:08Z',80),
(81,'agent','0cdee124-206e-4da4-bd5a-a325ca629f85',0,'2026-11-16T13:16:08Z',81),
(82,'agent','3a04db70-4de7-47ba-a050-e305160bf29e',0,'2026-11-16T13:16:08Z',82),
(83,'agent','6a4fc1da-0846-44d5-a065-966f8c276495',0,'2026-11-16T13:16:08Z',83);
/*!40000 ALTER TABLE `changes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `conntrack_helpers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `conntrack_helpers` (
  `id` varchar(36) NOT NULL,
  `router_id` varchar(36) NOT NULL,
  `protocol` varchar(40) NOT NULL,
  `port` int(11) NOT NULL,
  `helper` varchar(64) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_conntrack_helpers_router_id_protocol_port_helper` (`router_id`,`protocol`,`port`,`helper`),
  KEY `ix_conntrack_helpers_router_id` (`router_id`),
  CONSTRAINT `fk_conntrack_helpers_router_id` FOREIGN KEY (`router_id`) REFERENCES `routers` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `conntrack_helpers` WRITE;
/*!40000 ALTER TABLE `conntrack_helpers` DISABLE KEYS */;
/*!40000 ALTER TABLE `conntrack_helpers` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `default_firewall_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `default_firewall_groups` (
  `project_id` varchar(255) NOT NULL,
  `firewall_group_id` varchar(36) NOT NULL,
  PRIMARY KEY (`project_id`),
  KEY `ix_default_firewall_groups_firewall_group_id` (`firewall_group_id`),
  CONSTRAINT `fk_default_firewall_groups_firewall_group_id` FOREIGN KEY (`firewall_group_id`) REFERENCES `firewall_groups` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `default_firewall_groups` WRITE;
/*!40000 ALTER TABLE `default_firewall_groups` DISABLE KEYS */;
INSERT INTO `default_firewall_groups` VALUES
('0123456789abcdef0123456789abcdef','a76955b1-f737-432a-a919-e09fd323ee1f');
/*!40000 ALTER TABLE `default_firewall_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `default_qos_policies`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `default_qos_policies` (
  `project_id` varchar(255) NOT NULL,
  `qos_policy_id` varchar(36) NOT NULL,
  PRIMARY KEY (`project_id`),
  KEY `ix_default_qos_policies_qos_policy_id` (`qos_policy_id`),
  CONSTRAINT `fk_default_qos_policies_qos_policy_id` FOREIGN KEY (`qos_policy_id`) REFERENCES `qos_policies` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `default_qos_policies` WRITE;
/*!40000 ALTER TABLE `default_qos_policies` DISABLE KEYS */;
/*!40000 ALTER TABLE `default_qos_policies` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `default_security_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `default_security_groups` (
  `project_id` varchar(255) NOT NULL,
  `security_group_id` varchar(36) NOT NULL,
  PRIMARY KEY (`project_id`),
  KEY `ix_default_security_groups_security_group_id` (`security_group_id`),
  CONSTRAINT `fk_default_security_groups_security_group_id` FOREIGN KEY (`security_group_id`) REFERENCES `security_groups` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `default_security_groups` WRITE;
/*!40000 ALTER TABLE `default_security_groups` DISABLE KEYS */;
INSERT INTO `default_security_groups` VALUES
('0123456789abcdef0123456789abcdef','4d69d214-ec9b-4a95-863a-62bc2a7418fb');
/*!40000 ALTER TABLE `default_security_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `distributed_port_hosts`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `distributed_port_hosts` (
  `port_id` varchar(36) NOT NULL,
  `host` varchar(255) NOT NULL,
  PRIMARY KEY (`port_id`,`host`),
  CONSTRAINT `fk_distributed_port_hosts_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `distributed_port_hosts` WRITE;
/*!40000 ALTER TABLE `distributed_port_hosts` DISABLE KEYS */;
/*!40000 ALTER TABLE `distributed_port_hosts` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `dvr_host_macs`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `dvr_host_macs` (
  `host` varchar(255) NOT NULL,
  `mac_address` varchar(32) NOT NULL,
  PRIMARY KEY (`host`),
  UNIQUE KEY `uq_dvr_host_macs_mac_address` (`mac_address`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `dvr_host_macs` WRITE;
/*!40000 ALTER TABLE `dvr_host_macs` DISABLE KEYS */;
/*!40000 ALTER TABLE `dvr_host_macs` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_group_hosts`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_group_hosts` (
  `firewall_group_id` varchar(36) NOT NULL,
  `host` varchar(255) NOT NULL,
  `role` varchar(16) NOT NULL,
  `revision` int(11) NOT NULL,
  `status` varchar(16) NOT NULL,
  PRIMARY KEY (`firewall_group_id`,`host`,`role`),
  CONSTRAINT `fk_firewall_group_hosts_firewall_group_id` FOREIGN KEY (`firewall_group_id`) REFERENCES `firewall_groups` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_group_hosts` WRITE;
/*!40000 ALTER TABLE `firewall_group_hosts` DISABLE KEYS */;
/*!40000 ALTER TABLE `firewall_group_hosts` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_group_ports`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_group_ports` (
  `port_id` varchar(36) NOT NULL,
  `firewall_group_id` varchar(36) NOT NULL,
  PRIMARY KEY (`port_id`),
  KEY `ix_firewall_group_ports_firewall_group_id` (`firewall_group_id`),
  CONSTRAINT `fk_firewall_group_ports_firewall_group_id` FOREIGN KEY (`firewall_group_id`) REFERENCES `firewall_groups` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_firewall_group_ports_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_group_ports` WRITE;
/*!40000 ALTER TABLE `firewall_group_ports` DISABLE KEYS */;
INSERT INTO `firewall_group_ports` VALUES
('ca768648-384b-4c4c-96c7-d262d794a193','633ac3fe-d8a0-4d31-9b91-75abd99f5299');
/*!40000 ALTER TABLE `firewall_group_ports` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_groups` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `admin_state_up` tinyint(1) NOT NULL,
  `shared` tinyint(1) NOT NULL,
  `is_default` tinyint(1) NOT NULL,
  `status` varchar(16) NOT NULL,
  `ingress_firewall_policy_id` varchar(36) DEFAULT NULL,
  `egress_firewall_policy_id` varchar(36) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_firewall_groups_project_id` (`project_id`),
  KEY `ix_firewall_groups_shared` (`shared`),
  KEY `ix_firewall_groups_egress_firewall_policy_id` (`egress_firewall_policy_id`),
  KEY `ix_firewall_groups_ingress_firewall_policy_id` (`ingress_firewall_policy_id`),
  CONSTRAINT `fk_firewall_groups_egress_firewall_policy_id` FOREIGN KEY (`egress_firewall_policy_id`) REFERENCES `firewall_policies` (`id`),
  CONSTRAINT `fk_firewall_groups_ingress_firewall_policy_id` FOREIGN KEY (`ingress_firewall_policy_id`) REFERENCES `firewall_policies` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_groups` WRITE;
/*!40000 ALTER TABLE `firewall_groups` DISABLE KEYS */;
INSERT INTO `firewall_groups` VALUES
('633ac3fe-d8a0-4d31-9b91-75abd99f5299','0123456789abcdef0123456789abcdef','edge','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',1,0,0,'PENDING_CREATE','e3f2a5ee-2e98-4a20-8716-02870b1ad065',NULL),
('a76955b1-f737-432a-a919-e09fd323ee1f','0123456789abcdef0123456789abcdef','default','Default firewall group','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',1,0,1,'PENDING_CREATE','1fb9473d-5672-4d79-8a6c-5032bcbece50','5181a050-ae74-4b22-8744-f57e1c277e12');
/*!40000 ALTER TABLE `firewall_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_policies`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_policies` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `shared` tinyint(1) NOT NULL,
  `audited` tinyint(1) NOT NULL,
  `firewall_rules` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_firewall_policies_shared` (`shared`),
  KEY `ix_firewall_policies_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_policies` WRITE;
/*!40000 ALTER TABLE `firewall_policies` DISABLE KEYS */;
INSERT INTO `firewall_policies` VALUES
('1fb9473d-5672-4d79-8a6c-5032bcbece50','0123456789abcdef0123456789abcdef','default ingress','Ingress firewall policy','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,0,'[\"e95d4619-d695-46ca-a129-85de0dd7c52e\",\"e563cd3a-e778-4bdf-9d9f-2f1133e24e85\"]'),
('5181a050-ae74-4b22-8744-f57e1c277e12','0123456789abcdef0123456789abcdef','default egress','Egress firewall policy','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,0,'[\"95ff364a-896c-40d3-8a90-e392b1d68ba1\",\"5cb43d82-b976-4be1-a39f-5e0739c15a83\"]'),
('e3f2a5ee-2e98-4a20-8716-02870b1ad065','0123456789abcdef0123456789abcdef','inbound','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,0,'[\"bb9968fc-6d16-47d9-af38-367c840b659e\",\"2f801b7b-b394-4cd2-a414-6599b0b87830\"]');
/*!40000 ALTER TABLE `firewall_policies` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_policy_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_policy_rules` (
  `firewall_policy_id` varchar(36) NOT NULL,
  `firewall_rule_id` varchar(36) NOT NULL,
  `position` int(11) NOT NULL,
  PRIMARY KEY (`firewall_policy_id`,`firewall_rule_id`),
  KEY `ix_firewall_policy_rules_firewall_rule_id` (`firewall_rule_id`),
  CONSTRAINT `fk_firewall_policy_rules_firewall_policy_id` FOREIGN KEY (`firewall_policy_id`) REFERENCES `firewall_policies` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_firewall_policy_rules_firewall_rule_id` FOREIGN KEY (`firewall_rule_id`) REFERENCES `firewall_rules` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_policy_rules` WRITE;
/*!40000 ALTER TABLE `firewall_policy_rules` DISABLE KEYS */;
INSERT INTO `firewall_policy_rules` VALUES
('1fb9473d-5672-4d79-8a6c-5032bcbece50','e563cd3a-e778-4bdf-9d9f-2f1133e24e85',2),
('1fb9473d-5672-4d79-8a6c-5032bcbece50','e95d4619-d695-46ca-a129-85de0dd7c52e',1),
('5181a050-ae74-4b22-8744-f57e1c277e12','5cb43d82-b976-4be1-a39f-5e0739c15a83',2),
('5181a050-ae74-4b22-8744-f57e1c277e12','95ff364a-896c-40d3-8a90-e392b1d68ba1',1),
('e3f2a5ee-2e98-4a20-8716-02870b1ad065','2f801b7b-b394-4cd2-a414-6599b0b87830',2),
('e3f2a5ee-2e98-4a20-8716-02870b1ad065','bb9968fc-6d16-47d9-af38-367c840b659e',1);
/*!40000 ALTER TABLE `firewall_policy_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `firewall_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `firewall_rules` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `shared` tinyint(1) NOT NULL,
  `enabled` tinyint(1) NOT NULL,
  `protocol` varchar(40) DEFAULT NULL,
  `ip_version` int(11) NOT NULL,
  `source_ip_address` varchar(64) DEFAULT NULL,
  `destination_ip_address` varchar(64) DEFAULT NULL,
  `source_port` varchar(16) DEFAULT NULL,
  `destination_port` varchar(16) DEFAULT NULL,
  `action` varchar(16) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_firewall_rules_shared` (`shared`),
  KEY `ix_firewall_rules_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `firewall_rules` WRITE;
/*!40000 ALTER TABLE `firewall_rules` DISABLE KEYS */;
INSERT INTO `firewall_rules` VALUES
('2f801b7b-b394-4cd2-a414-6599b0b87830','0123456789abcdef0123456789abcdef','deny','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,NULL,4,'203.0.113.0/24',NULL,NULL,NULL,'deny'),
('5cb43d82-b976-4be1-a39f-5e0739c15a83','0123456789abcdef0123456789abcdef','default egress ipv6','default egress rule for IPv6','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,NULL,6,NULL,NULL,NULL,NULL,'allow'),
('95ff364a-896c-40d3-8a90-e392b1d68ba1','0123456789abcdef0123456789abcdef','default egress ipv4','default egress rule for IPv4','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,NULL,4,NULL,NULL,NULL,NULL,'allow'),
('bb9968fc-6d16-47d9-af38-367c840b659e','0123456789abcdef0123456789abcdef','allow-web','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,'tcp',4,NULL,NULL,NULL,'80','allow'),
('e563cd3a-e778-4bdf-9d9f-2f1133e24e85','0123456789abcdef0123456789abcdef','default ingress ipv6','default ingress rule for IPv6','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,NULL,6,NULL,NULL,NULL,NULL,'deny'),
('e95d4619-d695-46ca-a129-85de0dd7c52e','0123456789abcdef0123456789abcdef','default ingress ipv4','default ingress rule for IPv4','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',0,1,NULL,4,NULL,NULL,NULL,NULL,'deny');
/*!40000 ALTER TABLE `firewall_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `flavor_service_profiles`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `flavor_service_profiles` (
  `flavor_id` varchar(36) NOT NULL,
  `service_profile_id` varchar(36) NOT NULL,
  PRIMARY KEY (`flavor_id`,`service_profile_id`),
  KEY `ix_flavor_service_profiles_service_profile_id` (`service_profile_id`),
  CONSTRAINT `fk_flavor_service_profiles_flavor_id` FOREIGN KEY (`flavor_id`) REFERENCES `flavors` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_flavor_service_profiles_service_profile_id` FOREIGN KEY (`service_profile_id`) REFERENCES `service_profiles` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `flavor_service_profiles` WRITE;
/*!40000 ALTER TABLE `flavor_service_profiles` DISABLE KEYS */;
INSERT INTO `flavor_service_profiles` VALUES
('6689c411-3ecd-4bd2-a5f6-d84c4c1752b6','639dc4cb-7ecb-446f-bf44-6159233ba156');
/*!40000 ALTER TABLE `flavor_service_profiles` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `flavors`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `flavors` (
  `id` varchar(36) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(1024) DEFAULT NULL,
  `service_type` varchar(36) NOT NULL,
  `enabled` tinyint(1) NOT NULL,
  `service_profiles` longtext NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `flavors` WRITE;
/*!40000 ALTER TABLE `flavors` DISABLE KEYS */;
INSERT INTO `flavors` VALUES
('6689c411-3ecd-4bd2-a5f6-d84c4c1752b6','fast','','L3_ROUTER_NAT',1,'[\"639dc4cb-7ecb-446f-bf44-6159233ba156\"]');
/*!40000 ALTER TABLE `flavors` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `floatingips`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `floatingips` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `floating_network_id` varchar(36) NOT NULL,
  `floating_ip_address` varchar(64) NOT NULL,
  `floating_port_id` varchar(36) NOT NULL,
  `router_id` varchar(36) DEFAULT NULL,
  `port_id` varchar(36) DEFAULT NULL,
  `fixed_ip_address` varchar(64) DEFAULT NULL,
  `status` varchar(16) NOT NULL,
  `dns_name` varchar(255) NOT NULL,
  `dns_domain` varchar(255) NOT NULL,
  `qos_policy_id` varchar(36) DEFAULT NULL,
  `port_forwardings` longtext NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_floatingips_floating_port_id` (`floating_port_id`),
  UNIQUE KEY `uq_floatingips_port_id_fixed_ip_address_floating_network_id` (`port_id`,`fixed_ip_address`,`floating_network_id`),
  KEY `ix_floatingips_project_id` (`project_id`),
  KEY `ix_floatingips_router_id` (`router_id`),
  KEY `ix_floatingips_floating_network_id` (`floating_network_id`),
  KEY `ix_floatingips_qos_policy_id` (`qos_policy_id`),
  KEY `ix_floatingips_floating_ip_address` (`floating_ip_address`),
  KEY `ix_floatingips_port_id` (`port_id`),
  CONSTRAINT `fk_floatingips_floating_port_id` FOREIGN KEY (`floating_port_id`) REFERENCES `ports` (`id`),
  CONSTRAINT `fk_floatingips_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`),
  CONSTRAINT `fk_floatingips_qos_policy_id` FOREIGN KEY (`qos_policy_id`) REFERENCES `qos_policies` (`id`),
  CONSTRAINT `fk_floatingips_router_id` FOREIGN KEY (`router_id`) REFERENCES `routers` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `floatingips` WRITE;
/*!40000 ALTER TABLE `floatingips` DISABLE KEYS */;
INSERT INTO `floatingips` VALUES
('fa582842-c0ca-466e-a93b-7ee7cf0c0ec8','0123456789abcdef0123456789abcdef','','port forwarding','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d','172.24.4.167','a8cd9649-4652-49a4-aa26-05290f538031','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac',NULL,NULL,'ACTIVE','','',NULL,'[{\"id\":\"f9ca5e51-1adc-4aa2-a8cc-4be655204ca6\",\"internal_ip_address\":\"10.0.0.190\",\"protocol\":\"tcp\",\"internal_port\":22,\"external_port\":2222,\"internal_port_id\":\"a52c366d-76f0-48aa-ac5d-bca41eb45bc2\"}]'),
('fe1b928b-2801-484c-9dfa-2d187c0e6270','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d','172.24.4.193','330b9c5b-6472-4bb3-bfb5-2a6da82e53bc','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','ca768648-384b-4c4c-96c7-d262d794a193','10.0.0.181','ACTIVE','','','b137bd18-9660-4cf5-bfdf-8972384b9574','[]');
/*!40000 ALTER TABLE `floatingips` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `ha_networks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `ha_networks` (
  `project_id` varchar(255) NOT NULL,
  `network_id` varchar(36) NOT NULL,
  PRIMARY KEY (`project_id`),
  KEY `ix_ha_networks_network_id` (`network_id`),
  CONSTRAINT `fk_ha_networks_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `ha_networks` WRITE;
/*!40000 ALTER TABLE `ha_networks` DISABLE KEYS */;
INSERT INTO `ha_networks` VALUES
('0123456789abcdef0123456789abcdef','6f8745f6-6dcc-45b1-8025-69ffd711d5cc');
/*!40000 ALTER TABLE `ha_networks` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `host_credentials`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `host_credentials` (
  `host` varchar(255) NOT NULL,
  `digest` varchar(64) NOT NULL,
  `created_at` varchar(20) NOT NULL,
  `roles` varchar(255) NOT NULL DEFAULT 'l2,dhcp,l3,metadata',
  PRIMARY KEY (`host`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `host_credentials` WRITE;
/*!40000 ALTER TABLE `host_credentials` DISABLE KEYS */;
INSERT INTO `host_credentials` VALUES
('h1','83beea9f7c4a60939d3292d492f86fb06523ffff637c7b26a312eaaad9ee05d6','2026-11-16T13:16:06Z','l2,dhcp,l3,metadata');
/*!40000 ALTER TABLE `host_credentials` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `ip_allocations`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `ip_allocations` (
  `subnet_id` varchar(36) NOT NULL,
  `ip_address` varchar(64) NOT NULL,
  `port_id` varchar(36) NOT NULL,
  `network_id` varchar(36) NOT NULL,
  PRIMARY KEY (`subnet_id`,`ip_address`),
  KEY `ix_ip_allocations_network_id` (`network_id`),
  KEY `ix_ip_allocations_port_id` (`port_id`),
  CONSTRAINT `fk_ip_allocations_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_ip_allocations_subnet_id` FOREIGN KEY (`subnet_id`) REFERENCES `subnets` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `ip_allocations` WRITE;
/*!40000 ALTER TABLE `ip_allocations` DISABLE KEYS */;
INSERT INTO `ip_allocations` VALUES
('2fb59a4f-5893-4df0-9748-115d832a48ee','172.24.4.167','a8cd9649-4652-49a4-aa26-05290f538031','dd7442bc-a521-4a2e-8642-60f45d46919d'),
('2fb59a4f-5893-4df0-9748-115d832a48ee','172.24.4.193','330b9c5b-6472-4bb3-bfb5-2a6da82e53bc','dd7442bc-a521-4a2e-8642-60f45d46919d'),
('2fb59a4f-5893-4df0-9748-115d832a48ee','172.24.4.20','84f697b2-d8cc-43ac-95ab-c74042a42d2a','dd7442bc-a521-4a2e-8642-60f45d46919d'),
('532505f3-a1f7-4035-90f4-4c88c622eeff','2001:db8:1:0:f816:3eff:fe90:c333','ca768648-384b-4c4c-96c7-d262d794a193','5e3a43ce-10a4-49f7-bae3-ec2950263ef6'),
('532505f3-a1f7-4035-90f4-4c88c622eeff','2001:db8:1:0:f816:3eff:fe98:efd1','a52c366d-76f0-48aa-ac5d-bca41eb45bc2','5e3a43ce-10a4-49f7-bae3-ec2950263ef6'),
('949451ac-73ec-4ee5-9ebc-3b71bb676118','10.64.0.1','9321c717-4fc2-45f6-8486-1997b88ffe27','2c5488d6-e3d9-4bf3-9f59-481c90a22c87'),
('949451ac-73ec-4ee5-9ebc-3b71bb676118','10.64.0.174','a6d61984-2f9b-4209-a712-f0df18511710','2c5488d6-e3d9-4bf3-9f59-481c90a22c87'),
('949451ac-73ec-4ee5-9ebc-3b71bb676118','10.64.0.192','9487fd0b-23cf-4bb0-ad85-4e5cd855e594','2c5488d6-e3d9-4bf3-9f59-481c90a22c87'),
('aa2c6429-3405-4088-9902-d77c1c563cc9','169.254.192.32','cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53','6f8745f6-6dcc-45b1-8025-69ffd711d5cc'),
('aa2c6429-3405-4088-9902-d77c1c563cc9','169.254.249.116','f19165ac-6774-40f2-96bc-cd2d1037b36b','6f8745f6-6dcc-45b1-8025-69ffd711d5cc'),
('daed5993-c996-4c31-9321-05014365b19e','10.0.0.1','2207946f-88c2-4a5d-981a-3c06f323b2a1','5e3a43ce-10a4-49f7-bae3-ec2950263ef6'),
('daed5993-c996-4c31-9321-05014365b19e','10.0.0.181','ca768648-384b-4c4c-96c7-d262d794a193','5e3a43ce-10a4-49f7-bae3-ec2950263ef6'),
('daed5993-c996-4c31-9321-05014365b19e','10.0.0.190','a52c366d-76f0-48aa-ac5d-bca41eb45bc2','5e3a43ce-10a4-49f7-bae3-ec2950263ef6');
/*!40000 ALTER TABLE `ip_allocations` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `journal`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `journal` (
  `id` varchar(36) NOT NULL,
  `operation` varchar(64) NOT NULL,
  `object_id` varchar(36) NOT NULL,
  `before` longtext DEFAULT NULL,
  `after` longtext DEFAULT NULL,
  `at` float NOT NULL,
  `owner` varchar(64) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `journal` WRITE;
/*!40000 ALTER TABLE `journal` DISABLE KEYS */;
/*!40000 ALTER TABLE `journal` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `network_attributes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `network_attributes` (
  `object_id` varchar(36) NOT NULL,
  `name` varchar(64) NOT NULL,
  `value` longtext NOT NULL,
  PRIMARY KEY (`object_id`,`name`),
  CONSTRAINT `fk_network_attributes_object_id` FOREIGN KEY (`object_id`) REFERENCES `networks` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `network_attributes` WRITE;
/*!40000 ALTER TABLE `network_attributes` DISABLE KEYS */;
/*!40000 ALTER TABLE `network_attributes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `network_dhcp_agents`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `network_dhcp_agents` (
  `network_id` varchar(36) NOT NULL,
  `agent_id` varchar(36) NOT NULL,
  PRIMARY KEY (`network_id`,`agent_id`),
  KEY `ix_network_dhcp_agents_agent_id` (`agent_id`),
  CONSTRAINT `fk_network_dhcp_agents_agent_id` FOREIGN KEY (`agent_id`) REFERENCES `agents` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_network_dhcp_agents_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `network_dhcp_agents` WRITE;
/*!40000 ALTER TABLE `network_dhcp_agents` DISABLE KEYS */;
INSERT INTO `network_dhcp_agents` VALUES
('2c5488d6-e3d9-4bf3-9f59-481c90a22c87','0cdee124-206e-4da4-bd5a-a325ca629f85'),
('5e3a43ce-10a4-49f7-bae3-ec2950263ef6','0cdee124-206e-4da4-bd5a-a325ca629f85');
/*!40000 ALTER TABLE `network_dhcp_agents` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `network_segments`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `network_segments` (
  `id` varchar(36) NOT NULL,
  `network_id` varchar(36) NOT NULL,
  `network_type` varchar(32) NOT NULL,
  `physical_network` varchar(64) DEFAULT NULL,
  `segmentation_id` int(11) DEFAULT NULL,
  `position` int(11) NOT NULL,
  `identity` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_network_segments_identity` (`identity`),
  KEY `ix_network_segments_network_id` (`network_id`),
  CONSTRAINT `fk_network_segments_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `network_segments` WRITE;
/*!40000 ALTER TABLE `network_segments` DISABLE KEYS */;
INSERT INTO `network_segments` VALUES
('03d6db88-b64d-408e-9162-832f82796c3d','2c5488d6-e3d9-4bf3-9f59-481c90a22c87','vxlan',NULL,12220,0,'vxlan/12220'),
('164dcce2-d0b9-49e7-85c1-994d88bc5f94','471885c8-c084-43d4-a81e-d4521e2b5b63','vlan','physnet1',101,0,'vlan/physnet1/101'),
('cf3f8dc3-2da8-44fd-8a95-fd0a821399f2','5e3a43ce-10a4-49f7-bae3-ec2950263ef6','vxlan',NULL,1459,0,'vxlan/1459'),
('d2ff4288-fafa-4836-b1e5-03e864105617','6f8745f6-6dcc-45b1-8025-69ffd711d5cc','vxlan',NULL,132,0,'vxlan/132'),
('fda1f65b-db36-430a-a483-b5b48a92cd56','dd7442bc-a521-4a2e-8642-60f45d46919d','flat','physnet1',NULL,0,'flat/physnet1');
/*!40000 ALTER TABLE `network_segments` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `networks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `networks` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `admin_state_up` tinyint(1) NOT NULL,
  `port_security_enabled` tinyint(1) NOT NULL,
  `status` varchar(16) NOT NULL,
  `mtu` int(11) NOT NULL,
  `external` tinyint(1) NOT NULL,
  `is_default` tinyint(1) NOT NULL,
  `dns_domain` varchar(255) NOT NULL,
  `qos_policy_id` varchar(36) DEFAULT NULL,
  `ipv4_address_scope` varchar(36) DEFAULT NULL,
  `ipv6_address_scope` varchar(36) DEFAULT NULL,
  `availability_zone_hints` longtext NOT NULL,
  `extra_dhcp_opts` longtext NOT NULL,
  `subnets` longtext NOT NULL,
  `network_type` varchar(32) DEFAULT NULL,
  `physical_network` varchar(64) DEFAULT NULL,
  `segmentation_id` int(11) DEFAULT NULL,
  `segments` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_networks_project_id` (`project_id`),
  KEY `ix_networks_qos_policy_id` (`qos_policy_id`),
  KEY `ix_networks_external` (`external`),
  CONSTRAINT `fk_networks_qos_policy_id` FOREIGN KEY (`qos_policy_id`) REFERENCES `qos_policies` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `networks` WRITE;
/*!40000 ALTER TABLE `networks` DISABLE KEYS */;
INSERT INTO `networks` VALUES
('2c5488d6-e3d9-4bf3-9f59-481c90a22c87','0123456789abcdef0123456789abcdef','green','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',3,'[]',1,1,'ACTIVE',1450,0,0,'',NULL,'f2dbc726-bf3a-413c-a1d4-f85fbf6897f6',NULL,'[]','[]','[\"949451ac-73ec-4ee5-9ebc-3b71bb676118\"]','vxlan',NULL,12220,'null'),
('471885c8-c084-43d4-a81e-d4521e2b5b63','0123456789abcdef0123456789abcdef','vlan','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',1,1,'ACTIVE',1400,0,0,'',NULL,NULL,NULL,'[]','[]','[]','vlan','physnet1',101,'null'),
('5e3a43ce-10a4-49f7-bae3-ec2950263ef6','0123456789abcdef0123456789abcdef','blue','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',4,'[\"prod\",\"tier=1\"]',1,1,'ACTIVE',1450,0,0,'blue.example.org.','b137bd18-9660-4cf5-bfdf-8972384b9574',NULL,NULL,'[]','[]','[\"daed5993-c996-4c31-9321-05014365b19e\",\"532505f3-a1f7-4035-90f4-4c88c622eeff\"]','vxlan',NULL,1459,'null'),
('6f8745f6-6dcc-45b1-8025-69ffd711d5cc','','HA network tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',2,'[]',1,0,'ACTIVE',1450,0,0,'',NULL,NULL,NULL,'[]','[]','[\"aa2c6429-3405-4088-9902-d77c1c563cc9\"]','vxlan',NULL,132,'null'),
('dd7442bc-a521-4a2e-8642-60f45d46919d','0123456789abcdef0123456789abcdef','public','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',2,'[]',1,1,'ACTIVE',1500,1,0,'',NULL,NULL,NULL,'[]','[]','[\"2fb59a4f-5893-4df0-9748-115d832a48ee\"]','flat','physnet1',NULL,'null');
/*!40000 ALTER TABLE `networks` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `port_attributes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `port_attributes` (
  `object_id` varchar(36) NOT NULL,
  `name` varchar(64) NOT NULL,
  `value` longtext NOT NULL,
  PRIMARY KEY (`object_id`,`name`),
  CONSTRAINT `fk_port_attributes_object_id` FOREIGN KEY (`object_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `port_attributes` WRITE;
/*!40000 ALTER TABLE `port_attributes` DISABLE KEYS */;
/*!40000 ALTER TABLE `port_attributes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `port_bindings`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `port_bindings` (
  `port_id` varchar(36) NOT NULL,
  `host` varchar(255) NOT NULL,
  `status` varchar(16) NOT NULL,
  `vnic_type` varchar(64) NOT NULL,
  `vif_type` varchar(64) NOT NULL,
  `profile` longtext NOT NULL,
  `vif_details` longtext NOT NULL,
  `levels` longtext NOT NULL,
  PRIMARY KEY (`port_id`,`host`),
  KEY `ix_port_bindings_host` (`host`),
  CONSTRAINT `fk_port_bindings_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `port_bindings` WRITE;
/*!40000 ALTER TABLE `port_bindings` DISABLE KEYS */;
INSERT INTO `port_bindings` VALUES
('2207946f-88c2-4a5d-981a-3c06f323b2a1','h1','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"cf3f8dc3-2da8-44fd-8a95-fd0a821399f2\"}]'),
('84f697b2-d8cc-43ac-95ab-c74042a42d2a','h1','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"fda1f65b-db36-430a-a483-b5b48a92cd56\"}]'),
('9321c717-4fc2-45f6-8486-1997b88ffe27','h2','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"03d6db88-b64d-408e-9162-832f82796c3d\"}]'),
('a52c366d-76f0-48aa-ac5d-bca41eb45bc2','h2','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"cf3f8dc3-2da8-44fd-8a95-fd0a821399f2\"}]'),
('a6d61984-2f9b-4209-a712-f0df18511710','h1','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"03d6db88-b64d-408e-9162-832f82796c3d\"}]'),
('ca768648-384b-4c4c-96c7-d262d794a193','h1','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"cf3f8dc3-2da8-44fd-8a95-fd0a821399f2\"}]'),
('cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53','h2','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"d2ff4288-fafa-4836-b1e5-03e864105617\"}]'),
('f19165ac-6774-40f2-96bc-cd2d1037b36b','h1','ACTIVE','normal','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"level\":0,\"driver\":\"openvswitch\",\"segment_id\":\"d2ff4288-fafa-4836-b1e5-03e864105617\"}]');
/*!40000 ALTER TABLE `port_bindings` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `port_forwardings`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `port_forwardings` (
  `id` varchar(36) NOT NULL,
  `floatingip_id` varchar(36) NOT NULL,
  `internal_port_id` varchar(36) NOT NULL,
  `internal_ip_address` varchar(64) NOT NULL,
  `protocol` varchar(40) NOT NULL,
  `external_port_range` varchar(16) NOT NULL,
  `internal_port_range` varchar(16) NOT NULL,
  `external_port` int(11) DEFAULT NULL,
  `internal_port` int(11) DEFAULT NULL,
  `description` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_port_forwardings_inside` (`internal_port_id`,`internal_ip_address`,`protocol`,`internal_port_range`),
  KEY `ix_port_forwardings_floatingip_id` (`floatingip_id`),
  KEY `ix_port_forwardings_internal_port_id` (`internal_port_id`),
  CONSTRAINT `fk_port_forwardings_floatingip_id` FOREIGN KEY (`floatingip_id`) REFERENCES `floatingips` (`id`),
  CONSTRAINT `fk_port_forwardings_internal_port_id` FOREIGN KEY (`internal_port_id`) REFERENCES `ports` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `port_forwardings` WRITE;
/*!40000 ALTER TABLE `port_forwardings` DISABLE KEYS */;
INSERT INTO `port_forwardings` VALUES
('f9ca5e51-1adc-4aa2-a8cc-4be655204ca6','fa582842-c0ca-466e-a93b-7ee7cf0c0ec8','a52c366d-76f0-48aa-ac5d-bca41eb45bc2','10.0.0.190','tcp','2222:2222','22:22',2222,22,'');
/*!40000 ALTER TABLE `port_forwardings` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `port_security_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `port_security_groups` (
  `port_id` varchar(36) NOT NULL,
  `security_group_id` varchar(36) NOT NULL,
  PRIMARY KEY (`port_id`,`security_group_id`),
  KEY `ix_port_security_groups_security_group_id` (`security_group_id`),
  CONSTRAINT `fk_port_security_groups_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_port_security_groups_security_group_id` FOREIGN KEY (`security_group_id`) REFERENCES `security_groups` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `port_security_groups` WRITE;
/*!40000 ALTER TABLE `port_security_groups` DISABLE KEYS */;
INSERT INTO `port_security_groups` VALUES
('9487fd0b-23cf-4bb0-ad85-4e5cd855e594','4d69d214-ec9b-4a95-863a-62bc2a7418fb'),
('a52c366d-76f0-48aa-ac5d-bca41eb45bc2','4d69d214-ec9b-4a95-863a-62bc2a7418fb'),
('ca768648-384b-4c4c-96c7-d262d794a193','3c788522-8fbe-4b51-877d-542f68b8e561');
/*!40000 ALTER TABLE `port_security_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `ports`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `ports` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `network_id` varchar(36) NOT NULL,
  `mac_address` varchar(32) NOT NULL,
  `admin_state_up` tinyint(1) NOT NULL,
  `port_security_enabled` tinyint(1) NOT NULL,
  `propagate_uplink_status` tinyint(1) NOT NULL,
  `status` varchar(16) NOT NULL,
  `device_id` varchar(255) NOT NULL,
  `device_owner` varchar(255) NOT NULL,
  `dns_name` varchar(255) NOT NULL,
  `dns_domain` varchar(255) NOT NULL,
  `ip_allocation` varchar(16) NOT NULL,
  `qos_policy_id` varchar(36) DEFAULT NULL,
  `data_plane_status` varchar(16) DEFAULT NULL,
  `numa_affinity_policy` varchar(64) DEFAULT NULL,
  `device_profile` varchar(255) DEFAULT NULL,
  `vnic_type` varchar(64) NOT NULL,
  `host` varchar(255) NOT NULL,
  `vif_type` varchar(64) NOT NULL,
  `profile` longtext NOT NULL,
  `vif_details` longtext NOT NULL,
  `fixed_ips` longtext NOT NULL,
  `security_groups` longtext NOT NULL,
  `allowed_address_pairs` longtext NOT NULL,
  `extra_dhcp_opts` longtext NOT NULL,
  `dns_assignment` longtext NOT NULL,
  `hints` longtext NOT NULL,
  `trusted` tinyint(1) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_ports_network_id_mac_address` (`network_id`,`mac_address`),
  KEY `ix_ports_network_id` (`network_id`),
  KEY `ix_ports_project_id` (`project_id`),
  KEY `ix_ports_host` (`host`),
  KEY `ix_ports_qos_policy_id` (`qos_policy_id`),
  KEY `ix_ports_device_id` (`device_id`),
  CONSTRAINT `fk_ports_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`),
  CONSTRAINT `fk_ports_qos_policy_id` FOREIGN KEY (`qos_policy_id`) REFERENCES `qos_policies` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `ports` WRITE;
/*!40000 ALTER TABLE `ports` DISABLE KEYS */;
INSERT INTO `ports` VALUES
('2207946f-88c2-4a5d-981a-3c06f323b2a1','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:07Z',4,'[]','5e3a43ce-10a4-49f7-bae3-ec2950263ef6','fa:16:3e:f7:0b:ef',1,0,1,'ACTIVE','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','network:router_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"daed5993-c996-4c31-9321-05014365b19e\",\"ip_address\":\"10.0.0.1\"}]','[]','[]','[]','[{\"ip_address\":\"10.0.0.1\",\"hostname\":\"host-10-0-0-1\",\"fqdn\":\"host-10-0-0-1.example.org.\"}]','null',NULL),
('330b9c5b-6472-4bb3-bfb5-2a6da82e53bc','','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d','fa:16:3e:92:06:6e',1,0,1,'N/A','fe1b928b-2801-484c-9dfa-2d187c0e6270','network:floatingip','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{\"subnet_id\":\"2fb59a4f-5893-4df0-9748-115d832a48ee\",\"ip_address\":\"172.24.4.193\"}]','[]','[]','[]','[{\"ip_address\":\"172.24.4.193\",\"hostname\":\"host-172-24-4-193\",\"fqdn\":\"host-172-24-4-193.example.org.\"}]','null',NULL),
('84f697b2-d8cc-43ac-95ab-c74042a42d2a','','','','2026-11-16T13:16:06Z','2026-11-16T13:16:07Z',4,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d','fa:16:3e:72:65:e6',1,0,1,'ACTIVE','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','network:router_gateway','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"2fb59a4f-5893-4df0-9748-115d832a48ee\",\"ip_address\":\"172.24.4.20\"}]','[]','[]','[]','[{\"ip_address\":\"172.24.4.20\",\"hostname\":\"host-172-24-4-20\",\"fqdn\":\"host-172-24-4-20.example.org.\"}]','null',NULL),
('9321c717-4fc2-45f6-8486-1997b88ffe27','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',3,'[]','2c5488d6-e3d9-4bf3-9f59-481c90a22c87','fa:16:3e:80:5c:67',1,0,1,'DOWN','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:ha_router_replicated_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h2','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"949451ac-73ec-4ee5-9ebc-3b71bb676118\",\"ip_address\":\"10.64.0.1\"}]','[]','[]','[]','[{\"ip_address\":\"10.64.0.1\",\"hostname\":\"host-10-64-0-1\",\"fqdn\":\"host-10-64-0-1.example.org.\"}]','null',NULL),
('9487fd0b-23cf-4bb0-ad85-4e5cd855e594','0123456789abcdef0123456789abcdef','unbound','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]','2c5488d6-e3d9-4bf3-9f59-481c90a22c87','fa:16:3e:ed:31:9c',1,1,1,'DOWN','','','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{\"subnet_id\":\"949451ac-73ec-4ee5-9ebc-3b71bb676118\",\"ip_address\":\"10.64.0.192\"}]','[\"4d69d214-ec9b-4a95-863a-62bc2a7418fb\"]','[]','[]','[{\"ip_address\":\"10.64.0.192\",\"hostname\":\"host-10-64-0-192\",\"fqdn\":\"host-10-64-0-192.example.org.\"}]','null',NULL),
('a52c366d-76f0-48aa-ac5d-bca41eb45bc2','0123456789abcdef0123456789abcdef','vm2','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',3,'[]','5e3a43ce-10a4-49f7-bae3-ec2950263ef6','fa:16:3e:98:ef:d1',1,1,1,'DOWN','b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f02','compute:nova','','','immediate',NULL,NULL,NULL,NULL,'normal','h2','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"daed5993-c996-4c31-9321-05014365b19e\",\"ip_address\":\"10.0.0.190\"},{\"subnet_id\":\"532505f3-a1f7-4035-90f4-4c88c622eeff\",\"ip_address\":\"2001:db8:1:0:f816:3eff:fe98:efd1\"}]','[\"4d69d214-ec9b-4a95-863a-62bc2a7418fb\"]','[]','[]','[{\"ip_address\":\"10.0.0.190\",\"hostname\":\"host-10-0-0-190\",\"fqdn\":\"host-10-0-0-190.example.org.\"},{\"ip_address\":\"2001:db8:1:0:f816:3eff:fe98:efd1\",\"hostname\":\"host-2001-db8-1-0-f816-3eff-fe98-efd1\",\"fqdn\":\"host-2001-db8-1-0-f816-3eff-fe98-efd1.example.org.\"}]','null',NULL),
('a6d61984-2f9b-4209-a712-f0df18511710','0123456789abcdef0123456789abcdef','open','','2026-11-16T13:16:06Z','2026-11-16T13:16:07Z',4,'[]','2c5488d6-e3d9-4bf3-9f59-481c90a22c87','fa:16:3e:ba:70:8a',1,0,1,'ACTIVE','','compute:nova','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"949451ac-73ec-4ee5-9ebc-3b71bb676118\",\"ip_address\":\"10.64.0.174\"}]','[]','[]','[]','[{\"ip_address\":\"10.64.0.174\",\"hostname\":\"host-10-64-0-174\",\"fqdn\":\"host-10-64-0-174.example.org.\"}]','null',NULL),
('a8cd9649-4652-49a4-aa26-05290f538031','','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d','fa:16:3e:99:e4:fa',1,0,1,'N/A','fa582842-c0ca-466e-a93b-7ee7cf0c0ec8','network:floatingip','','','immediate',NULL,NULL,NULL,NULL,'normal','','unbound','{}','{}','[{\"subnet_id\":\"2fb59a4f-5893-4df0-9748-115d832a48ee\",\"ip_address\":\"172.24.4.167\"}]','[]','[]','[]','[{\"ip_address\":\"172.24.4.167\",\"hostname\":\"host-172-24-4-167\",\"fqdn\":\"host-172-24-4-167.example.org.\"}]','null',NULL),
('ca768648-384b-4c4c-96c7-d262d794a193','0123456789abcdef0123456789abcdef','vm1','','2026-11-16T13:16:06Z','2026-11-16T13:16:07Z',5,'[\"prod\",\"tier=1\"]','5e3a43ce-10a4-49f7-bae3-ec2950263ef6','fa:16:3e:90:c3:33',1,1,1,'ACTIVE','b7a1bd01-17b9-4a3e-9c2d-0d0c8e6a1f01','compute:nova','vm1','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"daed5993-c996-4c31-9321-05014365b19e\",\"ip_address\":\"10.0.0.181\"},{\"subnet_id\":\"532505f3-a1f7-4035-90f4-4c88c622eeff\",\"ip_address\":\"2001:db8:1:0:f816:3eff:fe90:c333\"}]','[\"3c788522-8fbe-4b51-877d-542f68b8e561\"]','[{\"mac_address\":\"fa:16:3e:90:c3:33\",\"ip_address\":\"10.0.0.100\"}]','[{\"opt_name\":\"bootfile-name\",\"opt_value\":\"pxe.0\",\"ip_version\":4}]','[{\"ip_address\":\"10.0.0.181\",\"hostname\":\"vm1\",\"fqdn\":\"vm1.example.org.\"},{\"ip_address\":\"2001:db8:1:0:f816:3eff:fe90:c333\",\"hostname\":\"vm1\",\"fqdn\":\"vm1.example.org.\"}]','null',NULL),
('cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53','','HA port tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',3,'[]','6f8745f6-6dcc-45b1-8025-69ffd711d5cc','fa:16:3e:ae:20:54',1,0,1,'DOWN','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:router_ha_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h2','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"aa2c6429-3405-4088-9902-d77c1c563cc9\",\"ip_address\":\"169.254.192.32\"}]','[]','[]','[]','[{\"ip_address\":\"169.254.192.32\",\"hostname\":\"host-169-254-192-32\",\"fqdn\":\"host-169-254-192-32.example.org.\"}]','null',NULL),
('f19165ac-6774-40f2-96bc-cd2d1037b36b','','HA port tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:16:06Z','2026-11-16T13:16:07Z',4,'[]','6f8745f6-6dcc-45b1-8025-69ffd711d5cc','fa:16:3e:f1:72:e4',1,0,1,'ACTIVE','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:router_ha_interface','','','immediate',NULL,NULL,NULL,NULL,'normal','h1','ovs','{}','{\"port_filter\":true,\"connectivity\":\"l2\",\"bridge_name\":\"br-int\",\"datapath_type\":\"system\",\"ovs_hybrid_plug\":false,\"bound_drivers\":{\"0\":\"openvswitch\"}}','[{\"subnet_id\":\"aa2c6429-3405-4088-9902-d77c1c563cc9\",\"ip_address\":\"169.254.249.116\"}]','[]','[]','[]','[{\"ip_address\":\"169.254.249.116\",\"hostname\":\"host-169-254-249-116\",\"fqdn\":\"host-169-254-249-116.example.org.\"}]','null',NULL);
/*!40000 ALTER TABLE `ports` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `provisioning_blocks`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `provisioning_blocks` (
  `port_id` varchar(36) NOT NULL,
  `component` varchar(32) NOT NULL,
  PRIMARY KEY (`port_id`,`component`),
  CONSTRAINT `fk_provisioning_blocks_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `provisioning_blocks` WRITE;
/*!40000 ALTER TABLE `provisioning_blocks` DISABLE KEYS */;
INSERT INTO `provisioning_blocks` VALUES
('9321c717-4fc2-45f6-8486-1997b88ffe27','L2'),
('a52c366d-76f0-48aa-ac5d-bca41eb45bc2','L2'),
('cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53','L2');
/*!40000 ALTER TABLE `provisioning_blocks` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `qos_policies`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `qos_policies` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `is_default` tinyint(1) NOT NULL,
  `rules` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_qos_policies_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `qos_policies` WRITE;
/*!40000 ALTER TABLE `qos_policies` DISABLE KEYS */;
INSERT INTO `qos_policies` VALUES
('b137bd18-9660-4cf5-bfdf-8972384b9574','0123456789abcdef0123456789abcdef','gold','all types of rules','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',5,'[]',0,'[{\"id\":\"e3f3ec5e-709c-49e9-9ae5-6805be8c64ba\",\"max_kbps\":10000,\"max_burst_kbps\":800,\"direction\":\"egress\",\"qos_policy_id\":\"b137bd18-9660-4cf5-bfdf-8972384b9574\",\"type\":\"bandwidth_limit\"},{\"id\":\"4eb91649-2350-41ac-9618-43d72074f913\",\"dscp_mark\":26,\"qos_policy_id\":\"b137bd18-9660-4cf5-bfdf-8972384b9574\",\"type\":\"dscp_marking\"},{\"id\":\"45cb5114-58b2-451c-a976-7f4c00a9cf9b\",\"min_kbps\":500,\"direction\":\"egress\",\"qos_policy_id\":\"b137bd18-9660-4cf5-bfdf-8972384b9574\",\"type\":\"minimum_bandwidth\"},{\"id\":\"015ec334-cb15-4afa-960c-a4c7a71b1b26\",\"max_kpps\":10,\"max_burst_kpps\":5,\"direction\":\"egress\",\"qos_policy_id\":\"b137bd18-9660-4cf5-bfdf-8972384b9574\",\"type\":\"packet_rate_limit\"},{\"id\":\"389a15bc-4bff-4edb-884b-fdee8cdf03dd\",\"min_kpps\":1,\"direction\":\"egress\",\"qos_policy_id\":\"b137bd18-9660-4cf5-bfdf-8972384b9574\",\"type\":\"minimum_packet_rate\"}]');
/*!40000 ALTER TABLE `qos_policies` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `qos_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `qos_rules` (
  `id` varchar(36) NOT NULL,
  `qos_policy_id` varchar(36) NOT NULL,
  `type` varchar(32) NOT NULL,
  `direction` varchar(16) NOT NULL,
  `max_kbps` int(11) DEFAULT NULL,
  `max_burst_kbps` int(11) DEFAULT NULL,
  `min_kbps` int(11) DEFAULT NULL,
  `max_kpps` int(11) DEFAULT NULL,
  `max_burst_kpps` int(11) DEFAULT NULL,
  `min_kpps` int(11) DEFAULT NULL,
  `dscp_mark` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_qos_rules_qos_policy_id_type_direction` (`qos_policy_id`,`type`,`direction`),
  KEY `ix_qos_rules_qos_policy_id` (`qos_policy_id`),
  CONSTRAINT `fk_qos_rules_qos_policy_id` FOREIGN KEY (`qos_policy_id`) REFERENCES `qos_policies` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `qos_rules` WRITE;
/*!40000 ALTER TABLE `qos_rules` DISABLE KEYS */;
INSERT INTO `qos_rules` VALUES
('015ec334-cb15-4afa-960c-a4c7a71b1b26','b137bd18-9660-4cf5-bfdf-8972384b9574','packet_rate_limit','egress',NULL,NULL,NULL,10,5,NULL,NULL),
('389a15bc-4bff-4edb-884b-fdee8cdf03dd','b137bd18-9660-4cf5-bfdf-8972384b9574','minimum_packet_rate','egress',NULL,NULL,NULL,NULL,NULL,1,NULL),
('45cb5114-58b2-451c-a976-7f4c00a9cf9b','b137bd18-9660-4cf5-bfdf-8972384b9574','minimum_bandwidth','egress',NULL,NULL,500,NULL,NULL,NULL,NULL),
('4eb91649-2350-41ac-9618-43d72074f913','b137bd18-9660-4cf5-bfdf-8972384b9574','dscp_marking','',NULL,NULL,NULL,NULL,NULL,NULL,26),
('e3f3ec5e-709c-49e9-9ae5-6805be8c64ba','b137bd18-9660-4cf5-bfdf-8972384b9574','bandwidth_limit','egress',10000,800,NULL,NULL,NULL,NULL,NULL);
/*!40000 ALTER TABLE `qos_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `quota_usages`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `quota_usages` (
  `project_id` varchar(255) NOT NULL,
  `resource` varchar(64) NOT NULL,
  `used` int(11) NOT NULL,
  PRIMARY KEY (`project_id`,`resource`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `quota_usages` WRITE;
/*!40000 ALTER TABLE `quota_usages` DISABLE KEYS */;
INSERT INTO `quota_usages` VALUES
('','network',1),
('','subnet',1),
('0123456789abcdef0123456789abcdef','address_group',1),
('0123456789abcdef0123456789abcdef','firewall_group',2),
('0123456789abcdef0123456789abcdef','firewall_policy',3),
('0123456789abcdef0123456789abcdef','firewall_rule',6),
('0123456789abcdef0123456789abcdef','floatingip',2),
('0123456789abcdef0123456789abcdef','network',4),
('0123456789abcdef0123456789abcdef','port',6),
('0123456789abcdef0123456789abcdef','port_forwarding',1),
('0123456789abcdef0123456789abcdef','rbac_policy',5),
('0123456789abcdef0123456789abcdef','router',3),
('0123456789abcdef0123456789abcdef','security_group',2),
('0123456789abcdef0123456789abcdef','security_group_rule',10),
('0123456789abcdef0123456789abcdef','subnet',4);
/*!40000 ALTER TABLE `quota_usages` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `quotas`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `quotas` (
  `project_id` varchar(255) NOT NULL,
  `resource` varchar(64) NOT NULL,
  `limit` int(11) NOT NULL,
  PRIMARY KEY (`project_id`,`resource`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `quotas` WRITE;
/*!40000 ALTER TABLE `quotas` DISABLE KEYS */;
INSERT INTO `quotas` VALUES
('0123456789abcdef0123456789abcdef','network',7),
('0123456789abcdef0123456789abcdef','port',77);
/*!40000 ALTER TABLE `quotas` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `rbac_policies`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `rbac_policies` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `object_type` varchar(32) NOT NULL,
  `object_id` varchar(36) NOT NULL,
  `action` varchar(32) NOT NULL,
  `target_project` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_rbac_policies_object_id_action_target_project_object_type` (`object_id`,`action`,`target_project`,`object_type`),
  KEY `ix_rbac_policies_project_id` (`project_id`),
  KEY `ix_rbac_policies_target_project` (`target_project`),
  KEY `ix_rbac_policies_object_id` (`object_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `rbac_policies` WRITE;
/*!40000 ALTER TABLE `rbac_policies` DISABLE KEYS */;
INSERT INTO `rbac_policies` VALUES
('82b57e43-8b2e-4efc-95d1-454ec054c63a','0123456789abcdef0123456789abcdef','network','471885c8-c084-43d4-a81e-d4521e2b5b63','access_as_shared','*'),
('a4cc9a8f-6156-41f4-abec-eb79a7e19dc8','0123456789abcdef0123456789abcdef','subnetpool','5cda9d71-9b52-428a-b40c-3c55c48fcf78','access_as_shared','*'),
('d0279aab-e17a-4f85-be8a-0ff14af17479','0123456789abcdef0123456789abcdef','network','dd7442bc-a521-4a2e-8642-60f45d46919d','access_as_external','*'),
('d2c08a4e-d32d-4de6-b990-44f18fedecca','0123456789abcdef0123456789abcdef','network','2c5488d6-e3d9-4bf3-9f59-481c90a22c87','access_as_shared','00000000000000000000000000000000'),
('f919c065-c32f-4a0c-80a8-0ebcda157b09','0123456789abcdef0123456789abcdef','address_scope','f2dbc726-bf3a-413c-a1d4-f85fbf6897f6','access_as_shared','*');
/*!40000 ALTER TABLE `rbac_policies` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `router_l3_agents`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `router_l3_agents` (
  `router_id` varchar(36) NOT NULL,
  `agent_id` varchar(36) NOT NULL,
  `ha_port_id` varchar(36) DEFAULT NULL,
  `ha_state` varchar(16) DEFAULT NULL,
  PRIMARY KEY (`router_id`,`agent_id`),
  KEY `ix_router_l3_agents_agent_id` (`agent_id`),
  CONSTRAINT `fk_router_l3_agents_agent_id` FOREIGN KEY (`agent_id`) REFERENCES `agents` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_router_l3_agents_router_id` FOREIGN KEY (`router_id`) REFERENCES `routers` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `router_l3_agents` WRITE;
/*!40000 ALTER TABLE `router_l3_agents` DISABLE KEYS */;
INSERT INTO `router_l3_agents` VALUES
('5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','3a04db70-4de7-47ba-a050-e305160bf29e',NULL,NULL),
('665fd962-732c-4e5e-8c0f-f6fd2f900104','3a04db70-4de7-47ba-a050-e305160bf29e','f19165ac-6774-40f2-96bc-cd2d1037b36b',NULL),
('665fd962-732c-4e5e-8c0f-f6fd2f900104','74b75c42-ec52-4adc-9647-7a4715314510','cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53',NULL);
/*!40000 ALTER TABLE `router_l3_agents` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `router_ports`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `router_ports` (
  `port_id` varchar(36) NOT NULL,
  `router_id` varchar(36) NOT NULL,
  `port_type` varchar(255) NOT NULL,
  PRIMARY KEY (`port_id`),
  KEY `ix_router_ports_router_id` (`router_id`),
  CONSTRAINT `fk_router_ports_port_id` FOREIGN KEY (`port_id`) REFERENCES `ports` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk_router_ports_router_id` FOREIGN KEY (`router_id`) REFERENCES `routers` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `router_ports` WRITE;
/*!40000 ALTER TABLE `router_ports` DISABLE KEYS */;
INSERT INTO `router_ports` VALUES
('2207946f-88c2-4a5d-981a-3c06f323b2a1','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','network:router_interface'),
('84f697b2-d8cc-43ac-95ab-c74042a42d2a','5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','network:router_gateway'),
('9321c717-4fc2-45f6-8486-1997b88ffe27','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:ha_router_replicated_interface'),
('cb9e50fd-c4ca-4ca5-801d-84c5cebb4b53','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:router_ha_interface'),
('f19165ac-6774-40f2-96bc-cd2d1037b36b','665fd962-732c-4e5e-8c0f-f6fd2f900104','network:router_ha_interface');
/*!40000 ALTER TABLE `router_ports` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `routers`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `routers` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `admin_state_up` tinyint(1) NOT NULL,
  `enable_snat` tinyint(1) NOT NULL,
  `status` varchar(16) NOT NULL,
  `distributed` tinyint(1) NOT NULL,
  `ha` tinyint(1) NOT NULL,
  `gw_port_id` varchar(36) DEFAULT NULL,
  `gw_network_id` varchar(36) DEFAULT NULL,
  `gw_qos_policy_id` varchar(36) DEFAULT NULL,
  `flavor_id` varchar(36) DEFAULT NULL,
  `ha_network_id` varchar(36) DEFAULT NULL,
  `ha_vr_id` int(11) DEFAULT NULL,
  `availability_zone_hints` longtext NOT NULL,
  `routes` longtext NOT NULL,
  `conntrack_helpers` longtext NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_routers_ha_network_id_ha_vr_id` (`ha_network_id`,`ha_vr_id`),
  KEY `ix_routers_gw_network_id` (`gw_network_id`),
  KEY `ix_routers_gw_qos_policy_id` (`gw_qos_policy_id`),
  KEY `ix_routers_project_id` (`project_id`),
  KEY `ix_routers_flavor_id` (`flavor_id`),
  CONSTRAINT `fk_routers_flavor_id` FOREIGN KEY (`flavor_id`) REFERENCES `flavors` (`id`),
  CONSTRAINT `fk_routers_gw_qos_policy_id` FOREIGN KEY (`gw_qos_policy_id`) REFERENCES `qos_policies` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `routers` WRITE;
/*!40000 ALTER TABLE `routers` DISABLE KEYS */;
INSERT INTO `routers` VALUES
('267fa3e2-4315-4017-a2c8-43d200a37ead','0123456789abcdef0123456789abcdef','dvr','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',1,1,'ACTIVE',1,0,NULL,NULL,NULL,NULL,NULL,NULL,'[]','[]','[]'),
('5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','0123456789abcdef0123456789abcdef','r1','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',7,'[\"prod\",\"tier=1\"]',1,1,'ACTIVE',0,0,'84f697b2-d8cc-43ac-95ab-c74042a42d2a','dd7442bc-a521-4a2e-8642-60f45d46919d','b137bd18-9660-4cf5-bfdf-8972384b9574',NULL,NULL,NULL,'[]','[{\"destination\":\"10.10.0.0/16\",\"nexthop\":\"10.0.0.9\"}]','[]'),
('665fd962-732c-4e5e-8c0f-f6fd2f900104','0123456789abcdef0123456789abcdef','ha','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',2,'[]',1,1,'ACTIVE',0,1,NULL,NULL,NULL,NULL,'6f8745f6-6dcc-45b1-8025-69ffd711d5cc',1,'[]','[]','[]');
/*!40000 ALTER TABLE `routers` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_group_rules`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_group_rules` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `security_group_id` varchar(36) NOT NULL,
  `direction` varchar(16) NOT NULL,
  `ethertype` varchar(16) NOT NULL,
  `protocol` varchar(64) DEFAULT NULL,
  `port_range_min` int(11) DEFAULT NULL,
  `port_range_max` int(11) DEFAULT NULL,
  `remote_ip_prefix` varchar(64) DEFAULT NULL,
  `normalized_cidr` varchar(64) DEFAULT NULL,
  `remote_group_id` varchar(36) DEFAULT NULL,
  `remote_address_group_id` varchar(36) DEFAULT NULL,
  `identity` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uq_security_group_rules_security_group_id_identity` (`security_group_id`,`identity`),
  KEY `ix_security_group_rules_remote_group_id` (`remote_group_id`),
  KEY `ix_security_group_rules_security_group_id` (`security_group_id`),
  KEY `ix_security_group_rules_remote_address_group_id` (`remote_address_group_id`),
  KEY `ix_security_group_rules_project_id` (`project_id`),
  CONSTRAINT `fk_security_group_rules_remote_address_group_id` FOREIGN KEY (`remote_address_group_id`) REFERENCES `address_groups` (`id`),
  CONSTRAINT `fk_security_group_rules_remote_group_id` FOREIGN KEY (`remote_group_id`) REFERENCES `security_groups` (`id`),
  CONSTRAINT `fk_security_group_rules_security_group_id` FOREIGN KEY (`security_group_id`) REFERENCES `security_groups` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `security_group_rules` WRITE;
/*!40000 ALTER TABLE `security_group_rules` DISABLE KEYS */;
INSERT INTO `security_group_rules` VALUES
('218f9cec-1ec0-447d-ae85-6e495a4d20f6','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','egress','IPv6',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv6 any - anywhere'),
('237a712f-ec57-4e84-959d-f067026ac4eb','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','ingress','IPv4','tcp',22,22,NULL,NULL,NULL,'8ddb77ae-dc0f-4269-a48b-8ac1eb5f1a1b','ingress IPv4 6 22-22 addresses:8ddb77ae-dc0f-4269-a48b-8ac1eb5f1a1b'),
('353cb1a4-941e-4d20-89b8-1bed40497c7f','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','4d69d214-ec9b-4a95-863a-62bc2a7418fb','ingress','IPv6',NULL,NULL,NULL,NULL,NULL,'4d69d214-ec9b-4a95-863a-62bc2a7418fb',NULL,'ingress IPv6 any - group:4d69d214-ec9b-4a95-863a-62bc2a7418fb'),
('78384ec5-7605-451c-865e-2b39ec451d25','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','ingress','IPv6','ipv6-icmp',NULL,NULL,NULL,NULL,NULL,NULL,'ingress IPv6 58 - anywhere'),
('b24e1ca0-8b03-4174-85cb-d9952ace893f','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','ingress','IPv4','icmp',NULL,NULL,NULL,NULL,'3c788522-8fbe-4b51-877d-542f68b8e561',NULL,'ingress IPv4 1 - group:3c788522-8fbe-4b51-877d-542f68b8e561'),
('b7e1fc8f-16f6-4ff3-86e4-2fb45cdc7d67','0123456789abcdef0123456789abcdef','','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','ingress','IPv4','tcp',80,443,'0.0.0.0/0','0.0.0.0/0',NULL,NULL,'ingress IPv4 6 80-443 anywhere'),
('ba892114-1e03-4f55-890d-31044e2e09af','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','4d69d214-ec9b-4a95-863a-62bc2a7418fb','egress','IPv4',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv4 any - anywhere'),
('d14b231a-530c-440d-858b-95698b3b996d','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','4d69d214-ec9b-4a95-863a-62bc2a7418fb','ingress','IPv4',NULL,NULL,NULL,NULL,NULL,'4d69d214-ec9b-4a95-863a-62bc2a7418fb',NULL,'ingress IPv4 any - group:4d69d214-ec9b-4a95-863a-62bc2a7418fb'),
('e4a13f50-1161-464c-a814-a30bf3b1012f','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','4d69d214-ec9b-4a95-863a-62bc2a7418fb','egress','IPv6',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv6 any - anywhere'),
('f8a78037-af08-420c-a89f-572bba047270','0123456789abcdef0123456789abcdef','',NULL,'2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','3c788522-8fbe-4b51-877d-542f68b8e561','egress','IPv4',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'egress IPv4 any - anywhere');
/*!40000 ALTER TABLE `security_group_rules` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `security_groups`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `security_groups` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `stateful` tinyint(1) NOT NULL,
  `is_default` tinyint(1) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_security_groups_project_id` (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `security_groups` WRITE;
/*!40000 ALTER TABLE `security_groups` DISABLE KEYS */;
INSERT INTO `security_groups` VALUES
('3c788522-8fbe-4b51-877d-542f68b8e561','0123456789abcdef0123456789abcdef','web','web servers','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',5,'[]',1,0),
('4d69d214-ec9b-4a95-863a-62bc2a7418fb','0123456789abcdef0123456789abcdef','default','Default security group','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',1,'[]',1,1);
/*!40000 ALTER TABLE `security_groups` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `service_profiles`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `service_profiles` (
  `id` varchar(36) NOT NULL,
  `description` varchar(1024) DEFAULT NULL,
  `driver` varchar(1024) NOT NULL,
  `metainfo` varchar(4096) NOT NULL,
  `enabled` tinyint(1) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `service_profiles` WRITE;
/*!40000 ALTER TABLE `service_profiles` DISABLE KEYS */;
INSERT INTO `service_profiles` VALUES
('639dc4cb-7ecb-446f-bf44-6159233ba156','ha','ha','',1);
/*!40000 ALTER TABLE `service_profiles` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `subnet_attributes`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `subnet_attributes` (
  `object_id` varchar(36) NOT NULL,
  `name` varchar(64) NOT NULL,
  `value` longtext NOT NULL,
  PRIMARY KEY (`object_id`,`name`),
  CONSTRAINT `fk_subnet_attributes_object_id` FOREIGN KEY (`object_id`) REFERENCES `subnets` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `subnet_attributes` WRITE;
/*!40000 ALTER TABLE `subnet_attributes` DISABLE KEYS */;
/*!40000 ALTER TABLE `subnet_attributes` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `subnetpools`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `subnetpools` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `ip_version` int(11) NOT NULL,
  `default_prefixlen` int(11) NOT NULL,
  `min_prefixlen` int(11) NOT NULL,
  `max_prefixlen` int(11) NOT NULL,
  `is_default` tinyint(1) NOT NULL,
  `default_quota` int(11) DEFAULT NULL,
  `address_scope_id` varchar(36) DEFAULT NULL,
  `prefixes` longtext NOT NULL,
  `allocation_version` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_subnetpools_address_scope_id` (`address_scope_id`),
  KEY `ix_subnetpools_project_id` (`project_id`),
  CONSTRAINT `fk_subnetpools_address_scope_id` FOREIGN KEY (`address_scope_id`) REFERENCES `address_scopes` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `subnetpools` WRITE;
/*!40000 ALTER TABLE `subnetpools` DISABLE KEYS */;
INSERT INTO `subnetpools` VALUES
('5cda9d71-9b52-428a-b40c-3c55c48fcf78','0123456789abcdef0123456789abcdef','pool','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]',4,24,8,32,0,NULL,'f2dbc726-bf3a-413c-a1d4-f85fbf6897f6','[\"10.64.0.0/16\"]',1);
/*!40000 ALTER TABLE `subnetpools` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `subnets`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `subnets` (
  `id` varchar(36) NOT NULL,
  `project_id` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `description` varchar(255) DEFAULT NULL,
  `created_at` varchar(20) NOT NULL,
  `updated_at` varchar(20) NOT NULL,
  `revision_number` int(11) NOT NULL,
  `tags` longtext NOT NULL,
  `network_id` varchar(36) NOT NULL,
  `ip_version` int(11) NOT NULL,
  `cidr` varchar(64) NOT NULL,
  `gateway_ip` varchar(64) DEFAULT NULL,
  `enable_dhcp` tinyint(1) NOT NULL,
  `ipv6_ra_mode` varchar(32) DEFAULT NULL,
  `ipv6_address_mode` varchar(32) DEFAULT NULL,
  `subnetpool_id` varchar(36) DEFAULT NULL,
  `prefix_delegated` tinyint(1) NOT NULL DEFAULT 0,
  `segment_id` varchar(36) DEFAULT NULL,
  `dns_publish_fixed_ip` tinyint(1) NOT NULL,
  `allocation_pools` longtext NOT NULL,
  `dns_nameservers` longtext NOT NULL,
  `host_routes` longtext NOT NULL,
  `service_types` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_subnets_project_id` (`project_id`),
  KEY `ix_subnets_subnetpool_id` (`subnetpool_id`),
  KEY `ix_subnets_network_id` (`network_id`),
  CONSTRAINT `fk_subnets_network_id` FOREIGN KEY (`network_id`) REFERENCES `networks` (`id`),
  CONSTRAINT `fk_subnets_subnetpool_id` FOREIGN KEY (`subnetpool_id`) REFERENCES `subnetpools` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `subnets` WRITE;
/*!40000 ALTER TABLE `subnets` DISABLE KEYS */;
INSERT INTO `subnets` VALUES
('2fb59a4f-5893-4df0-9748-115d832a48ee','0123456789abcdef0123456789abcdef','public-v4','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','dd7442bc-a521-4a2e-8642-60f45d46919d',4,'172.24.4.0/24','172.24.4.1',0,NULL,NULL,NULL,0,NULL,0,'[{\"start\":\"172.24.4.2\",\"end\":\"172.24.4.254\"}]','[]','[]','[]'),
('532505f3-a1f7-4035-90f4-4c88c622eeff','0123456789abcdef0123456789abcdef','blue-v6','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',6,'2001:db8:1::/64','2001:db8:1::',1,'slaac','slaac',NULL,0,NULL,0,'[{\"start\":\"2001:db8:1::1\",\"end\":\"2001:db8:1:0:ffff:ffff:ffff:ffff\"}]','[]','[]','[]'),
('949451ac-73ec-4ee5-9ebc-3b71bb676118','0123456789abcdef0123456789abcdef','green-v4','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','2c5488d6-e3d9-4bf3-9f59-481c90a22c87',4,'10.64.0.0/24','10.64.0.1',1,NULL,NULL,'5cda9d71-9b52-428a-b40c-3c55c48fcf78',0,NULL,0,'[{\"start\":\"10.64.0.2\",\"end\":\"10.64.0.254\"}]','[]','[]','[]'),
('aa2c6429-3405-4088-9902-d77c1c563cc9','','HA subnet tenant 0123456789abcdef0123456789abcdef','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','6f8745f6-6dcc-45b1-8025-69ffd711d5cc',4,'169.254.192.0/18',NULL,0,NULL,NULL,NULL,0,NULL,0,'[{\"start\":\"169.254.192.1\",\"end\":\"169.254.255.254\"}]','[]','[]','[]'),
('daed5993-c996-4c31-9321-05014365b19e','0123456789abcdef0123456789abcdef','blue-v4','','2026-11-16T13:16:06Z','2026-11-16T13:16:06Z',0,'[]','5e3a43ce-10a4-49f7-bae3-ec2950263ef6',4,'10.0.0.0/24','10.0.0.1',1,NULL,NULL,NULL,0,NULL,0,'[{\"start\":\"10.0.0.2\",\"end\":\"10.0.0.254\"}]','[\"192.0.2.53\"]','[{\"destination\":\"10.9.0.0/16\",\"nexthop\":\"10.0.0.9\"}]','[]');
/*!40000 ALTER TABLE `subnets` ENABLE KEYS */;
UNLOCK TABLES;
DROP TABLE IF EXISTS `tags`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `tags` (
  `object_id` varchar(36) NOT NULL,
  `tag` varchar(255) NOT NULL,
  PRIMARY KEY (`object_id`,`tag`),
  KEY `ix_tags_tag` (`tag`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `tags` WRITE;
/*!40000 ALTER TABLE `tags` DISABLE KEYS */;
INSERT INTO `tags` VALUES
('5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','prod'),
('5aa8824d-40f9-4fa9-8b45-5f5254cfd7ac','tier=1'),
('5e3a43ce-10a4-49f7-bae3-ec2950263ef6','prod'),
('5e3a43ce-10a4-49f7-bae3-ec2950263ef6','tier=1'),
('ca768648-384b-4c4c-96c7-d262d794a193','prod'),
('ca768648-384b-4c4c-96c7-d262d794a193','tier=1');
/*!40000 ALTER TABLE `tags` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;
