//! A QEMU TCG plugin that runs each virtual CPU at the pace of its virtual P-state.
