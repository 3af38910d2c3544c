//! The guest image: an initramfs and a root filesystem, cached by content.
//!
//! The initramfs holds a shell and the modules that lead to the root filesystem, a few MiB, for the kernel
//! unpacks all of it before it does anything else. Everything else (this program, the tools, their libraries,
//! all modules) is in a read-only ext4 image, of which a guest reads only what it uses; what it writes goes
//! to its memory.
//!
//! There are two flavours: one that all studies share, and one with database servers besides.

pub mod databases;

use crate::digest::{self, Checked};
use crate::kernel::Kernel;
use crate::{Error, Result, programs, staging};
use domain::order;
use domain::units::Bytes;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use workloads::{Needs, Program};

/// The version of what this file makes; a new one makes new images.
const RECIPE: u32 = 5;

/// Where the guest has this program.
pub const PROGRAM: &str = "/usr/bin/flyball";

/// How many images are kept: each build of this program makes its own for each kernel and flavour, of about
/// 200 MiB, and 300 with databases. One build's are four at the most.
const KEPT: usize = 6;

/// What an image has beside what every guest needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing.
    Plain,
    /// Database servers and their clients.
    Databases,
}

/// A guest image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The kernel that it is for.
    pub kernel: Kernel,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// The root filesystem.
    pub root: PathBuf,
    /// Tools that a study may ask for and this host does not have.
    pub missing: Vec<String>,
    /// Its name: a digest of everything in it.
    pub digest: String,
}

/// One tool that the guest is given, where this host has it.
struct Tool {
    program: &'static str,
    /// Names by which it goes as well.
    also: &'static [&'static str],
    package: &'static str,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, also: &[], package }
}

impl Tool {
    /// As it is named where it is missing.
    fn told(&self) -> String {
        format!("`{}` (Debian's {})", self.program, self.package)
    }
}

/// What a guest cannot do without.
const NEEDED: [Tool; 3] = [
    tool("busybox", "busybox-static"),
    tool("kmod", "kmod"),
    Tool { program: "mke2fs", also: MKFS, package: "e2fsprogs" },
];

const MKFS: &[&str] = &["mkfs.ext2", "mkfs.ext3", "mkfs.ext4"];

/// What studies use besides workload tools and what layers of storage are built with.
const OFFERED: [Tool; 27] = [
    tool("tune2fs", "e2fsprogs"),
    tool("dumpe2fs", "e2fsprogs"),
    tool("e2fsck", "e2fsprogs"),
    tool("sha256sum", "coreutils"),
    tool("rm", "coreutils"),
    tool("bash", "bash"),
    tool("stat", "coreutils"),
    tool("sync", "coreutils"),
    tool("taskset", "util-linux"),
    tool("blockdev", "util-linux"),
    tool("lsblk", "util-linux"),
    tool("blkid", "util-linux"),
    tool("wipefs", "util-linux"),
    tool("sfdisk", "fdisk"),
    tool("partx", "util-linux"),
    tool("mkswap", "util-linux"),
    tool("unshare", "util-linux"),
    tool("flock", "util-linux"),
    tool("setsid", "util-linux"),
    tool("losetup", "mount"),
    tool("swapon", "mount"),
    tool("swapoff", "mount"),
    tool("openssl", "openssl"),
    tool("turbostat", "linux-cpupower"),
    tool("cpupower", "linux-cpupower"),
    tool("perf", "linux-perf"),
    tool("powertop", "powertop"),
];

/// The workload tools, but for those that ask a server: these have an image of their own.
fn workload_tools() -> Vec<Tool> {
    let plain = workloads::ALL.iter().filter(|known| known.needs() != Needs::Server);
    let program = |known: &&dyn workloads::Tool| match known.program(&known.in_study()?) {
        Ok(Program::Known { name, package, .. }) => Some(tool(name, package)),
        _ => None,
    };
    plain.filter_map(program).collect()
}

/// What the layers of storage are built with.
fn layer_tools() -> impl Iterator<Item = Tool> {
    let all = machine::stack::programs().into_iter();
    let others = all.filter(|program| NEEDED.iter().all(|needed| needed.program != program.name));
    others.map(|program| Tool { program: program.name, also: program.also, package: program.package })
}

/// Modules that lead from the initramfs to the root filesystem, and what for.
const TO_THE_ROOT: [(&str, &str); 4] = [
    ("virtio_pci", "reaches its devices through it"),
    ("virtio_blk", "has its root filesystem on it"),
    ("ext4", "has its root filesystem in it"),
    ("overlay", "keeps what it writes in memory with it"),
];

/// The same where a kernel may have it built in under another name.
const TO_THE_ROOT_IF_THERE: [&str; 1] = ["crc32c_generic"];

/// Makes the image of a kernel with this program, or finds it in the cache.
///
/// # Errors
/// Where a program is missing, the kernel lacks a module, or there is no space.
pub fn make(
    cache: &Path,
    kernel: &Kernel,
    program: &Path,
    flavour: Flavour,
    talk: &mut dyn FnMut(&str),
) -> Result<Image> {
    let contents = Contents::gather(program, flavour)?;
    let digest = contents.digest(kernel)?;
    let folder = cache.join(&digest);
    let image = Image {
        kernel: kernel.clone(),
        initramfs: folder.join("initramfs"),
        root: folder.join("root.ext4"),
        missing: contents.missing.clone(),
        digest,
    };
    if folder.exists() {
        let Some(why) = damage(&folder) else {
            // Its time says which images are in use.
            let _ = fs::File::open(&folder).and_then(|f| f.set_modified(std::time::SystemTime::now()));
            return Ok(image);
        };
        talk(&format!("the guest image `{}` is damaged: {why}; it is built anew", folder.display()));
    }
    let with = match flavour {
        Flavour::Plain => "",
        Flavour::Databases => ", with databases",
    };
    talk(&format!("building the guest image of {}{with}", kernel.release));
    let staged = staging::begin(cache)?;
    build(staged.folder(), kernel, &contents)?;
    staging::publish(&staged, "image", &folder, |there| damage(there).is_none())?;
    drop_oldest(cache);
    Ok(image)
}

/// What is wrong with an image in the cache, where something is.
fn damage(folder: &Path) -> Option<String> {
    match digest::check_sums(folder, &["initramfs", "root.ext4"]) {
        Checked::Whole => None,
        Checked::NoSums => Some("it has no sums".to_owned()),
        Checked::Damaged(why) => Some(why),
    }
}

/// What is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The image's name.
    pub digest: String,
    /// The kernel's release.
    pub kernel: String,
    /// Its size on disk, in bytes.
    pub size: u64,
}

impl Stored {
    /// In one line.
    pub fn in_words(&self) -> String {
        format!("{}  {:32} {}", self.digest, self.kernel, Bytes::new(self.size))
    }
}

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// Images as JSON.
pub fn as_json(images: &[Stored]) -> String {
    let rows = images.iter().map(|i| json!({ "digest": i.digest, "kernel": i.kernel, "bytes": i.size }));
    json!({ "schema": SCHEMA, "images": rows.collect::<Vec<_>>() }).to_string()
}

/// Lists the images in the cache, newest first.
pub fn list(cache: &Path) -> Vec<Stored> {
    let stored = |folder: PathBuf| {
        let kernel = fs::read_to_string(folder.join("kernel")).ok()?;
        let files = fs::read_dir(&folder).ok()?.flatten();
        let size = files.filter_map(|f| Some(f.metadata().ok()?.blocks() * 512)).sum();
        Some(Stored { digest: folder.file_name()?.to_string_lossy().into_owned(), kernel, size })
    };
    by_age(cache).into_iter().filter_map(stored).collect()
}

fn by_age(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let is_image = |path: &PathBuf| path.join("root.ext4").exists();
    let mut all: Vec<(std::time::SystemTime, PathBuf)> = entries
        .map(|e| e.path())
        .filter(is_image)
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    order::by(&mut all, |a, b| b.cmp(a));
    all.into_iter().map(|(_, path)| path).collect()
}

fn drop_oldest(cache: &Path) {
    for old in by_age(cache).into_iter().skip(KEPT) {
        // A guest that runs has its files open.
        let _ = fs::remove_dir_all(old);
    }
}

/// Files of this host that the guest gets, by their path there.
struct Contents {
    files: BTreeMap<PathBuf, PathBuf>,
    /// Those of them whose libraries it gets too.
    programs: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
    missing: Vec<String>,
}

impl Contents {
    fn gather(program: &Path, flavour: Flavour) -> Result<Self> {
        let mut all = Self {
            files: BTreeMap::new(),
            programs: BTreeSet::new(),
            links: BTreeMap::new(),
            missing: Vec::new(),
        };
        all.add(program, Path::new(PROGRAM))?;
        for tool in &NEEDED {
            let found = programs::find(tool.program).ok_or_else(|| Error::MissingProgram {
                doing: "build a guest image".into(),
                program: tool.program.into(),
                package: tool.package,
            })?;
            all.add_tool(tool, &found)?;
        }
        let others: Vec<Tool> = workload_tools().into_iter().chain(layer_tools()).chain(OFFERED).collect();
        for tool in &others {
            match programs::find(tool.program) {
                Some(found) => all.add_tool(tool, &found)?,
                None => all.missing.push(tool.told()),
            }
        }
        match flavour {
            Flavour::Plain => {}
            Flavour::Databases => databases::add(&mut all)?,
        }
        for name in ["modprobe", "insmod", "lsmod", "rmmod", "modinfo", "depmod"] {
            all.links.insert(Path::new("/usr/sbin").join(name), "/usr/bin/kmod".into());
        }
        // Asked for all at once: each question starts a shell and a loader.
        for library in libraries(&all.programs)? {
            all.files.insert(merged(&library), library);
        }
        Ok(all)
    }

    fn add_tool(&mut self, tool: &Tool, found: &Path) -> Result<()> {
        let at = Path::new("/usr/bin").join(tool.program);
        self.add(found, &at)?;
        self.links.extend(tool.also.iter().map(|name| (Path::new("/usr/bin").join(name), at.clone())));
        Ok(())
    }

    /// Adds a program, which gets the libraries that it is linked with.
    fn add(&mut self, file: &Path, at: &Path) -> Result<()> {
        let real = fs::canonicalize(file).map_err(|e| Error::file("find", file, e))?;
        self.programs.insert(real.clone());
        self.files.insert(at.to_owned(), real);
        Ok(())
    }

    /// A name for everything in the image: each file by its path, size and time of change.
    fn digest(&self, kernel: &Kernel) -> Result<String> {
        let mut text = format!("{RECIPE} {}\n", kernel.release);
        for (at, file) in self.files.iter().chain([(&PathBuf::from("vmlinux"), &kernel.vmlinux)]) {
            let m = fs::metadata(file).map_err(|e| Error::file("look at", file, e))?;
            let (size, seconds, nanos) = (m.len(), m.mtime(), m.mtime_nsec());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {} {size} {seconds}.{nanos}", at.display(), file.display());
        }
        Ok(digest::of_text(&text))
    }
}

/// The path of a file where `/lib` and `/lib64` are links into `/usr`, as in the guest.
fn merged(path: &Path) -> PathBuf {
    if path.starts_with("/usr") {
        path.to_owned()
    } else {
        Path::new("/usr").join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// The libraries of programs, the loader among them. A program that is static has none.
fn libraries<'p>(of: impl IntoIterator<Item = &'p PathBuf>) -> Result<Vec<PathBuf>> {
    let of: Vec<String> = of.into_iter().map(|program| program.display().to_string()).collect();
    let output = programs::run("ldd", "libc-bin", &of.iter().map(String::as_str).collect::<Vec<_>>(), None)?;
    // Of several each has a line of its own before its libraries, which are indented. It ends with an error
    // where one is static.
    let text = output.printed();
    let path = |line: &str| line.split_whitespace().map(PathBuf::from).find(|word| word.is_absolute());
    let indented = text.lines().filter(|line| line.starts_with(char::is_whitespace));
    Ok(indented.filter_map(path).collect())
}

fn build(folder: &Path, kernel: &Kernel, contents: &Contents) -> Result<()> {
    let image = folder.join("image");
    make_folder(&image)?;
    let tree = folder.join("tree");
    skeleton(&tree)?;
    for (at, file) in &contents.files {
        copy(file, &below(&tree, at))?;
    }
    for (at, to) in &contents.links {
        link(to, &below(&tree, at))?;
    }
    let applets = programs::run("busybox", "busybox-static", &["--list"], None)?;
    for name in programs::check("list busybox's commands", applets)?.lines() {
        let at = below(&tree, &Path::new("/usr/bin").join(name));
        // The real one, which may be a link to where the guest will have it.
        let real = below(&tree, &Path::new("/usr/sbin").join(name));
        if !at.exists() && real.symlink_metadata().is_err() {
            link(Path::new("/usr/bin/busybox"), &at)?;
        }
    }
    let modules = Modules::read(kernel)?;
    copy_modules(&modules, &tree)?;
    initramfs(&modules, &tree, &image.join("initramfs"))?;
    filesystem(&tree, &image.join("root.ext4"))?;
    fs::write(image.join("kernel"), &kernel.release).map_err(|e| Error::file("write", &image, e))?;
    digest::write_sums(&image).map_err(|e| Error::file("write the sums of", &image, e))
}

/// The folders, links and small files that programs expect.
fn skeleton(tree: &Path) -> Result<()> {
    for folder in [
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "var/lib",
        "var/log",
        "root",
        "mnt",
    ] {
        make_folder(&tree.join(folder))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        link(&Path::new("usr").join(name), &tree.join(name))?;
    }
    for (name, text) in [
        ("passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
        ("group", "root:x:0:\nnogroup:x:65534:\n"),
        ("hostname", "lab\n"),
        ("hosts", "127.0.0.1 localhost lab\n"),
        ("os-release", "NAME=\"Flyball lab\"\nPRETTY_NAME=\"Flyball lab\"\nID=flyball-lab\n"),
        ("mdadm.conf", "AUTO -all\n"),
        ("fstab", ""),
    ] {
        write(&tree.join("etc").join(name), text)?;
    }
    link(Path::new("/proc/self/mounts"), &tree.join("etc/mtab"))
}

/// Folders of a kernel's modules that a guest may need, and single modules of others.
fn is_of_use(path: &str) -> bool {
    const FOLDERS: [&str; 18] = [
        "crypto/",
        "lib/",
        "arch/x86/crypto/",
        "arch/x86/kernel/",
        "drivers/md/",
        "drivers/virtio/",
        "drivers/cpufreq/",
        "drivers/nvme/host/",
        "drivers/nvme/common/",
        "drivers/block/null_blk/",
        "drivers/dax/",
        "drivers/acpi/",
        "fs/ext4/",
        "fs/jbd2/",
        "fs/xfs/",
        "fs/btrfs/",
        "fs/overlayfs/",
        "fs/nls/",
    ];
    const SINGLE: [&str; 23] = [
        "drivers/block/virtio_blk",
        "drivers/block/loop",
        "drivers/block/brd",
        "drivers/char/virtio_console",
        "drivers/scsi/scsi_mod",
        "drivers/scsi/scsi_common",
        "drivers/scsi/sd_mod",
        "drivers/scsi/virtio_scsi",
        "drivers/scsi/scsi_debug",
        "drivers/scsi/sg",
        "fs/mbcache",
        "block/",
        "drivers/char/hw_random/",
        "drivers/base/regmap/",
        "arch/x86/events/",
        "drivers/net/virtio_net",
        "drivers/net/veth",
        "net/sched/sch_netem",
        "net/sched/sch_tbf",
        "net/core/failover",
        "drivers/net/net_failover",
        "drivers/thermal/",
        "drivers/powercap/",
    ];
    FOLDERS.iter().chain(&SINGLE).any(|prefix| path.starts_with(prefix))
}

fn copy_modules(modules: &Modules, tree: &Path) -> Result<()> {
    let to = tree.join("usr/lib/modules").join(&modules.release);
    let of_use = modules.needs.values().filter(|(file, _)| is_of_use(file.trim_start_matches("kernel/")));
    let all: BTreeSet<&String> = of_use.flat_map(|(file, needed)| needed.iter().chain([file])).collect();
    let mut packed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in all {
        copy(&modules.folder.join(file), &to.join(file))?;
        if let Some((_, kind)) = file.rsplit_once(".ko.") {
            packed.entry(kind).or_default().push(to.join(file).display().to_string());
        }
    }
    // An emulated CPU takes as long to unpack a module as for all else that loading it takes.
    for (kind, files) in packed {
        let Some((program, package, options)) = unpacker(kind) else { continue };
        let arguments = options.iter().copied().chain(files.iter().map(String::as_str));
        let output = programs::run(program, package, &arguments.collect::<Vec<_>>(), None)?;
        programs::check("unpack the kernel's modules", output)?;
    }
    for name in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        let file = modules.folder.join(name);
        if file.exists() {
            copy(&file, &to.join(name))?;
        }
    }
    let base = tree.join("usr").display().to_string();
    let output = programs::run("depmod", "kmod", &["-b", &base, &modules.release], None)?;
    programs::check("list what the kernel's modules depend on", output).map(drop)
}

/// What a kernel's modules depend on, by `modules.dep`.
struct Modules {
    release: String,
    folder: PathBuf,
    /// Name to file and the files that it needs, nearest first.
    needs: BTreeMap<String, (String, Vec<String>)>,
    builtin: BTreeSet<String>,
}

impl Modules {
    fn read(kernel: &Kernel) -> Result<Self> {
        let folder = kernel.modules.clone();
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))
        };
        let needs = text("modules.dep")?
            .lines()
            .filter_map(|line| {
                let (file, needed) = line.split_once(':')?;
                let needed = needed.split_whitespace().map(str::to_owned).collect();
                Some((module_name(file), (file.to_owned(), needed)))
            })
            .collect();
        let builtin = text("modules.builtin").unwrap_or_default().lines().map(module_name).collect();
        Ok(Self { release: kernel.release.clone(), folder, needs, builtin })
    }

    /// The files to load for this module, in order; none where it is built in.
    fn chain(&self, module: &str, purpose: &'static str) -> Result<Vec<String>> {
        if self.builtin.contains(module) {
            return Ok(Vec::new());
        }
        let (file, needed) = self.needs.get(module).ok_or_else(|| Error::NoModule {
            release: self.release.clone(),
            module: module.to_owned(),
            purpose,
        })?;
        Ok(needed.iter().rev().chain([file]).cloned().collect())
    }
}

/// `kernel/drivers/block/virtio_blk.ko.xz` is `virtio_blk`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

/// Mounts the root filesystem below what the guest writes, and starts this program there.
const INIT: &str = r#"#!/usr/bin/busybox sh
export PATH=/usr/bin
fail() {
    echo "flyball: the guest cannot start: $1"
    busybox poweroff -f
}
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
while read -r module; do
    busybox insmod "$module" || fail "the module $module cannot be loaded"
done < /modules/order
tries=0
while [ ! -b /dev/vda ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail "the root disk did not appear"
    busybox usleep 10000
done
busybox mount -t ext4 -o ro /dev/vda /lower || fail "the root filesystem cannot be mounted"
busybox mount -t tmpfs -o size=90% tmpfs /memory
busybox mkdir /memory/upper /memory/work
busybox mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root ||
    fail "the overlay cannot be mounted"
busybox umount /sys /proc
busybox mount -o move /dev /root/dev
exec busybox switch_root /root /usr/bin/flyball lab-guest
"#;

fn initramfs(modules: &Modules, tree: &Path, to: &Path) -> Result<()> {
    let mut order: Vec<String> = Vec::new();
    let optional = TO_THE_ROOT_IF_THERE.iter().filter(|name| modules.needs.contains_key(**name));
    for (module, purpose) in optional.map(|m| (*m, "")).chain(TO_THE_ROOT) {
        for file in modules.chain(module, purpose)? {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    let mut archive = Archive::new();
    for folder in
        ["dev", "proc", "sys", "usr", "usr/bin", "usr/lib", "usr/lib64", "modules", "lower", "memory", "root"]
    {
        archive.folder(folder);
    }
    for name in ["lib", "lib64", "bin"] {
        archive.link(name, &format!("usr/{name}"));
    }
    let busybox = tree.join("usr/bin/busybox");
    archive.file("usr/bin/busybox", &read(&busybox)?, 0o755);
    for library in libraries([&busybox])? {
        let at = merged(&library);
        let at = at.strip_prefix("/").unwrap_or(&at).to_owned();
        for folder in at.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            archive.folder(&folder.to_string_lossy());
        }
        archive.file(&at.to_string_lossy(), &read(&library)?, 0o755);
    }
    let mut list = String::new();
    for file in &order {
        let name = format!("{}.ko", module_name(file));
        archive.file(&format!("modules/{name}"), &unpacked(&modules.folder.join(file))?, 0o644);
        // Writing to a String cannot fail.
        let _ = writeln!(list, "/modules/{name}");
    }
    archive.file("modules/order", list.as_bytes(), 0o644);
    archive.file("init", INIT.as_bytes(), 0o755);
    fs::write(to, archive.finish()?).map_err(|e| Error::file("write", to, e))
}

/// What unpacks modules with this ending: the program, its package, and the options by which it leaves the
/// unpacked ones in the place of the others.
fn unpacker(kind: &str) -> Option<(&'static str, &'static str, &'static [&'static str])> {
    match kind {
        "xz" => Some(("xz", "xz-utils", &["-d"])),
        "zst" => Some(("zstd", "zstd", &["-d", "-q", "--rm"])),
        "gz" => Some(("gzip", "gzip", &["-d"])),
        _ => None,
    }
}

/// A module as the kernel takes it.
fn unpacked(module: &Path) -> Result<Vec<u8>> {
    let bytes = read(module)?;
    let kind = module.extension().and_then(|extension| extension.to_str());
    let Some((program, package, _)) = kind.and_then(unpacker) else { return Ok(bytes) };
    programs::check_bytes("unpack a module", programs::filter(program, package, &["-dc"], &bytes)?)
}

/// An archive as the kernel unpacks it (`Documentation/driver-api/early-userspace/buffer-format.rst`).
struct Archive {
    bytes: Vec<u8>,
    known: BTreeSet<String>,
}

impl Archive {
    fn new() -> Self {
        Self { bytes: Vec::new(), known: BTreeSet::new() }
    }

    fn folder(&mut self, name: &str) {
        if !name.is_empty() {
            self.entry(name, &[], 0o040_755);
        }
    }

    fn link(&mut self, name: &str, to: &str) {
        self.entry(name, to.as_bytes(), 0o120_777);
    }

    fn file(&mut self, name: &str, content: &[u8], mode: u32) {
        self.entry(name, content, 0o100_000 | mode);
    }

    fn entry(&mut self, name: &str, content: &[u8], mode: u32) {
        if !self.known.insert(name.to_owned()) {
            return;
        }
        let ino = u32::try_from(self.known.len()).expect("an initramfs of some dozen files");
        let size = u32::try_from(content.len()).expect("no module is larger than 4 GiB");
        let header = cpio::newc::Builder::new(name).ino(ino).mode(mode).nlink(1);
        let mut writer = header.write(&mut self.bytes, size);
        let written = std::io::Write::write_all(&mut writer, content);
        written.and_then(|()| writer.finish().map(drop)).expect("writing to memory cannot fail");
    }

    fn finish(self) -> Result<Vec<u8>> {
        cpio::newc::trailer(self.bytes).map_err(|e| Error::system("finish an initramfs", e))
    }
}

/// Room for what mke2fs itself needs: inode tables, bitmaps and a directory's slack.
const SLACK: u64 = 24 << 20;

fn filesystem(tree: &Path, to: &Path) -> Result<()> {
    let files = files_below(tree)?;
    let sizes = files.iter().filter_map(|f| Some(fs::symlink_metadata(f).ok()?.len().next_multiple_of(4096)));
    let size = (sizes.sum::<u64>() + SLACK) / 1024;
    let (tree, to) = (tree.display().to_string(), to.display().to_string());
    let arguments = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-m",
        "0",
        "-O",
        "^has_journal,^metadata_csum,^64bit,^resize_inode",
        "-E",
        "root_owner=0:0",
        "-d",
        &tree,
        &to,
        &format!("{size}k"),
    ];
    let output = programs::run("mke2fs", "e2fsprogs", &arguments, None)?;
    programs::check("make the guest's root filesystem", output).map(drop)
}

fn below(tree: &Path, at: &Path) -> PathBuf {
    tree.join(at.strip_prefix("/").unwrap_or(at))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| Error::file("list", folder, e))? {
        let entry = entry.map_err(|e| Error::file("list", folder, e))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(files_below(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::file("make", path, e))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_folder(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map_err(|e| Error::file("copy", from, e))?;
    let mode = fs::metadata(to).map_err(|e| Error::file("look at", to, e))?.permissions().mode();
    // The guest's root is not who owns the file here.
    let readable = fs::Permissions::from_mode(mode | 0o444);
    fs::set_permissions(to, readable).map_err(|e| Error::file("change", to, e))
}

fn link(to: &Path, at: &Path) -> Result<()> {
    make_folder(at.parent().unwrap_or(at))?;
    symlink(to, at).map_err(|e| Error::file("make", at, e))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::file("write", path, e))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::file("read", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_below_usr_in_the_guest() {
        assert_eq!(
            merged(Path::new("/lib64/ld-linux-x86-64.so.2")),
            Path::new("/usr/lib64/ld-linux-x86-64.so.2")
        );
        assert_eq!(merged(Path::new("/usr/lib/x.so")), Path::new("/usr/lib/x.so"));
    }

    #[test]
    fn modules_go_by_the_names_that_the_kernel_uses() {
        assert_eq!(module_name("kernel/drivers/md/dm-crypt.ko.xz"), "dm_crypt");
        assert_eq!(module_name("kernel/fs/ext4/ext4.ko"), "ext4");
    }

    /// A kernel that has all that leads to the root filesystem built in.
    fn kernel(folder: &Path) -> Kernel {
        let (vmlinux, modules) = (folder.join("vmlinux"), folder.join("modules"));
        make_folder(&modules).unwrap();
        write(&vmlinux, "a kernel").unwrap();
        let builtin = TO_THE_ROOT.map(|(module, _)| format!("kernel/{module}.ko\n")).concat();
        for (name, text) in [("modules.dep", ""), ("modules.builtin", &builtin), ("modules.order", "")] {
            write(&modules.join(name), text).unwrap();
        }
        Kernel { release: "6.1.0-1-amd64".into(), vmlinux, modules }
    }

    #[test]
    fn an_image_that_was_damaged_in_the_cache_is_told_and_built_anew() {
        if NEEDED.iter().any(|tool| programs::find(tool.program).is_none()) {
            // As the lab itself would say.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (cache, kernel) = (folder.path().join("images"), kernel(folder.path()));
        let program = programs::find("busybox").unwrap();
        let mut told = Vec::new();
        let mut make = || {
            told.clear();
            let made =
                make(&cache, &kernel, &program, Flavour::Plain, &mut |text| told.push(text.to_owned()));
            (made.unwrap(), told.clone())
        };
        let (first, told) = make();
        assert_eq!(told, ["building the guest image of 6.1.0-1-amd64"]);
        assert_eq!(make().1, [""; 0]);
        for file in [&first.root, &first.initramfs] {
            let mut bytes = read(file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(file, &bytes).unwrap();
            let (again, told) = make();
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(told[0].contains("is damaged") && told[0].contains(name), "{told:?}");
            assert_eq!((&again, damage(file.parent().unwrap())), (&first, None));
            assert_ne!(read(file).unwrap(), bytes);
            assert_eq!(make().1, [""; 0], "it is built once");
        }
        assert_eq!(list(&cache).len(), 1, "what was damaged is left");
    }

    #[test]
    fn the_root_filesystem_needs_modules_in_their_order() {
        let needs = BTreeMap::from([(
            "ext4".to_owned(),
            ("e.ko".to_owned(), vec!["jbd2.ko".to_owned(), "crc16.ko".to_owned()]),
        )]);
        let modules = Modules {
            release: "6.1".into(),
            folder: PathBuf::new(),
            needs,
            builtin: ["virtio_pci".to_owned()].into(),
        };
        assert_eq!(modules.chain("ext4", "").unwrap(), ["crc16.ko", "jbd2.ko", "e.ko"]);
        assert_eq!(modules.chain("virtio_pci", "").unwrap(), [""; 0]);
        let error = modules.chain("overlay", "writes to it").unwrap_err().to_string();
        assert_eq!(error, "the kernel 6.1 has no module `overlay`, and the guest writes to it");
    }
}
