# Sourced by scripts that take DEBIAN and ARCH: which Debian is meant, and whether it is this machine's.
#
# Before: fail. After: release (12 or 13) and codename, both empty if this machine is neither and none is asked for; architecture;
# emulated: not empty if it is another one than this machine's; elsewhere: not empty if release or architecture is; packages: the
# directory of their Debian packages.

here=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
case $here in
bookworm) own_release=12 ;;
trixie) own_release=13 ;;
*) own_release= ;;
esac
release=${DEBIAN:-$own_release}
case $release in
'') codename= ;;
12) codename=bookworm ;;
13) codename=trixie ;;
*) fail "DEBIAN=$release: 12 or 13" ;;
esac
own_architecture=$(dpkg --print-architecture)
architecture=${ARCH:-$own_architecture}
case $architecture in
"$own_architecture") emulated= ;;
amd64 | arm64) emulated=yes ;;
*) fail "ARCH=$architecture: amd64 or arm64" ;;
esac
elsewhere=$emulated
[ "$release" = "$own_release" ] || elsewhere=yes
packages=dist
[ -z "$elsewhere" ] || packages=dist/debian-$release-$architecture
