# The beginning of every step about a meson program, for scripts that source this file.
#
# In:   /in/source/*, /in/sysroot/*.deb, /in/options (lines -Dname=value), /in/patches/<topic>/…,
#       /in/sealed/{debian_source.sh,meson_cross.sh,patchtree.py}
# Kept: /tree/src, /tree/sysroot, /tree/build; and what meson reads again when a patch changes meson.build:
#       /tree/cross.ini, /tree/llvm-config

export CCACHE_COMPILERCHECK=content
. /in/sealed/debian_source.sh
. /in/sealed/meson_cross.sh

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }

# The tree is good for a corrected patch whatever failed: ninja removes what a failed command left.
failed() {
    sync -f /tree
    tree close
    exit 1
}

# meson_source TOPIC...: the patched source and the libraries, unpacked or from the kept tree.
meson_source() {
    local identity deb
    identity=$(cat /in/source/* /in/sysroot/* /in/options /var/lib/dpkg/status /in/sealed/meson_setup.sh /in/sealed/meson_cross.sh |
        sha256sum | cut -d' ' -f1)
    if [ "$(tree open --identity "$identity")" = fresh ]; then
        echo "  UNPACK  $(debian_version /in/source)"
        unpack_debian /in/source /tree/src
        mkdir /tree/sysroot
        for deb in /in/sysroot/*.deb; do
            dpkg-deb --extract "$deb" /tree/sysroot
        done
    else
        echo "  KEPT    /tree: only what changed is compiled"
    fi
    tree apply --patches /in/patches --stage /work/stage "$@"
}

# meson_configure LAUNCHER: /tree/build, with compilers behind LAUNCHER (words of a meson list).
meson_configure() {
    [ ! -f /tree/build/build.ninja ] || return 0
    local options
    mapfile -t options </in/options
    cross_file /tree/cross.ini /tree/sysroot "$1" "$(_llvm_config)"
    meson setup --cross-file /tree/cross.ini "${meson_options[@]}" "${options[@]}" /tree/build /tree/src \
        >/work/meson.log 2>&1 || {
        cat /work/meson.log >&2
        rm -rf /tree/build
        failed
    }
}

# Where the libraries hold LLVM: llvm-config is a program for arm64, so this answers in its place, from the
# headers. Enough to compile against; nothing here links with LLVM.
_llvm_config() {
    local home version
    home=$(echo /tree/sysroot/usr/lib/llvm-*)
    [ -d "$home" ] || return 0
    version=$(sed -n 's/^#define LLVM_VERSION_STRING "\(.*\)"$/\1/p' \
        "/tree/sysroot/usr/include/llvm-${home##*-}/llvm/Config/llvm-config.h")
    cat >/tree/llvm-config <<SH
#!/bin/sh
for word; do
    case \$word in
    --version) echo $version ;;
    --has-rtti) echo YES ;;
    --shared-mode) echo shared ;;
    --components) sed -n 's/^# needs //p' "\$0" ;;
    --includedir) echo /tree/sysroot/usr/include/llvm-${home##*-} ;;
    --cppflags | --cxxflags | --cflags)
        echo -I/tree/sysroot/usr/include/llvm-${home##*-} -I/tree/sysroot/usr/include/llvm-c-${home##*-} \
            -D_GNU_SOURCE -D__STDC_CONSTANT_MACROS -D__STDC_FORMAT_MACROS -D__STDC_LIMIT_MACROS ;;
    --libdir) echo $home/lib ;;
    --libs | --link-shared | --ldflags) echo -lLLVM-${home##*-} ;;
    *) continue ;;
    esac
    exit
done
# needs all aggressiveinstcombine amdgpu amdgpuasmparser amdgpucodegen asmparser bitreader bitwriter core
# needs coroutines engine executionengine instcombine ipo lto mcdisassembler mcjit native scalaropts
# needs transformutils
SH
    chmod 755 /tree/llvm-config
    echo "llvm-config = '/tree/llvm-config'"
}
