#!/bin/sh
# Run by keepalived in the router's namespace:
#
#   check_gateways PACE HA-DEVICE PRIMARY-ADDRESS [DEVICE GATEWAY]...
#
# Status 1, after which another host is elected: this host is the active one, and none of the gateways answers any more. A
# standby host has no address to ask from, so another host may reach no gateway either. A host that has reached none since it
# became active therefore stays active, for RESIGN checks: else the routers of a dead gateway would change hosts all the time,
# and what they forward between networks of a project would suffer too.
#
# keepalived starts it each second or less often. With PACE 0 it asks once. A fraction of a second is more often than
# keepalived can start it: then it goes on asking, each PACE seconds, and ends when MISSED questions in a row had no answer, or
# after ENOUGH answers, so that it is the one of the newest configuration.
#
# Beside this file: `reached`, of a host that has reached a gateway since it became active; `unreached`, how many checks have
# failed since then.
RESIGN=30
MISSED=3
ENOUGH=100
directory=${0%/*}
export LC_ALL=C # the words of ping are read
pace=$1 device=$2 primary=$3
shift 3

# Whether this host is the active one. One that is not forgets what it has seen.
is_active() {
    ip -o -4 address show dev "$device" | grep -qF " $primary " && return
    rm -f "$directory/reached" "$directory/unreached"
    return 1
}

# Writes a line for each answer, and with a pace for each question that had none when the next one was sent.
ask() {
    if [ "$pace" = 0 ]; then how='-c 1'; else how="-O -i $pace"; fi
    while [ $# -ge 2 ]; do
        # shellcheck disable=SC2086
        ping -n $how -W 1 -I "$1" "$2" 2>/dev/null &
        asking="$asking $!"
        shift 2
    done
}

# Reads these lines. Whether one of so many gateways has answered, and has not stopped to.
has_answers() {
    left=$ENOUGH missed=0
    # keepalived waits for the first result.
    if [ "$pace" = 0 ] || [ ! -f "$directory/reached" ]; then left=1; fi
    while read -r line; do
        case $line in
            *' bytes from '*)
                missed=0 left=$((left - 1))
                [ "$left" -gt 0 ] || return 0
                ;;
            'no answer yet '*)
                missed=$((missed + 1))
                [ "$missed" -lt $((MISSED * $1)) ] || return 1
                ;;
        esac
    done
    return 1
}

is_active || exit 0
asking= answers=
rm -f "$directory/answers"
mkfifo -m 600 "$directory/answers" && exec 3<>"$directory/answers" 4<"$directory/answers" && rm "$directory/answers" || exit 0
ask "$@" >&3 3>&- 4<&-
exec 3>&- # the end of the last ping is then the end of the answers
has_answers $(($# / 2)) <&4 && answers=yes
# shellcheck disable=SC2086
[ "$pace" = 0 ] || kill $asking 2>/dev/null
if [ "$answers" ]; then
    rm -f "$directory/unreached"
    : >"$directory/reached"
    exit 0
fi
is_active || exit 0
count=0
[ -f "$directory/unreached" ] && read -r count <"$directory/unreached"
count=$((count + 1))
echo "$count" >"$directory/unreached"
[ -f "$directory/reached" ] || [ "$count" -ge "$RESIGN" ] && exit 1
exit 0
