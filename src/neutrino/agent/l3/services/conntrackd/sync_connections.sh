#!/bin/sh
# Run in the router's namespace by keepalived when the state of this host changes, and by the agent when conntrackd starts:
#
#   sync_connections HA-DEVICE PRIMARY-ADDRESS CONFIGURATION
#
# What is done follows from whether this host has the primary address, not from an argument: of two runs that overlap, as
# when a host becomes active right after it stepped back, the second waits, and both do what the last state asks for.
device=$1 primary=$2 configuration=$3

control() {
    conntrackd -C "$configuration" "$@" 2>&1 | grep -v warning
}

exec 9<"$0"
flock -w 10 9 || exit 1

# conntrackd may have been started right now.
tries=0
until conntrackd -C "$configuration" -s runtime >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || exit 1
    sleep 0.1
done

if ip -o -4 address show dev "$device" | grep -qF " $primary "; then
    control -c # what the former active host had, into the kernel; cancels -t of before
    control -f # both caches
    control -R # what the kernel has, into the internal cache
    control -B # which is sent to the other hosts
else
    # First: entries of the time when this host was active end in the kernel, and without this the other standby hosts would
    # be told so, and drop what is alive on the active host.
    control -f internal
    control -t # ends the kernel's entries in a minute, unless this host becomes active before
    control -n # what the active host has
fi
exit 0
