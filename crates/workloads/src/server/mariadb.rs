//! What MariaDB's clients are told.

/// sysbench's own name for its database.
pub const DATABASE: &str = "sbtest";
/// Its default port.
pub const PORT: u16 = 3306;
