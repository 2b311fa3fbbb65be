# Sourced by scripts/fresh and scripts/package: runs the programs of another architecture by qemu-user.
#
# Before: say, fail; architecture, as dpkg names it; a mount namespace of this run. For carry_emulation, also release, root, cache
# and what scripts/bare-root.sh sets.

readonly binfmt=/proc/sys/fs/binfmt_misc
entry=neutrino-$$ # of this run: another one may end earlier

emulator() {
    case $architecture in
    arm64) echo qemu-aarch64-static ;;
    amd64) echo qemu-x86_64-static ;;
    esac
}

# The processor that is emulated: the oldest that Debian and the wheels of the locks support. qemu's own choice has all features
# that it knows; authenticated pointers alone take a quarter of the time.
processor() { [ "$architecture" != arm64 ] || echo cortex-a72; }

# The first bytes of its executables, and which of their bits count.
magic() {
    local machine
    case $architecture in
    arm64) machine='\xb7' ;;
    amd64) machine='\x3e' ;;
    esac
    printf '%s' '\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00' "$machine" '\x00'
}
readonly mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# Name of an entry that this machine has for the architecture already, and that works in every root (flag F).
registered() {
    local name=qemu-${1#qemu-}
    name=${name%-static}
    [ -e "$binfmt/$name" ] && grep -qx enabled "$binfmt/$name" && grep -q '^flags: .*F' "$binfmt/$name"
}

# Flags: F, the interpreter is opened now, so that it need not be in the root; P and O, programs get their own argv[0] and file;
# C, set-user-ID programs work.
register_interpreter() {
    local program
    program=$(emulator)
    if [ ! -e $binfmt/register ]; then
        mount -t binfmt_misc binfmt_misc $binfmt ||
            fail "binfmt_misc cannot be mounted: this kernel cannot be told to run programs of $architecture by qemu-user"
    fi
    if registered "$program"; then
        say "programs of $architecture run by $program, which this machine has registered"
    else
        say "programs of $architecture run by $program, registered for this run"
        printf '%s' ":$entry:M::$(magic):$mask:$(command -v "$program"):POCF" >$binfmt/register ||
            fail "$program cannot be registered with binfmt_misc"
    fi
}

# Linux 6.7 and later forget it with the last mount of binfmt_misc, also if this run is killed.
unregister_interpreter() {
    [ ! -e $binfmt/$entry ] || echo -1 >$binfmt/$entry
}

# After carry_settings: what emulated programs are given beside the settings of this machine. The files of the locks are
# downloaded by pip of this machine, for the other architecture: emulated, it would read the pages of the index for most of its
# time. It checks the hashes of the lock again as it installs them.
carry_emulation() { # lock...
    local carried=$root/root/environment model wheels
    model=$(processor)
    [ -z "$model" ] || printf 'QEMU_CPU=%s\0' "$model" >>"$carried"
    wheels=$cache/wheels-$release-$architecture-$(cat "$@" | sha256sum | cut -c 1-12)
    if [ -d "$wheels" ] || download_wheels "$wheels" "$@"; then
        binds+=("$wheels")
        printf 'PIP_NO_INDEX=1\0PIP_FIND_LINKS=%s\0' "$wheels" >>"$carried" # these names win: they come last
    fi
}
download_wheels() { # directory, lock...
    local target=$1 pip python glibc minor machine
    shift
    for pip in .venv/bin/python python3 ''; do
        [ -n "$pip" ] || { say "this machine has no pip: the emulated one downloads, which takes some minutes more"; return 1; }
        ! "$pip" -m pip --version >/dev/null 2>&1 || break
    done
    case $release in 12) python=3.11 glibc=36 ;; 13) python=3.13 glibc=41 ;; esac
    case $architecture in arm64) machine=aarch64 ;; amd64) machine=x86_64 ;; esac
    pip=("$pip" -m pip download -qq --disable-pip-version-check --dest "$target.new" --no-deps --python-version "$python"
        --implementation cp --platform "linux_$machine" --platform "manylinux2014_$machine")
    for ((minor = 17; minor <= glibc; minor++)); do pip+=(--platform "manylinux_2_${minor}_$machine"); done
    say "downloading the wheels of ${*} for $architecture (kept in $cache)"
    rm -rf "$cache/wheels-$release-$architecture"-* # of earlier locks
    if ! download "$@" >"$cache/wheels.log" 2>&1; then
        say "this machine's pip cannot download them, the emulated one tries: $(grep -v '^WARNING' "$cache/wheels.log" | tail -n 1)"
        rm -rf "$target.new"
        return 1
    fi
    mv "$target.new" "$target"
}
download() { # lock...
    local lock
    for lock; do "${pip[@]}" --require-hashes -r "$lock" || return; done
    "${pip[@]}" setuptools wheel # what the emulated pip builds the one source with, ovs
}
