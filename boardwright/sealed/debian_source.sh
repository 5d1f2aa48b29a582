# Source packages of Debian, for scripts that source this file. Needs tar, patch and what unpacks them.

# unpack_debian FROM TO: upstream's archive and Debian's whole series, as `dpkg-source -x` would leave them,
# and TO/debian/applied, the patches in order.
#
# The lock names Debian's revision, so that is what is compiled. FROM holds the files of the source package
# (.orig.tar.* and .debian.tar.*, or .diff.gz of the old format), TO is made.
unpack_debian() {
    mkdir -p "$2"
    tar -xf "$1"/*.orig.tar.* --strip-components=1 --no-same-owner -C "$2"
    if compgen -G "$1/*.diff.gz" >/dev/null; then
        gzip -dc "$1"/*.diff.gz | _debian_patch "$2" "Debian's diff"
    else
        tar -xf "$1"/*.debian.tar.* --no-same-owner -C "$2"
    fi
    [ -f "$2/debian/patches/series" ] || return 0
    sed -e 's/[[:space:]]*#.*//' -e '/^$/d' "$2/debian/patches/series" >"$2/debian/applied"
    local patch
    while read -r patch; do
        _debian_patch "$2" "Debian's patch $patch" <"$2/debian/patches/$patch" || return 1
    done <"$2/debian/applied"
}

_debian_patch() { # TREE NAME
    patch -d "$1" -p1 --fuzz=0 --silent --batch || {
        echo "error: $2 does not apply to $1" >&2
        return 1
    }
}

# debian_version FROM: the version, from the name <source>_<version>.debian.tar.* or .diff.gz
debian_version() {
    basename "$1"/*.d[ei]*[bf]* | sed -e 's/^[^_]*_//' -e 's/\.debian\.tar\..*//' -e 's/\.diff\.gz$//'
}
