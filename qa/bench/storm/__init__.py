"""The parts of the boot storm: clients, plugging of devices, Nova's end of events, and a cloud of real Neutron."""
