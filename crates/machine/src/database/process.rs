//! Which process of this machine listens where a server is asked, and where its data are: both servers work
//! in the folder of their data (`ChangeToDataDir` of PostgreSQL, `my_setwd` in MariaDB's `mysqld.cc`).
//!
//! What the kernel does not show this user, or is in another network namespace, is not found.

use domain::database::{Address, Kind};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A server's first process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its number.
    pub pid: u32,
    /// The folder of its data, which leads this process there too; `None` where it is not visible.
    pub data: Option<PathBuf>,
}

/// Finds the process that listens there and executes a server of this kind.
pub fn find(kind: Kind, address: &Address) -> Option<ServerProcess> {
    let inodes = match (address, address.socket(kind)) {
        (_, Some(socket)) => unix_listeners(&fs::read_to_string("/proc/net/unix").ok()?, Path::new(&socket)),
        (Address::Tcp { host, port }, _) => tcp_listeners(host, *port),
        (Address::Socket(_), None) => return None,
    };
    let wanted: BTreeSet<String> = inodes.into_iter().map(|inode| format!("socket:[{inode}]")).collect();
    let pid = processes().filter(|pid| executes(*pid, kind)).find(|pid| has_one_of(*pid, &wanted))?;
    Some(ServerProcess { pid, data: data_of(pid) })
}

/// Processes in the order of their numbers: a server has its listening socket before its children.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: BTreeSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.into_iter()
}

fn executes(pid: u32, kind: Kind) -> bool {
    let names: &[&str] = match kind {
        Kind::MariaDb => &["mariadbd", "mysqld"],
        Kind::PostgreSql => &["postgres"],
    };
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    // One that was upgraded while it runs has ` (deleted)` behind its name.
    name.is_some_and(|name| names.contains(&name.trim_end_matches(" (deleted)")))
}

fn has_one_of(pid: u32, wanted: &BTreeSet<String>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| wanted.contains(&*link.to_string_lossy()))
}

/// The folder by its own path where that is the same for this process, else through the server's.
fn data_of(pid: u32) -> Option<PathBuf> {
    let through = PathBuf::from(format!("/proc/{pid}/cwd"));
    let there = fs::metadata(&through).ok()?;
    let path = fs::read_link(&through).ok()?;
    let is_same =
        fs::metadata(&path).is_ok_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()));
    Some(if is_same { path } else { through })
}

/// The inodes of listening sockets at a path, of the text of `/proc/net/unix` (proc(5)): number, references,
/// protocol, flags, type, state, inode, path.
fn unix_listeners(text: &str, socket: &Path) -> Vec<u64> {
    /// `__SO_ACCEPTCON` of `linux/net.h`.
    const LISTENS: u32 = 1 << 16;
    let wanted = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_owned());
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
        let path = Path::new(*fields.get(7)?);
        let is_it = path == socket || fs::canonicalize(path).is_ok_and(|path| path == wanted);
        (flags & LISTENS != 0 && is_it).then_some(())?;
        fields.get(6)?.parse().ok()
    };
    text.lines().skip(1).filter_map(listener).collect()
}

/// The inodes of sockets of this machine that listen at an address of this machine.
fn tcp_listeners(host: &str, port: u16) -> Vec<u64> {
    let Ok(address) = host.parse::<IpAddr>() else { return Vec::new() };
    if !address.is_loopback() && !is_of_this_machine(address) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        found.extend(listening(&fs::read_to_string(path).unwrap_or_default(), address, port));
    }
    found
}

/// Whether a socket can be bound to it: only an address of this machine's.
fn is_of_this_machine(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Of the text of `/proc/net/tcp` or `tcp6`, the sockets that take connections to this address.
fn listening(text: &str, address: IpAddr, port: u16) -> Vec<u64> {
    /// `TCP_LISTEN` of the kernel's `net/tcp_states.h`.
    const LISTEN: &str = "0A";
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, local_port) = fields.get(1)?.split_once(':')?;
        let is_it = *fields.get(3)? == LISTEN
            && u16::from_str_radix(local_port, 16) == Ok(port)
            && takes(address_of(local)?, address);
        is_it.then(|| fields.get(9)?.parse().ok())?
    };
    text.lines().skip(1).filter_map(listener).collect()
}

/// Whether a socket that listens at `local` takes what is sent to `address`.
fn takes(local: IpAddr, address: IpAddr) -> bool {
    let is_any_of_both = local == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    local == address || is_any_of_both || (local.is_unspecified() && local.is_ipv4() == address.is_ipv4())
}

/// An address as the kernel prints it: words of 32 bits in the machine's own order.
fn address_of(text: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = text
        .as_bytes()
        .chunks(8)
        .map(|word| Some(u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?.to_ne_bytes()))
        .collect();
    match words?[..] {
        [word] => Some(Ipv4Addr::from(word).into()),
        [a, b, c, d] => {
            <[u8; 16]>::try_from([a, b, c, d].concat()).ok().map(|all| Ipv6Addr::from(all).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn listeners_are_told_by_state_address_and_port() {
        const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534 0 501 1 0 100 0 0 10 0\n   \
             1: 0100007F:1538 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000 65534 0 502 1 0 20 4 30 10 -1\n   \
             2: 00000000:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534 0 503 1 0 100 0 0 10 0\n";
        let at = |text: &str, port| listening(TCP, text.parse().unwrap(), port);
        assert_eq!(at("127.0.0.1", 5432), [501]);
        assert_eq!(at("127.0.0.1", 3306), [503]);
        assert_eq!(at("127.0.0.2", 5432), [0; 0]);
        assert_eq!(at("::1", 3306), [0; 0]);
        const TCP6: &str = "head\n 0: 00000000000000000000000001000000:1538 0:0 0A 0:0 0:0 0 0 0 601 1\n \
             1: 00000000000000000000000000000000:0CEA 0:0 0A 0:0 0:0 0 0 0 602 1\n";
        assert_eq!(listening(TCP6, "::1".parse().unwrap(), 5432), [601]);
        assert_eq!(listening(TCP6, "127.0.0.1".parse().unwrap(), 3306), [602]);
    }

    #[test]
    fn a_listening_socket_is_found_by_its_path() {
        const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 701 /run/none/x.sock\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 702 /run/none/x.sock\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 703\n";
        assert_eq!(unix_listeners(UNIX, Path::new("/run/none/x.sock")), [701]);
        assert_eq!(unix_listeners(UNIX, Path::new("/run/none/y.sock")), [0; 0]);
    }
}
