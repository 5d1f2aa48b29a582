"""Where an image runs: qemu, serial, labgrid, replay."""
