# Sourced by scripts/fresh: runs the programs of another architecture by qemu-user.
#
# Before: say, fail; architecture, as dpkg names it; a mount namespace of this run.

readonly binfmt=/proc/sys/fs/binfmt_misc
entry=neutrino-$$ # of this run: another one may end earlier

emulator() {
    case $architecture in
    arm64) echo qemu-aarch64-static ;;
    amd64) echo qemu-x86_64-static ;;
    esac
}

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
