# Our own C code for arm64.
#
# In:   /in/libraries/<name>/*.c (each directory becomes lib<name>.so), /in/programs/<name>.c (each file
#       becomes a program, linked dynamically: the board's C library is what some of them examine),
#       /in/patches/<topic>/*.patch, /in/sealed/newfiles.py; TARBALL, CREATED (C files and headers that the
#       patches create, which are compiled into every program)
# Out:  /out/$TARBALL, with symbol tables

: "${TARBALL:?}" "${CREATED:=}"
mkdir -p out created
warnings='-Wall -Wextra -Wconversion -Werror'
# shellcheck disable=SC2086 # lists of words
compile() { aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -O2 -ffile-prefix-map=/in=. "$@"; }

for directory in /in/libraries/*/; do
    name=$(basename "$directory")
    echo "  LIBRARY lib$name.so"
    # shellcheck disable=SC2086
    compile $warnings -fPIC -fvisibility=hidden -shared -Wl,-soname,"lib$name.so" \
        -o "out/lib$name.so" "$directory"*.c
done

objects=()
if [ "$CREATED" ]; then
    # shellcheck disable=SC2086
    (cd /in && python3 -S -m sealed.newfiles --patches /in/patches --to /work/created $CREATED)
    for file in created/*.c; do
        compile -Wall -c -o "${file%.c}.o" "$file"
        objects+=("${file%.c}.o")
    done
fi
for file in /in/programs/*.c; do
    name=$(basename "$file" .c)
    echo "  PROGRAM $name"
    # What libc's functions do is looked at here, not what the compiler makes of their names.
    # shellcheck disable=SC2086
    compile $warnings -fno-builtin -o "out/$name" "$file" "${objects[@]}"
done

tar -C out -cf "/out/$TARBALL" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w .
