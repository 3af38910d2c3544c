//! The server that somebody's data are in: what its owner has decided, as the trials found it.

use super::titled_table;
use crate::Report;
use crate::document::Block;
use crate::wording::environment;

/// Which server was asked, where its data are, and its settings by their own names; nothing of a run that
/// asked none of somebody's.
pub(super) fn server(report: &Report) -> Vec<Block> {
    let is_of_server =
        |name: &str| name == "server" || ["server.", "server "].iter().any(|begin| name.starts_with(begin));
    let of_server = environment(report).into_iter().filter(|(name, _)| is_of_server(name));
    let rows = of_server.map(|(name, values)| {
        let differs = if values.len() > 1 { " (differs between trials)" } else { "" };
        vec![name.to_owned(), values.into_iter().collect::<Vec<&str>>().join(" | ") + differs]
    });
    titled_table("Server", &["what", "as the trials found it"], &[], rows.collect())
}
