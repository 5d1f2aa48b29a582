"""boardwright: reproducible arm64 board images, and evidence from their serial console."""
