"""`make deploy-test`: a cloud deployed by Ansible on machines with systemd, in namespaces of this machine."""
