//! bpf(2): maps and programs, each a descriptor that ends with this process and that no child inherits.
//! Nothing is pinned.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Kinds of maps (Linux `include/uapi/linux/bpf.h`, `bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    HashOfEachCpu = 5,
    ArrayOfEachCpu = 6,
}

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_NEXT_KEY: libc::c_long = 4;
const PROGRAM_LOAD: libc::c_long = 5;

/// `BPF_PROG_TYPE_TRACEPOINT`.
const OF_TRACEPOINT: u32 = 5;

/// Which the kernel lets call all functions that programs here call (`license_is_gpl_compatible`).
const LICENCE: &CStr = c"Dual MIT/GPL";

/// Room for what the verifier says of a program that it refuses.
const LOG_BYTES: usize = 64 << 10;

#[repr(C)]
struct NewMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    /// Where the value is, or is to be; of [`MAP_NEXT_KEY`] the key behind.
    value: u64,
    flags: u64,
}

#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
}

/// # Safety
/// The attributes are those of the command, and all that they point to is as long as they say.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_long> {
    let length = size_of::<T>() as libc::c_long;
    // SAFETY: as the caller says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor(raw: libc::c_long) -> io::Result<OwnedFd> {
    let raw = i32::try_from(raw).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for us, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(raw) }.into())
}

/// Up to fifteen letters, digits, `_` and `.`, which tools show.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// A map.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    /// What a lookup writes.
    value_bytes: usize,
}

impl Map {
    /// Makes one. `cpus` is at least how many CPUs there can be.
    pub fn new(
        kind: MapKind,
        called: &str,
        [key, value]: [usize; 2],
        entries: u32,
        cpus: usize,
    ) -> io::Result<Self> {
        let attributes = NewMap {
            kind: kind as u32,
            key_bytes: key as u32,
            value_bytes: value as u32,
            entries,
            flags: 0,
            inner: 0,
            node: 0,
            name: name(called),
        };
        // SAFETY: the attributes of this command point to nothing.
        let descriptor = with_memory(|| descriptor(unsafe { bpf(MAP_CREATE, &attributes) }?))?;
        let of_each_cpu = matches!(kind, MapKind::HashOfEachCpu | MapKind::ArrayOfEachCpu);
        let value_bytes = if of_each_cpu { value.next_multiple_of(8) * cpus } else { value };
        Ok(Self { descriptor, key_bytes: key, value_bytes })
    }

    /// For an instruction.
    pub fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn element(&self, key: Option<&[u8]>, value: u64) -> Element {
        assert!(key.is_none_or(|key| key.len() == self.key_bytes), "a key of {} bytes", self.key_bytes);
        let key = key.map_or(0, |key| key.as_ptr() as u64);
        Element { map: self.number().cast_unsigned(), padding: 0, key, value, flags: 0 }
    }

    /// The value of a key, of each CPU one behind the other where each has its own.
    pub fn get(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_bytes];
        let element = self.element(Some(key), value.as_mut_ptr() as u64);
        // SAFETY: the key has the map's length, and the value room for that of each CPU.
        unsafe { bpf(MAP_LOOKUP, &element) }?;
        Ok(value)
    }

    /// Puts a value, which is none of each CPU, at a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes, "a value's length");
        let element = self.element(Some(key), value.as_ptr() as u64);
        // SAFETY: key and value have the map's lengths.
        unsafe { bpf(MAP_UPDATE, &element) }.map(|_| ())
    }

    /// The key behind this one, the first behind none; `None` behind the last.
    pub fn next(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        let mut next = vec![0; self.key_bytes];
        let element = self.element(key, next.as_mut_ptr() as u64);
        // SAFETY: both keys have the map's length; a null pointer asks for the first.
        match unsafe { bpf(MAP_NEXT_KEY, &element) } {
            Ok(_) => Ok(Some(next)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Has the kernel look over a program of a tracepoint, and compile it. What its verifier said last stands in
/// the error.
pub fn load(called: &str, code: &[u64]) -> io::Result<OwnedFd> {
    let mut log = vec![0_u8; LOG_BYTES];
    let attributes = |log: &mut [u8]| NewProgram {
        kind: OF_TRACEPOINT,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        version: 0,
        flags: 0,
        name: name(called),
    };
    // SAFETY: code and licence are as long as the attributes say.
    let loaded = with_memory(|| descriptor(unsafe { bpf(PROGRAM_LOAD, &attributes(&mut [])) }?));
    let Err(error) = loaded else { return loaded };
    // SAFETY: as above, and so is the log.
    let again = unsafe { bpf(PROGRAM_LOAD, &attributes(&mut log)) };
    if let Ok(raw) = again {
        return descriptor(raw);
    }
    let text = log.split(|byte| *byte == 0).next().map(String::from_utf8_lossy).unwrap_or_default();
    let mut lines = text.lines().rev().filter(|line| !line.is_empty() && !line.starts_with("processed "));
    Err(match lines.next() {
        Some(line) => io::Error::new(error.kind(), format!("{error}: the verifier says `{line}`")),
        None => error,
    })
}

/// Before Linux 5.11 maps and programs count as locked memory, of which even root may have little. The limit
/// is lifted for this moment alone: the workload, which inherits it, has the one that it had.
fn with_memory<T>(make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let refused = match make() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        other => return other,
    };
    let before = getrlimit(Resource::Memlock);
    if before.current.is_none()
        || setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).is_err()
    {
        return Err(refused);
    }
    let made = make();
    setrlimit(Resource::Memlock, before)?;
    made
}
