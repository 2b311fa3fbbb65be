# Sourced by scripts/fresh, scripts/package-test and what they start: a bare Debian root, with this machine's settings for access to packages.
#
# Before: say, fail; release (12 or 13), codename, root (an empty directory), cache (a directory), and architecture, if it is not this
# machine's. After `make_bare_root` and `carry_settings`: the root is filled, `binds` are paths to mount in it, `loopback` is an
# option for slirp4netns.

# The Debian archives that apt uses on this machine: address, suite, component; adapted if the other release is tested.
archives() {
    local here
    here=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n "s/^Debian //p" | sed "s/ $here/ $codename/" | sort -u
}

make_bare_root() {
    local base
    base=$cache/debian-$release-${architecture:=$(dpkg --print-architecture)}.tar
    mirror=$(archives | awk -v suite="$codename" '$2 == suite { print $1; exit }')
    mkdir -p "$cache"
    if [ -z "$(find "$base" -mtime -7 2>/dev/null)" ]; then
        say "debootstrap $codename for $architecture (cached for a week in $cache)"
        eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
        [ -z "${http_proxy:-}" ] || export http_proxy
        [ -z "${https_proxy:-}" ] || export https_proxy
        # In a mount namespace, with which its mounts go also where it is interrupted. Without a mirror it takes its own.
        if ! unshare --mount --propagation private debootstrap --variant=minbase --arch="$architecture" "$codename" "$root" ${mirror:+"$mirror"} >"$cache/debootstrap.log" 2>&1; then
            tail -20 "$cache/debootstrap.log" >&2
            fail "debootstrap failed"
        fi
        tar -C "$root" -cf "$base.new" .
        mv "$base.new" "$base"
    else
        say "Debian $release for $architecture from the cache ($cache)"
        tar -C "$root" -xf "$base"
    fi
}

carry_settings() {
    local carried=$root/root/environment acquire=$root/etc/apt/apt.conf.d/99carried keyring directory file target path
    env -0 | grep -zE '^(PIP_|UV_|npm_config_|NPM_CONFIG_)|^[A-Za-z_]*(_proxy|_PROXY|CERT|CA_BUNDLE|CAINFO)[A-Z_]*=' >"$carried" || true
    apt-config dump | grep '^Acquire::' >"$acquire" || true
    if [ -n "$mirror" ]; then
        rm -rf "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        archives | sed "s|^|deb [signed-by=$keyring] |" >"$root/etc/apt/sources.list"
    fi
    for directory in /etc/apt/auth.conf.d /etc/apt/keyrings /etc/ssl/certs /usr/local/share/ca-certificates; do
        [ -d "$directory" ] || continue
        mkdir -p "$root$directory"
        cp -rL "$directory/." "$root$directory" 2>/dev/null || true # links into packages that are not there
    done
    pip_files=(/etc/pip.conf "$HOME/.pip/pip.conf" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "${PIP_CONFIG_FILE:-}"
        "$HOME/.npmrc")
    for file in "${pip_files[@]}"; do
        [ -f "$file" ] || continue
        target=$root${file/#$HOME/\/root}
        mkdir -p "$(dirname "$target")"
        cp "$file" "$target"
    done
    loopback=--disable-host-loopback
    if grep -qE '://(localhost|127\.[0-9.]+)' "$carried" "$acquire" "$root/etc/apt/sources.list"; then
        loopback= # a proxy on this machine's loopback: slirp4netns has that at 10.0.2.2
        sed -E -i 's#://(localhost|127\.[0-9.]+)#://10.0.2.2#g' "$carried" "$acquire" "$root/etc/apt/sources.list"
    fi

    # Files and directories that these settings refer to: local package indexes, certificates.
    binds=()
    while read -r path; do
        [ -e "$path" ] && [ ! -e "$root$path" ] || continue
        while [ ! -e "$root$(dirname "$path")" ]; do path=$(dirname "$path"); done
        [[ " ${binds[*]} " == *" $path "* ]] || binds+=("$path")
    done < <(cat "$carried" "$acquire" "${pip_files[@]}" 2>/dev/null |
        tr '\0' '\n' | grep -oE '(^|[^A-Za-z0-9_/.-]|file://)/[A-Za-z0-9_./+-]+' | sed -E 's|^[^/]*(//)?/|/|' | sort -u)
}

# --- in new namespaces ---

# Make the root this process's root directory; each further path of the real machine is mounted read-only. `settings`: the
# environment that was carried.
enter_root() { # name of the machine, root, cache, paths
    local name=$1 root=$2 cache=$3
    shift 3
    read -r -n 1 -t 60 _ <&3 || {
        echo "$name: slirp4netns gives no network: $(tail -3 "$root/root/network.log")" >&2
        exit 1
    }
    exec 3<&-
    mount --bind "$root" "$root"
    become_root "$name" "$root" "$cache" "$@"
}

# The same without that network, for a root that is a mount point already.
become_root() { # name of the machine, root, cache, paths
    local name=$1 root=$2 cache=$3 node path
    shift 3
    cd "$root"
    if [ -L proc ]; then # by debootstrap, where it takes the machine for a container
        rm proc
        mkdir proc
    fi
    mount -t proc proc proc
    mount -t sysfs sysfs sys # shows the devices of the network namespace in which it is mounted
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir -p dev/pts dev/shm dev/net root/.cache/pip old
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    for node in null zero full random urandom tty net/tun; do
        [ -e "/dev/$node" ] || continue
        touch "dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    ln -s fd/0 dev/stdin
    ln -s fd/1 dev/stdout
    ln -s fd/2 dev/stderr
    mount --bind "$cache/pip" root/.cache/pip
    for path in "$@"; do
        if [ -d "$path" ]; then mkdir -p ".$path"; else touch ".$path"; fi
        mount --bind "$path" ".$path"
        mount -o remount,bind,ro ".$path"
    done
    ip link set lo up
    echo "$name" >/proc/sys/kernel/hostname
    mapfile -d '' -t settings <root/environment
    pivot_root . old
    umount -l /old
}
