//! The messages between this program and itself in the guest.
