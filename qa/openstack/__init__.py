"""`make openstack`: Keystone, Placement, Glance and Nova from PyPI with libvirt and QEMU, on neutrino."""
