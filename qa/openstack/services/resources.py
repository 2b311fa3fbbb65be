"""Images, flavors and networks that the checks use: the external network by the administrator, the rest by `demo`."""

from __future__ import annotations

from qa.openstack.cloud import Cloud
from qa.openstack.guest import WEB_PORT, GuestFiles, guest_files, kernel_command_line

# The last one leaves checksums to virtio, as common guests do: see guest.py.
IMAGE, OTHER_IMAGE, OFFLOADING_IMAGE = IMAGES = "guest", "guest-rebuilt", "guest-offloading"
FLAVOR, LARGER_FLAVOR = "m1.guest", "m1.larger"
NETWORK, OTHER_NETWORK, EXTERNAL_NETWORK = "blue", "red", "public"
CIDR, OTHER_CIDR = "10.0.0.0/24", "10.1.0.0/24"
EXTERNAL_CIDR, EXTERNAL_GATEWAY = "203.0.113.0/24", "203.0.113.1"  # the gateway is the lab's external machine
ROUTER = "out"
PING_GROUP, WEB_GROUP = "ping", "web"
DEMO = ("demo", "demo")


def start(cloud: Cloud) -> None:
    if "glance" in cloud.started:
        _images(cloud, guest_files(cloud.say))
    if "nova" in cloud.started:
        _flavors(cloud)
    _external_network(cloud)
    _networks(cloud)


def _images(cloud: Cloud, files: GuestFiles) -> None:
    image = cloud.connect().image
    kinds = {"guest-kernel": ("aki", files.kernel), "guest-initramfs": ("ari", files.initramfs)}
    parts = [
        image.create_image(name, filename=str(path), disk_format=kind, container_format=kind, visibility="public").id
        for name, (kind, path) in kinds.items()
    ]
    for name in IMAGES:
        image.create_image(
            name,
            filename=str(files.disk),
            disk_format="raw",
            container_format="bare",
            visibility="public",
            kernel_id=parts[0],
            ramdisk_id=parts[1],
            os_command_line=kernel_command_line(offloads=name == OFFLOADING_IMAGE),
            hw_video_model="none",
            hw_rng_model="virtio",
            hw_firmware_type="bios",  # a kernel that QEMU loads itself needs no UEFI: see compute_program.py
        )


def _flavors(cloud: Cloud) -> None:
    compute = cloud.connect().compute
    compute.create_flavor(name=FLAVOR, ram=160, vcpus=1, disk=1)
    compute.create_flavor(name=LARGER_FLAVOR, ram=224, vcpus=1, disk=1)


def _external_network(cloud: Cloud) -> None:
    network = cloud.connect().network
    made = network.create_network(
        name=EXTERNAL_NETWORK,
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network="external",
    )
    network.create_subnet(
        network_id=made.id,
        name="public-v4",
        ip_version=4,
        cidr=EXTERNAL_CIDR,
        gateway_ip=EXTERNAL_GATEWAY,
        enable_dhcp=False,
    )


def _networks(cloud: Cloud) -> None:
    network = cloud.connect(*DEMO).network
    blue = network.create_network(name=NETWORK)
    subnet = network.create_subnet(network_id=blue.id, name="blue-v4", ip_version=4, cidr=CIDR)
    red = network.create_network(name=OTHER_NETWORK)
    network.create_subnet(network_id=red.id, name="red-v4", ip_version=4, cidr=OTHER_CIDR, gateway_ip=None)
    external = network.find_network(EXTERNAL_NETWORK)
    router = network.create_router(name=ROUTER, external_gateway_info={"network_id": external.id})
    network.add_interface_to_router(router, subnet_id=subnet.id)
    rules: dict[str, dict[str, object]] = {
        PING_GROUP: {"protocol": "icmp"},
        WEB_GROUP: {"protocol": "tcp", "port_range_min": WEB_PORT, "port_range_max": WEB_PORT},
    }
    for name, rule in rules.items():
        group = network.create_security_group(name=name)
        network.create_security_group_rule(security_group_id=group.id, direction="ingress", ether_type="IPv4", **rule)
