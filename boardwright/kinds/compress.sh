# /in/image to /out/$NAME. The bytes depend on the level and not on the number of workers (zstd(1)).
zstd --quiet -3 -T"$JOBS" /in/image -o "/out/$NAME"
