//! What MariaDB's clients are told.

/// The user of a server that asks nobody who comes.
pub const USER: &str = "root";
/// sysbench's own name for its database.
pub const DATABASE: &str = "sbtest";
/// Its default port.
pub const PORT: u16 = 3306;
