"""Where an image runs: ``qemu`` here, ``replay`` of a recorded console; each gives a console's port."""
