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
# time. Afterwards, `wheels` is their directory, or empty.
carry_emulation() { # lock...
    local carried=$root/root/environment model
    model=$(processor)
    [ -z "$model" ] || printf 'QEMU_CPU=%s\0' "$model" >>"$carried"
    wheels=$cache/wheels-$release-$architecture-${0##*/}-$(cat "$@" scripts/foreign.sh | sha256sum | cut -c 1-12)
    if find_pip && { [ -d "$wheels" ] || download_wheels "$@"; }; then
        binds+=("$wheels")
        printf 'PIP_NO_INDEX=1\0PIP_FIND_LINKS=%s\0' "$wheels" >>"$carried" # these names win: they come last
    else
        wheels=
    fi
}
# `pip`: of this machine; `python`: the version of the other one; `accepted`: options of pip, for what its Python can load.
find_pip() {
    local minor machine glibc
    for pip in .venv/bin/python python3 ''; do
        [ -n "$pip" ] || { say "this machine has no pip: the emulated one does its work, which takes many minutes more"; return 1; }
        ! "$pip" -m pip --version >/dev/null 2>&1 || break
    done
    case $release in 12) python=3.11 glibc=36 ;; 13) python=3.13 glibc=41 ;; esac
    case $architecture in arm64) machine=aarch64 ;; amd64) machine=x86_64 ;; esac
    accepted=(--no-deps --python-version "$python" --implementation cp --platform "linux_$machine" --platform "manylinux2014_$machine")
    for ((minor = 17; minor <= glibc; minor++)); do accepted+=(--platform "manylinux_2_${minor}_$machine"); done
}
download_wheels() { # lock...
    say "downloading the wheels of ${*} for $architecture (kept in $cache)"
    rm -rf "$cache/wheels-$release-$architecture-${0##*/}"-* # of earlier locks
    if ! download "$@" >"$cache/wheels.log" 2>&1; then
        say "this machine's pip cannot download them, the emulated one tries: $(grep -v '^WARNING' "$cache/wheels.log" | tail -n 1)"
        rm -rf "$wheels.new"
        return 1
    fi
    mv "$wheels.new" "$wheels"
}
download() { # lock...
    local lock source
    local options=(download -qq --disable-pip-version-check --dest "$wheels.new" "${accepted[@]}")
    for lock; do "$pip" -m pip "${options[@]}" --require-hashes -r "$lock" || return; done
    "$pip" -m pip "${options[@]}" pip setuptools wheel # with which the one source is built, ovs
    for source in "$wheels.new"/*.tar.gz; do # it is Python alone: else its wheel would not be "none-any", and is not used
        "$pip" -m pip wheel -qq --disable-pip-version-check --no-deps --no-index --find-links "$wheels.new" --wheel-dir "$wheels.new/built" "$source"
    done
}

# A virtual environment without its interpreter: the wheels of a lock, and pip, for `python3 -m venv --without-pip` there to
# complete. Hashes are checked here. Emulated, pip takes twenty times as long for it.
unpack_wheels() { # lock, directory, the same directory as it is called in the root
    local lock=$1 directory=$2 named=$3 file name list=$root/root/wheels
    local site=$directory/lib/python$python/site-packages
    say "unpacking the wheels of $lock into $named"
    {
        awk -v sources="$(cd "$wheels" && ls | sed -n 's/^\(.*\)-\([^-]*\)\.tar\.gz$/\1==\2/p')" \
            'BEGIN { split(sources, names, "\n"); for (i in names) left_out[names[i]] } /^[^ #]/ { skip = $1 in left_out } !skip' "$lock"
        for file in "$wheels"/pip-*.whl "$wheels"/built/*-none-any.whl; do
            [ -e "$file" ] || continue
            name=$(basename "$file" | sed 's/^\([^-]*\)-\([^-]*\)-.*/\1==\2/')
            echo "$name --hash=sha256:$(sha256sum "$file" | cut -d' ' -f1)"
        done
    } >"$list"
    "$pip" -m pip install -qq --disable-pip-version-check --no-index --find-links "$wheels" --find-links "$wheels/built" \
        "${accepted[@]}" --only-binary=:all: \
        --require-hashes --no-compile --target "$site" -r "$list" 2>"$cache/wheels.log" || fail "pip: $(tail -n 1 "$cache/wheels.log")"
    mv "$site/bin" "$directory/bin"
    sed -i "1s|^#!.*python.*|#!$named/bin/python|" "$directory"/bin/*
}
# The compiled modules of Python are the same on all architectures: the root is given them if this machine's Python is of the
# same version. Tests of packages are never imported. A file that this version cannot compile is none that it imports.
compile_modules() { # directory...
    [ "$("$pip" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = "$python" ] || return 0
    "$pip" -m compileall -q -j 0 -s "$root" -p / -x '/site-packages/.*/tests?/' "$@" >/dev/null 2>&1 || true
}
