//! A target that is a server of somebody's: `server:ADDRESS`.

use super::{Wanted, quoted, usage};
use crate::error::{Error, Result};
use domain::database::{Address, Kind, POSTGRESQL_PORT, check_name};
use std::path::Path;

/// What such a target begins with.
pub(super) const PREFIX: &str = "server:";

/// The address of a target that is a server; `None` of any other target.
pub(super) fn named(target: Option<&str>) -> Option<&str> {
    target?.strip_prefix(PREFIX)
}

/// Which server an address is of, by what it looks like: PostgreSQL is reached by a folder, or by its port.
pub(super) fn kind(address: &str) -> Kind {
    let is_postgresql = match Address::parse(address) {
        Ok(Address::Tcp { port, .. }) => port == POSTGRESQL_PORT,
        Ok(Address::Socket(path)) => {
            path.contains("postgres") || path.contains(".s.PGSQL.") || Path::new(&path).is_dir()
        }
        Err(_) => false,
    };
    if is_postgresql { Kind::PostgreSql } else { Kind::MariaDb }
}

/// The tool that asks it where none is named.
pub(super) fn tool(address: &str) -> &'static str {
    match kind(address) {
        Kind::PostgreSql => "pgbench",
        Kind::MariaDb => "sysbench",
    }
}

/// The lines of `[target]`.
pub(super) fn target(arguments: &Wanted<'_>, address: &str, tool: &str) -> Result<Vec<String>> {
    if !super::tool_has_a_server(tool) {
        return usage(format!("{tool} asks no server; write `--tool sysbench` or `--tool pgbench`"));
    }
    Address::parse(address).map_err(|problem| Error::Usage(format!("`--target {PREFIX}…` {problem}")))?;
    let mut lines = vec![
        "# It runs already, and is neither configured nor restarted. Flyball makes a database of its own in it before".to_owned(),
        "# the first trial, and drops it after the last.".to_owned(),
        format!("server = {}", quoted(address)),
        "# Who connects; without these two lines, whom the server knows by the socket. The rights that are needed:".to_owned(),
        "# docs/study-format/target.md.".to_owned(),
    ];
    lines.push(match arguments.user {
        Some(user) => {
            check_name(user).map_err(|problem| Error::Usage(format!("`--user` {problem}")))?;
            format!("user = {}", quoted(user))
        }
        None => "# user = \"flyball\"".to_owned(),
    });
    lines.push(match arguments.password_file {
        Some(file) => {
            let file = std::path::absolute(file)
                .map_err(Error::during(format!("cannot make `{}` absolute", file.display())))?;
            format!("password_file = {}", quoted(&file.display().to_string()))
        }
        None => "# password_file = \"/root/flyball.password\"".to_owned(),
    });
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_which_server_it_is_of() {
        for (address, tool_of_it) in [
            ("/run/mysqld/mysqld.sock", "sysbench"),
            ("127.0.0.1:3306", "sysbench"),
            ("/run/postgresql", "pgbench"),
            ("/srv/.s.PGSQL.5433", "pgbench"),
            ("127.0.0.1:5432", "pgbench"),
            ("/tmp", "pgbench"),
        ] {
            assert_eq!(tool(address), tool_of_it, "{address}");
        }
    }
}
