//! What happens to the drives of a set.

use event_queue::Queue;

/// Something that happens to one drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A cable that was taken is free: commands may start.
    Admit,
    /// The controller has understood this command.
    Understood(u32),
    /// This command's data may be put on the link.
    Transfer(u32),
    /// This command's data is across the link.
    Across(u32),
    /// A hard disk's mechanism has done what it was at.
    Mechanism,
    /// A hard disk may have been idle for so long that it writes what it holds.
    Idle,
    /// A die is done with what it was at.
    Die(u32),
    /// A page read from flash is in the controller.
    PageRead(u32),
    /// A page is across the link.
    PageAcross(u32),
    /// A flush has also written the map.
    Flushed(u32),
}

/// What happens when, and to which drive.
pub(crate) type Events = Queue<(u32, Event)>;
