//! A lab machine: QEMU, from its start to its end.
//!
//! QEMU gets everything that it talks through as an open descriptor: the control port, the disks, the ACPI
//! table, the plugin's record. So there is no socket and no file that could be left behind, and a QEMU whose
//! Flyball was killed is killed with it (`PR_SET_PDEATHSIG`, prctl(2)).

use crate::guest::{self, Reply, Request};
use crate::image::Image;
use crate::{Error, Result};
use crate::{acpi, pacing, programs};
use domain::lab::{Dilated, PStateTable};
use domain::units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The oldest QEMU whose plugin interface has what the pacing needs.
const OLDEST_QEMU: (u32, u32) = (9, 1);
const OLDEST_QEMU_TEXT: &str = "9.1";

/// The first QEMU that takes plugins of interface version 7 and later alone, and the variable of its
/// environment that tells ours.
const PLUGIN_API_7: (u32, u32) = (11, 1);
const PLUGIN_API: (&str, &str) = ("FLYBALL_PLUGIN_API", "7");

/// How long a guest may take until its first word: some thirty times what it takes on two quiet cores, for a
/// host may be busy with much else.
const START: Duration = Duration::from_secs(240);

/// How long a guest may take to power off before it is killed, where it has nothing to lose.
const POWER_OFF: Duration = Duration::from_secs(5);

/// How long where its disks are kept: what it has in its memory is to be written first, and that is as much
/// as fits, on a slow disk.
const POWER_OFF_KEPT: Duration = Duration::from_secs(300);

/// How long a guest may say nothing while it should say every few seconds that it is alive: twelve times as
/// long as that, for the host may be busy too.
const SILENCE: Duration = Duration::from_secs(60);

/// How often somebody's wish to stop is looked at, while a guest is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// What a message shows of the kernel's log.
const TAIL_LINES: usize = 15;

/// What is kept of a kernel's log; a guest that prints more is in trouble, and its last words count.
const MAX_LOG: usize = 1 << 20;

/// What is kept of QEMU's own complaints.
const MAX_SAID: u64 = 16 << 10;

/// What the kernel prints first when it gives up (`kernel/panic.c`).
const PANIC: &str = "Kernel panic";

/// What the guest's processor lacks. TCG runs an AES or carry-less multiply instruction as one instruction,
/// which at a pace of instructions would make encryption cost next to nothing: so the guest has none of them,
/// and its kernel encrypts with ordinary ones.
const WITHOUT: &str = "-aes,-vaes,-pclmulqdq,-vpclmulqdq,-sha-ni";

/// Where on the PCI bus the disks begin, behind what QEMU puts in the first free places, and how many share a
/// slot.
const FIRST_DISK_SLOT: usize = 0x10;
const FUNCTIONS: usize = 8;

/// How many requests a disk's queue holds: as many as that of QEMU's own virtio-scsi.
const DISK_QUEUE: u32 = 256;

/// How long QEMU may take to end once it has closed its port, and its output to be read then.
const END: Duration = Duration::from_secs(2);

/// What the guest's kernel is told: print to the log; end QEMU at a panic; keep quiet about being slow, which
/// a paced CPU is by intention; leave out the mitigations, which guard nothing here; and start with one CPU:
/// the guest starts the others when it has its devices, for QEMU 10.0 may fail where one CPU maps a device
/// while another one runs.
const COMMAND_LINE: &str = "console=ttyS0 loglevel=5 panic=-1 mitigations=off nowatchdog maxcpus=1 \
    rcupdate.rcu_cpu_stall_suppress=1 random.trust_cpu=on no_timer_check tsc=reliable audit=0";

/// What a lab machine is made of.
pub struct Spec<'a> {
    /// The QEMU program; `None` for the one in the usual folders.
    pub qemu: Option<&'a Path>,
    /// Kernel and root filesystem.
    pub image: &'a Image,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory.
    pub memory: Bytes,
    /// Virtual P-states, where it has them.
    pub pstates: Option<PStatesSpec<'a>>,
    /// Modelled disks.
    pub disks: Vec<Disk>,
    /// Whether it gets a console for a shell.
    pub console: bool,
}

/// By which a library comes before the program that is started (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// The plugin as [`PRELOAD`] names it, in which colons and spaces separate. A script in QEMU's place could
/// not start: the plugin wants what QEMU has.
fn preloaded(plugin: &Path, qemu: &Path) -> Result<PathBuf> {
    const INSTEAD: &str = "or have the study stretch its times instead (`clock = \"host\"` under [lab])";
    let mut first = [0; 2];
    let is_script =
        File::open(qemu).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"#!";
    if is_script {
        let why = format!(
            "it is a script, which a guest with a slowed clock cannot be started by; name QEMU itself, {INSTEAD}"
        );
        return Err(Error::file("start", qemu, io::Error::other(why)));
    }
    let path = plugin.canonicalize().map_err(|error| Error::file("find", plugin, error))?;
    match path.to_str() {
        Some(text) if !text.contains([':', ' ']) => Ok(path),
        _ => {
            let why = format!(
                "a colon or a space would end its path there; put Flyball into a folder without, {INSTEAD}"
            );
            Err(Error::file("load before QEMU", plugin, io::Error::other(why)))
        }
    }
}

/// Virtual P-states of a machine.
pub struct PStatesSpec<'a> {
    /// The table.
    pub table: &'a PStateTable,
    /// The plugin that paces by it.
    pub plugin: &'a Path,
    /// How many times slower than the machine that it stands for, and how that is divided.
    pub dilated: Dilated,
}

/// A modelled disk. What the guest sees of it, its server says.
#[derive(Debug)]
pub struct Disk {
    /// QEMU's end of the connection to its block server, as a `vhost-user-scsi-pci` has it.
    pub server: OwnedFd,
}

/// A machine that runs. Dropped, it is killed.
pub struct Vm {
    child: Child,
    control: UnixStream,
    console: Option<UnixStream>,
    record: Option<File>,
    log: Log,
    reader: Option<JoinHandle<()>>,
    what: &'static str,
    /// Whether it says that it is alive while it works.
    beats: bool,
}

impl Vm {
    /// Starts a machine and waits until this program answers in it.
    ///
    /// # Errors
    /// Where QEMU is missing or too old, the machine does not start, or the guest says nothing; then with the
    /// end of its kernel's log.
    pub fn start(spec: Spec<'_>, interrupt: &AtomicBool) -> Result<Self> {
        let (qemu, release) = qemu(spec.qemu)?;
        let (control, far_control) = pair()?;
        let (console, far_console) =
            if spec.console { pair().map(|(a, b)| (Some(a), Some(b)))? } else { (None, None) };
        let mut passed = Passed::default();
        let mut line = Command::new(&qemu);
        line.args(base(&spec));
        line.args(control_port(passed.give(far_control.into())));
        if let Some(far) = far_console {
            line.args(console_port(passed.give(far.into())));
        }
        let mut record = None;
        if let Some(pstates) = &spec.pstates {
            if let Some(table) = acpi::ssdt(pstates.table, spec.vcpus, pstates.dilated.stretched) {
                let table = passed.give(memory_file("ssdt", &table)?.into());
                line.args(["-acpitable", &format!("file=/dev/fd/{table}")]);
            }
            let file = memory_file("record", &[])?;
            let number =
                passed.give(file.try_clone().map_err(|e| Error::system("pass on a descriptor", e))?.into());
            let record_path = PathBuf::from(format!("/dev/fd/{number}"));
            let PStatesSpec { table, plugin, dilated } = *pstates;
            line.args(["-plugin", &pacing::plugin_argument(plugin, table, dilated, &record_path)]);
            if dilated.slowed > 1.0 {
                line.env(PRELOAD, preloaded(plugin, &qemu)?);
            }
            line.env_remove(PLUGIN_API.0);
            if release >= PLUGIN_API_7 {
                line.env(PLUGIN_API.0, PLUGIN_API.1);
            }
            record = Some(file);
        }
        for (index, disk) in spec.disks.into_iter().enumerate() {
            line.args(disk_arguments(index, disk, &mut passed));
        }
        let mut child = passed.spawn(line).map_err(|e| Error::file("start", &qemu, e))?;
        let log = Log::default();
        let stdout = child.stdout.take().expect("it was asked for");
        let stderr = child.stderr.take().expect("it was asked for");
        let reader = log.follow(stdout, stderr);
        let mut vm = Self {
            child,
            control,
            console,
            record,
            log,
            reader: Some(reader),
            what: "while it started",
            beats: false,
        };
        vm.greet(interrupt)?;
        Ok(vm)
    }

    fn greet(&mut self, interrupt: &AtomicBool) -> Result<()> {
        match self.receive(START, interrupt)? {
            (Reply::Hello { version: guest::VERSION, .. }, _) => Ok(()),
            (other, _) => Err(self.lost(&format!("the guest did not greet, but said {other:?}"))),
        }
    }

    /// Asks for something; `what` names it in an error: `while it prepared`.
    ///
    /// # Errors
    /// Where the guest is gone.
    pub fn ask(&mut self, request: &Request, what: &'static str) -> Result<()> {
        self.what = what;
        self.beats = request.beats();
        guest::send(&mut self.control, request, &[])
            .map_err(|_| self.lost("the guest takes no more messages"))
    }

    /// The next answer, which may take so long.
    ///
    /// # Errors
    /// [`Error::Guest`] where the guest is gone, says nothing for so long, or no more says that it is alive;
    /// [`Error::Interrupted`].
    pub fn receive(&mut self, patience: Duration, interrupt: &AtomicBool) -> Result<(Reply, Vec<u8>)> {
        loop {
            let said = self.receive_until(None, patience, interrupt)?;
            if let Some(said) = said {
                return Ok(said);
            }
        }
    }

    /// The same, until a moment at which nothing is waited for any more: `None`.
    ///
    /// # Errors
    /// As [`Vm::receive`].
    pub fn receive_until(
        &mut self,
        end: Option<Instant>,
        patience: Duration,
        interrupt: &AtomicBool,
    ) -> Result<Option<(Reply, Vec<u8>)>> {
        let begun = Instant::now();
        let mut heard = begun;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            if is_readable(&self.control, left.map_or(LOOK, |left| left.min(LOOK)))? {
                match guest::receive(&mut self.control) {
                    Ok((Reply::Alive, _)) => heard = Instant::now(),
                    Ok(said) => return Ok(Some(said)),
                    Err(error) => return Err(self.lost_by(&error)),
                }
            }
            if self.beats && heard.elapsed() > SILENCE {
                return Err(self.silent(SILENCE));
            }
            // A trial says that it is alive until it is measured, and has all its time from then on.
            let since = if self.beats { begun } else { heard };
            if since.elapsed() > patience {
                return Err(self.silent(patience));
            }
        }
    }

    /// The plugin's record so far; empty where CPUs are not paced.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn record(&self) -> Result<String> {
        let Some(mut file) = self.record.as_ref() else { return Ok(String::new()) };
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|e| Error::system("read the plugin's record", e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Our end of the console, once.
    pub fn take_console(&mut self) -> Option<UnixStream> {
        self.console.take()
    }

    /// Our end of the control port, to wait on beside others.
    pub fn control(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.control.as_fd()
    }

    /// The kernel's log, which goes on as long as the machine runs.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// Ends the machine: it powers off, or is killed.
    pub fn power_off(mut self) {
        // What it did not write would be gone with it anyway.
        let _ = self.is_off_within(POWER_OFF, &AtomicBool::new(false));
    }

    /// Ends a machine whose disks are kept: it writes what it has in its memory, and powers off.
    ///
    /// # Errors
    /// Where it does not, and is killed: then its disks are as after a power cut.
    pub fn power_off_kept(mut self, interrupt: &AtomicBool) -> Result<()> {
        if self.is_off_within(POWER_OFF_KEPT, interrupt) {
            return Ok(());
        }
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let seconds = POWER_OFF_KEPT.as_secs();
        Err(self.lost(&format!(
            "the guest was not off after {seconds} s and was killed, so that its disks are as after a power cut,"
        )))
    }

    /// Kills the machine from one moment to the next, as a power cut does.
    pub fn cut_power(self) {
        drop(self);
    }

    fn is_off_within(&mut self, patience: Duration, interrupt: &AtomicBool) -> bool {
        if self.ask(&Request::PowerOff, "while it powered off").is_err() {
            return false;
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && !interrupt.load(Ordering::Relaxed) {
            match self.receive(LOOK, interrupt) {
                Ok(_) => {}
                Err(_) if matches!(self.child.try_wait(), Ok(None)) => {}
                Err(_) => return true,
            }
        }
        false
    }

    fn lost_by(&mut self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::InvalidData {
            return self.lost(&format!("the guest said what cannot be understood ({error})"));
        }
        // QEMU closes the port a moment before it ends; how it ended says more.
        let end = self.wait(END);
        if end.is_some() {
            self.hear_out();
        }
        match end {
            Some(status) if status.success() && self.log.holds(PANIC) => {
                self.lost("the guest's kernel panicked")
            }
            Some(status) if status.success() => self.lost("the guest powered off"),
            Some(status) => self.lost(&format!("QEMU ended with {status}")),
            None => self.lost("the guest closed its port"),
        }
    }

    fn lost(&mut self, why: &str) -> Error {
        Error::Guest { what: format!("{why} {}", self.what), log: self.log.tail() }
    }

    /// What QEMU said before it ended is read to its end. Whoever it left its output to may keep that open.
    fn hear_out(&self) {
        let deadline = Instant::now() + END;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn silent(&mut self, span: Duration) -> Error {
        self.lost(&format!("the guest said nothing for {} s", span.as_secs()))
    }

    fn wait(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                _ => return None,
            }
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Killing what is dead already fails, and may.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Where a QEMU is, and its major and minor version.
fn qemu(wanted: Option<&Path>) -> Result<(PathBuf, (u32, u32))> {
    const NAME: &str = "qemu-system-x86_64";
    let missing = |program: String| Error::MissingProgram {
        doing: "start a lab machine".into(),
        program,
        package: "qemu-system-x86",
    };
    let path = match wanted {
        Some(path) if path.is_file() => path.to_owned(),
        Some(path) => return Err(missing(path.display().to_string())),
        None => programs::find(NAME).ok_or_else(|| missing(NAME.into()))?,
    };
    let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::file("run", &path, e))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let program = path.display().to_string();
    match version(&text) {
        Some((major, minor, _)) if (major, minor) >= OLDEST_QEMU => Ok((path, (major, minor))),
        Some((.., found)) => Err(Error::OldQemu { program, found, needed: OLDEST_QEMU_TEXT }),
        None => Err(Error::Program {
            doing: "ask QEMU for its version".into(),
            program,
            how: "tells none, but says".into(),
            said: format!("`{}`", text.lines().next().unwrap_or_default()),
        }),
    }
}

/// `QEMU emulator version 10.0.2 (Debian …)`.
fn version(text: &str) -> Option<(u32, u32, String)> {
    let found = text.lines().next()?.split_once("version ")?.1.split_whitespace().next()?;
    let mut numbers = found.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, found.to_owned()))
}

fn base(spec: &Spec<'_>) -> Vec<String> {
    let image = spec.image;
    let root = format!("if=none,id=root,format=raw,readonly=on,file={}", escaped(&image.root));
    let memory = format!("{}M", spec.memory.get() >> 20);
    let table = spec.pstates.as_ref().map(|pstates| pstates.table);
    let option =
        table.and_then(pacing::kernel_option).map_or_else(String::new, |option| format!(" {option}"));
    let words = [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-M",
        "q35,usb=off,vmport=off,memory-backend=ram",
        // The disks' servers read and write the guest's memory themselves.
        "-object",
        &format!("memory-backend-memfd,id=ram,share=on,size={memory}"),
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        &format!("{},{WITHOUT}", pacing::cpu_model(table)),
        "-smp",
        &spec.vcpus.to_string(),
        "-m",
        &memory,
        "-chardev",
        "stdio,id=log,signal=off",
        "-serial",
        "chardev:log",
        "-kernel",
        &image.kernel.vmlinux.display().to_string(),
        "-initrd",
        &image.initramfs.display().to_string(),
        "-append",
        &format!("{COMMAND_LINE}{option}"),
        "-drive",
        &root,
        "-device",
        "virtio-blk-pci,drive=root",
        "-device",
        "virtio-serial-pci",
        "-object",
        "rng-random,filename=/dev/urandom,id=entropy",
        "-device",
        "virtio-rng-pci,rng=entropy",
    ];
    words.map(str::to_owned).to_vec()
}

/// A comma separates QEMU's options, and is written twice in a path.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn control_port(fd: RawFd) -> Vec<String> {
    vec![
        "-chardev".into(),
        format!("socket,id=control,fd={fd}"),
        "-device".into(),
        format!("virtserialport,chardev=control,name={}", guest::PORT),
    ]
}

fn console_port(fd: RawFd) -> Vec<String> {
    let words = ["-chardev", &format!("socket,id=shell,fd={fd}"), "-device", "virtconsole,chardev=shell"];
    words.map(str::to_owned).to_vec()
}

/// A disk has a controller of its own, so that it has a connection and a server's thread of its own. Its
/// place on the bus is given, for the guest counts its disks in that order.
fn disk_arguments(index: usize, disk: Disk, passed: &mut Passed) -> Vec<String> {
    let fd = passed.give(disk.server);
    let (slot, function) = (FIRST_DISK_SLOT + index / FUNCTIONS, index % FUNCTIONS);
    let device = format!(
        "vhost-user-scsi-pci,chardev=disk{index},addr={slot:#x}.{function:#x},multifunction=on,\
         virtqueue_size={DISK_QUEUE}"
    );
    ["-chardev", &format!("socket,id=disk{index},fd={fd}"), "-device", &device].map(str::to_owned).to_vec()
}

/// Descriptors that the child inherits under the numbers that they have here.
#[derive(Default)]
struct Passed(Vec<OwnedFd>);

impl Passed {
    fn give(&mut self, fd: OwnedFd) -> RawFd {
        let number = fd.as_raw_fd();
        self.0.push(fd);
        number
    }

    fn spawn(self, mut command: Command) -> io::Result<Child> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let parent = rustix::process::getpid();
        let fds: Vec<RawFd> = self.0.iter().map(AsRawFd::as_raw_fd).collect();
        let prepare = move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before the line above took effect.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            for fd in &fds {
                // SAFETY: `self` keeps it open until the child has been made.
                let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made, which is safe in any program.
        unsafe { command.pre_exec(prepare) };
        command.spawn()
    }
}

fn pair() -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(|e| Error::system("make a pair of sockets", e))
}

/// A file in memory, which is gone when nobody has it open any more.
fn memory_file(name: &str, content: &[u8]) -> Result<File> {
    let fd =
        memfd_create(name, MemfdFlags::CLOEXEC).map_err(|e| Error::system("make a file in memory", e))?;
    let mut file = File::from(fd);
    file.write_all(content).map_err(|e| Error::system("write a file in memory", e))?;
    Ok(file)
}

fn is_readable(stream: &UnixStream, patience: Duration) -> Result<bool> {
    let timeout = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(Error::system("wait for the guest", e)),
    }
}

/// The end of the kernel's log, and of what QEMU says itself.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn follow(&self, mut stdout: ChildStdout, mut stderr: ChildStderr) -> JoinHandle<()> {
        let log = self.clone();
        let errors = self.clone();
        let beside = std::thread::spawn(move || {
            let mut text = Vec::new();
            // Ends with the child. QEMU says little, and nothing when all is well.
            let _ = stderr.by_ref().take(MAX_SAID).read_to_end(&mut text);
            errors.push(&text);
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                log.push(&buffer[..count]);
            }
            let _ = beside.join();
        })
    }

    fn push(&self, bytes: &[u8]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        let excess = all.len().saturating_sub(MAX_LOG);
        all.drain(..excess);
    }

    /// All of it that is kept.
    pub fn text(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&all).into_owned()
    }

    fn holds(&self, what: &str) -> bool {
        self.text().contains(what)
    }

    /// The last lines; from the panic on, where there was one.
    fn tail(&self) -> String {
        let text = self.text();
        let text = domain::inert::lines(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(TAIL_LINES);
        let from = lines.iter().position(|line| line.contains(PANIC)).map_or(last, |panic| panic.min(last));
        lines[from..].iter().take(TAIL_LINES).copied().collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_qemu_are_read() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright";
        assert_eq!(version(debian), Some((10, 0, "10.0.2".into())));
        assert_eq!(version("QEMU emulator version 7.2.22\n"), Some((7, 2, "7.2.22".into())));
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn a_qemu_that_is_missing_or_too_old_is_told() {
        let text = qemu(Some(Path::new("/nowhere/qemu"))).unwrap_err().to_string();
        assert!(text.contains("`/nowhere/qemu` is not there; install"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("qemu");
        std::fs::write(&old, "#!/bin/sh\necho QEMU emulator version 7.2.22\n").unwrap();
        std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let text = qemu(Some(&old)).unwrap_err().to_string();
        assert!(text.contains("version 7.2.22, and at least 9.1"), "{text}");
    }

    #[test]
    fn what_cannot_be_loaded_before_qemu_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let (qemu, script) = (make("qemu", "\x7fELF"), make("script", "#!/bin/sh\n"));
        let (plugin, spaced) = (make("plugin.so", ""), make("a plugin.so", ""));
        assert_eq!(preloaded(&plugin, &qemu).unwrap(), plugin.canonicalize().unwrap());
        let told = |plugin: &Path, qemu: &Path| preloaded(plugin, qemu).unwrap_err().to_string();
        assert!(told(&plugin, &script).contains("it is a script"), "{}", told(&plugin, &script));
        assert!(told(&spaced, &qemu).contains("a colon or a space"), "{}", told(&spaced, &qemu));
        assert!(told(&folder.path().join("none.so"), &qemu).contains("cannot find"), "it is not there");
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines_without_what_is_not_text() {
        let log = Log::default();
        log.push("\u{1b}[0mearly\r\n".as_bytes());
        (0..20).for_each(|n| log.push(format!("line {n}\r\n\r\n").as_bytes()));
        let tail = log.tail();
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("line 19"), "{tail:?}");
        log.push(b"[ 1.0] Kernel panic - not syncing: x\n");
        (0..20).for_each(|n| log.push(format!("trace {n}\n").as_bytes()));
        assert!(log.tail().starts_with("[ 1.0] Kernel panic"), "{}", log.tail());
        assert_eq!(log.tail().lines().count(), TAIL_LINES);
    }
}
