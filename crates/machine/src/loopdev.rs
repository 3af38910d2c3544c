//! Loop devices of our own: made, bound to a file, and removed through the kernel's own calls (loop(4),
//! `include/uapi/linux/loop.h`).
//!
//! Not through `losetup`: a device is made under a number that was free, so that its removal leaves nothing
//! behind (the slots that exist keep their scheduler and read-ahead from one user to the next), and it is
//! recognised by device and inode of its file and by its offset in it, which `losetup` does not check before
//! it detaches.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How a loop device reads and writes its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopIo {
    /// Through the page cache: what was read once comes from memory, below the device's own cache.
    Buffered,
    /// Past the page cache, where the file's own file system can.
    Direct,
}

/// How a loop device is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub io: LoopIo,
    /// Its logical sectors, in bytes: a power of two from 512; `None` for the kernel's own choice.
    pub sector_size: Option<u32>,
}

/// The device and inode of a file, which may be a block device's node.
pub(crate) type FileId = (u64, u64);

/// What a loop device is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    pub file: FileId,
    /// Where in the file the device begins, in bytes. Those of ours begin with it.
    pub offset: u64,
}

impl Backing {
    /// All of a file.
    pub(crate) const fn all_of(file: FileId) -> Self {
        Self { file, offset: 0 }
    }
}

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_ADD: Opcode = 0x4C80;
const LOOP_CTL_REMOVE: Opcode = 0x4C81;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `LOOP_MAJOR` of `include/uapi/linux/major.h`.
const LOOP_MAJOR: u32 = 7;

/// How long to wait for a device to become free: udev opens new and changed block devices for some
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo64 {
    const ZERO: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// A call whose argument is a number or a structure that the kernel reads or fills.
struct Call<'a, T> {
    opcode: Opcode,
    argument: Argument<'a, T>,
}

enum Argument<'a, T> {
    Number(usize),
    Structure(&'a mut T),
}

// SAFETY: each opcode is used with the structure that loop(4) gives for it, or with a plain number; the
// pointer lives as long as the call, and the kernel writes no more than the structure.
unsafe impl<T> Ioctl for Call<'_, T> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        match &mut self.argument {
            Argument::Number(number) => std::ptr::without_provenance_mut(*number),
            Argument::Structure(structure) => std::ptr::from_mut::<T>(structure).cast(),
        }
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

fn call<T>(file: &File, opcode: Opcode, argument: Argument<'_, T>) -> rustix::io::Result<()> {
    // SAFETY: see the implementation of `Ioctl` above.
    unsafe { ioctl(file, Call { opcode, argument }) }
}

/// `/dev/loopN`.
pub(crate) fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Whether there is such a device, bound or not.
pub(crate) fn exists(number: u32) -> bool {
    PathBuf::from(format!("/sys/block/loop{number}")).exists()
}

fn control(opcode: Opcode, number: u32) -> io::Result<()> {
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    Ok(call::<()>(&control, opcode, Argument::Number(number as usize))?)
}

fn open(number: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(node(number), flags, Mode::empty())?.into())
}

/// Makes a device of this number.
///
/// # Errors
/// `AlreadyExists` where somebody was faster; `NotFound` where this kernel has no loop devices;
/// `PermissionDenied` without root.
pub(crate) fn add(number: u32) -> io::Result<()> {
    control(LOOP_CTL_ADD, number)
}

/// Binds a device to a file.
///
/// # Errors
/// `ResourceBusy` where somebody else has bound it; else as the kernel gives them.
pub(crate) fn bind(number: u32, file: &File, path: &str, form: Form) -> io::Result<()> {
    let mut info = LoopInfo64::ZERO;
    // The kernel keeps the last byte as the end of the name.
    for (to, from) in info.file_name[..63].iter_mut().zip(path.bytes()) {
        *to = from;
    }
    if form.io == LoopIo::Direct {
        info.flags = LO_FLAGS_DIRECT_IO;
    }
    let fd = u32::try_from(file.as_raw_fd()).expect("an open descriptor is not negative");
    let block_size = form.sector_size.unwrap_or(0);
    let mut config = LoopConfig { fd, block_size, info, reserved: [0; 8] };
    let device = open_patiently(number)?;
    Ok(call(&device, LOOP_CONFIGURE, Argument::Structure(&mut config))?)
}

/// devtmpfs makes the node with the device, but udev may be changing its owner and mode.
fn open_patiently(number: u32) -> io::Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open(number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {
                std::thread::sleep(POLL);
            }
            result => return result,
        }
    }
}

/// What a device is bound to; `None` where it is not bound, or not there.
///
/// # Errors
/// As the kernel gives them.
pub(crate) fn bound_to(number: u32) -> io::Result<Option<Backing>> {
    let device = match open(number) {
        Ok(device) => device,
        Err(error) if crate::settings::means_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    backing_of(&device)
}

/// The file behind an open device; `None` where it is a loop device without one, or no loop device at all.
///
/// # Errors
/// As the kernel gives them.
pub(crate) fn backing_of(device: &File) -> io::Result<Option<Backing>> {
    if rustix::fs::major(device.metadata()?.rdev()) != LOOP_MAJOR {
        return Ok(None);
    }
    let mut info = LoopInfo64::ZERO;
    match call(device, LOOP_GET_STATUS64, Argument::Structure(&mut info)) {
        Ok(()) => Ok(Some(Backing { file: (info.device, info.inode), offset: info.offset })),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Detaches a device from what it is bound to, and returns when that is done.
///
/// # Errors
/// `ResourceBusy` where something still uses it after some seconds: the kernel then detaches it by itself
/// when that ends.
pub(crate) fn detach(number: u32, from: Backing) -> io::Result<()> {
    match call::<()>(&open(number)?, LOOP_CLR_FD, Argument::Number(0)) {
        Ok(()) | Err(Errno::NXIO) => {}
        Err(error) => return Err(error.into()),
    }
    wait_until(|| Ok(bound_to(number)? != Some(from)))
}

/// Removes a device that is not bound.
///
/// # Errors
/// `ResourceBusy` where somebody else uses it.
pub(crate) fn remove(number: u32) -> io::Result<()> {
    wait_until(|| match control(LOOP_CTL_REMOVE, number) {
        Ok(()) => Ok(true),
        Err(error) if crate::settings::means_absent(&error) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    })
}

fn wait_until(mut done: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !done()? {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
