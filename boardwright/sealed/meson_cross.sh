# How meson builds for arm64 here, for scripts that source this file.

triplet=aarch64-linux-gnu

# Options of every build: where Debian has things, and nothing fetched.
# shellcheck disable=SC2034 # for the scripts
meson_options=(--prefix /usr --libdir "lib/$triplet" --sysconfdir /etc --buildtype release
    --wrap-mode nodownload -Db_ndebug=true)

# cross_file FILE SYSROOT LAUNCHER [BINARIES]: the cross file, for libraries in SYSROOT; compilers behind LAUNCHER
# (words of a meson list), further lines of its [binaries].
cross_file() {
    export PKG_CONFIG_SYSROOT_DIR=$2
    export PKG_CONFIG_LIBDIR=$2/usr/lib/$triplet/pkgconfig:$2/usr/share/pkgconfig
    cat >"$1" <<INI
[binaries]
c = [${3:+$3, }'$triplet-gcc']
cpp = [${3:+$3, }'$triplet-g++']
ar = '$triplet-gcc-ar'
strip = '$triplet-strip'
pkg-config = 'pkg-config'
${4:-}
[built-in options]
c_link_args = ['-Wl,-rpath-link,$2/usr/lib/$triplet']
cpp_link_args = ['-Wl,-rpath-link,$2/usr/lib/$triplet']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
INI
}
