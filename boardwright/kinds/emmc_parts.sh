# The partitions of an eMMC without a table, one file each: /in/parts.json and what it names to /out/<name>.img.
cd /in
exec python3 -S -m sealed.emmcparts
