//! The guest image: an initramfs and a root filesystem, cached by content.
