"""Further services on neutrino: Heat, Octavia, Ironic, Horizon, and Tempest's scenarios."""
