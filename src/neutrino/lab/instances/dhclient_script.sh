#!/bin/sh
# Called by dhclient with the lease in the environment: configures the instance's device, and logs the event to the file
# `events` in the directory of this script.
# The length of a netmask.
length() {
    bits=0
    for part in $(echo "$1" | tr . ' '); do
        while [ "$part" -gt 0 ]; do bits=$((bits + (part & 1))); part=$((part >> 1)); done
    done
    echo $bits
}
# Option 121 (RFC 3442): of each destination only the significant octets; a next hop of 0.0.0.0 means on-link.
classless() {
    while [ $# -ge 5 ]; do
        size=$1 net='' octets=$((($1 + 7) / 8)); shift
        for number in 1 2 3 4; do
            if [ "$number" -le "$octets" ]; then net=$net.$1; shift; else net=$net.0; fi
        done
        via=$1.$2.$3.$4; shift 4
        if [ "$via" = 0.0.0.0 ]; then ip route replace "${net#.}/$size" dev "$interface" scope link
        # onlink: the next hop may be in no subnet of the device.
        else ip route replace "${net#.}/$size" via "$via" dev "$interface" onlink; fi
    done
}
case $reason in
PREINIT | PREINIT6) ip link set "$interface" up ;;
BOUND | RENEW | REBIND | REBOOT)
    if [ -n "$old_ip_address" ] && [ "$old_ip_address" != "$new_ip_address" ]; then
        ip -4 address flush dev "$interface"
    fi
    [ -z "$new_interface_mtu" ] || ip link set "$interface" mtu "$new_interface_mtu"
    ip address replace "$new_ip_address/$(length "$new_subnet_mask")" dev "$interface"
    # Option 121 has the default route too: a client that gets it ignores the routers option.
    if [ -n "$new_rfc3442_classless_static_routes" ]; then
        classless $new_rfc3442_classless_static_routes
    else
        for router in $new_routers; do ip route replace default via "$router" dev "$interface" onlink; break; done
    fi ;;
EXPIRE | RELEASE | STOP) [ -z "$old_ip_address" ] || ip -4 address flush dev "$interface" ;;
BOUND6 | RENEW6 | REBIND6)
    if [ -n "$old_ip6_address" ] && [ "$old_ip6_address" != "$new_ip6_address" ]; then
        ip -6 address delete "$old_ip6_address/$old_ip6_prefixlen" dev "$interface"
    fi
    [ -z "$new_ip6_address" ] ||
        ip -6 address replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface" nodad ;;
DEPREF6 | EXPIRE6 | RELEASE6 | STOP6)
    [ -z "$old_ip6_address" ] || ip -6 address delete "$old_ip6_address/$old_ip6_prefixlen" dev "$interface" ;;
esac
{ env | grep -E '^(new_|old_|reason=)'; echo ===; } >> "${0%/*}/events"
exit 0
