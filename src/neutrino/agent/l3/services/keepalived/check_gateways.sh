#!/bin/sh
# Run by keepalived in the router's namespace at each interval:
#
#   check_gateways HA-DEVICE PRIMARY-ADDRESS [DEVICE GATEWAY]...
#
# Status 1, after which another host is elected: this host is the active one, and none of the gateways answers any more. A
# standby host has no address to ask from, so another host may reach no gateway either. A host that has reached none since it
# became active therefore stays active, for RESIGN checks: else the routers of a dead gateway would change hosts all the time,
# and what they forward between networks of a project would suffer too.
#
# Beside this file: `reached`, of a host that has reached a gateway since it became active; `unreached`, how many checks have
# failed since then.
RESIGN=30
directory=${0%/*}
device=$1 primary=$2
shift 2

if ! ip -o -4 address show dev "$device" | grep -qF " $primary "; then
    rm -f "$directory/reached" "$directory/unreached"
    exit 0
fi

asked=
while [ $# -ge 2 ]; do
    ping -n -q -c 1 -W 1 -I "$1" "$2" >/dev/null 2>&1 &
    asked="$asked $!"
    shift 2
done
answered=
for each in $asked; do
    wait "$each" && answered=yes
done

if [ "$answered" ]; then
    rm -f "$directory/unreached"
    : >"$directory/reached"
    exit 0
fi
count=0
[ -f "$directory/unreached" ] && read -r count <"$directory/unreached"
count=$((count + 1))
echo "$count" >"$directory/unreached"
[ -f "$directory/reached" ] || [ "$count" -ge "$RESIGN" ] && exit 1
exit 0
