"""VPN services: IPsec tunnels between routers and other sites (VPNaaS)."""
