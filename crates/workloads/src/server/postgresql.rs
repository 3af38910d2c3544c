//! What PostgreSQL's clients are told.

/// The only user that its data know.
pub const USER: &str = "flyball";
/// The database that is there from the beginning.
pub const DATABASE: &str = "postgres";
/// Its default port, which is part of its socket's name too.
pub const PORT: u16 = 5432;
