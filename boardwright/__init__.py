"""boardwright: reproducible arm64 board images, and evidence from their serial console."""

__version__ = "0.1.0"
