//! Kernels: from Debian's packages, unpacked and never installed.
//!
//! QEMU starts an ELF `vmlinux` with a PVH entry directly, in a third of the time that the package's
//! compressed image takes; so that is unpacked once (Linux, `Documentation/arch/x86/boot.rst`:
//! `payload_offset`, `payload_length`).

use crate::digest::{self, Checked};
use crate::programs::{self, Output};
use crate::{Error, Result, staging};
use domain::order;
use files::staging::StagingDir;
use serde_json::json;
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel series that are looked for where none is asked for, best first: Debian 13's and 12's.
pub const SERIES: [&str; 2] = ["6.12", "6.1"];

/// A kernel that a guest can be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `6.1.0-56-amd64`, as `uname -r` says it.
    pub release: String,
    /// The uncompressed image.
    pub vmlinux: PathBuf,
    /// The folder that holds its modules, as `lib/modules/RELEASE` does in its package.
    pub modules: PathBuf,
}

/// The kernels in a folder of the cache, and how more come into it.
#[derive(Clone, Debug)]
pub struct Kernels {
    folder: PathBuf,
}

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// A kernel that is there, or could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As `uname -r` would say it.
    pub release: String,
    /// Whether it is unpacked already.
    pub unpacked: bool,
}

impl Listed {
    /// In one line.
    pub fn in_words(&self) -> String {
        let state = if self.unpacked { "unpacked" } else { "can be downloaded" };
        format!("{:32} {state}", self.release)
    }
}

/// Kernels as JSON.
pub fn as_json(kernels: &[Listed]) -> String {
    let rows = kernels.iter().map(|k| json!({ "release": k.release, "unpacked": k.unpacked }));
    json!({ "schema": SCHEMA, "kernels": rows.collect::<Vec<_>>() }).to_string()
}

impl Kernels {
    /// Those in this folder, which need not exist.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The kernel that somebody means by `6.1`, `6.12.57+deb12-amd64`, or a file. One that is not there yet
    /// is downloaded with `apt-get` and unpacked; `talk` is told.
    ///
    /// # Errors
    /// Where there is no such kernel, it cannot be downloaded, or the file is none.
    pub fn get(&self, wanted: &str, talk: &mut dyn FnMut(&str)) -> Result<Kernel> {
        if wanted.contains('/') {
            return self.of_file(Path::new(wanted), talk);
        }
        let matches = |release: &str| is_meant(release, wanted);
        let unpacked = newest(self.unpacked()?.into_iter().filter(|r| matches(r)));
        if let Some(release) = &unpacked
            && is_whole(&self.folder.join(release), "vmlinux", talk)?
        {
            return self.open(release);
        }
        let offered: Vec<String> = offered()?.into_iter().filter(|r| matches(r)).collect();
        let same = unpacked.clone().filter(|release| offered.contains(release));
        let Some(release) = same.or_else(|| newest(offered.into_iter())) else {
            let why = match unpacked {
                Some(release) => {
                    format!("what is unpacked of {release} is damaged, and no apt source offers it")
                }
                None => "it is not unpacked here, and no apt source of this machine offers it".to_owned(),
            };
            return Err(Error::NoKernel { wanted: wanted.to_owned(), why });
        };
        talk(&format!("downloading the kernel {release}; it is unpacked, not installed"));
        self.download(&release)?;
        self.open(&release)
    }

    /// The kernel of a study that asks for none: the newest unpacked of [`SERIES`], else what can be
    /// downloaded.
    ///
    /// # Errors
    /// As [`Kernels::get`].
    pub fn get_default(&self, talk: &mut dyn FnMut(&str)) -> Result<Kernel> {
        let unpacked = self.unpacked()?;
        let is_there = |series: &&&str| unpacked.iter().any(|release| is_meant(release, series));
        if let Some(series) = SERIES.iter().find(is_there) {
            return self.get(series, talk);
        }
        let offered = offered()?;
        let series = SERIES.iter().find(|s| offered.iter().any(|release| is_meant(release, s)));
        self.get(series.unwrap_or(&SERIES[0]), talk)
    }

    /// What is there and what apt offers, oldest first.
    ///
    /// # Errors
    /// Where the folder cannot be listed. Without apt, only what is unpacked is listed.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let unpacked = self.unpacked()?;
        let mut all: Vec<String> = unpacked.clone();
        all.extend(offered().unwrap_or_default());
        order::by(&mut all, |a, b| by_version(a, b));
        all.dedup();
        Ok(all.into_iter().map(|release| Listed { unpacked: unpacked.contains(&release), release }).collect())
    }

    fn unpacked(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::file("list", &self.folder, e)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| self.folder.join(name).join("vmlinux").exists()).collect())
    }

    fn open(&self, release: &str) -> Result<Kernel> {
        let folder = self.folder.join(release);
        let modules = folder.join("lib/modules").join(release);
        let modules = if modules.exists() { modules } else { folder.join("usr/lib/modules").join(release) };
        let kernel = Kernel { release: release.to_owned(), vmlinux: folder.join("vmlinux"), modules };
        check_folder(&kernel)?;
        Ok(kernel)
    }

    fn download(&self, release: &str) -> Result<()> {
        let staged = staging::begin(&self.folder)?;
        let package = format!("linux-image-{release}");
        programs::check(
            "download a kernel",
            programs::run("apt-get", "apt", &["download", &package], Some(staged.folder()))?,
        )?;
        let deb = fs::read_dir(staged.folder())
            .map_err(|e| Error::file("list", staged.folder(), e))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|e| e == "deb"));
        let Some(deb) = deb else {
            let why = "apt-get said it had downloaded the package, and left none".to_owned();
            return Err(Error::NoKernel { wanted: release.to_owned(), why });
        };
        self.unpack(&deb, &staged).map(drop)
    }

    /// Unpacks a Debian package in the folder `staged`, of which a part becomes the kernel's own.
    fn unpack(&self, deb: &Path, staged: &StagingDir) -> Result<String> {
        let tree = staged.folder().join("tree");
        let arguments = ["-x", &deb.display().to_string(), &tree.display().to_string()];
        programs::check("unpack a kernel's package", programs::run("dpkg-deb", "dpkg", &arguments, None)?)?;
        let boot = tree.join("boot");
        let vmlinuz = fs::read_dir(&boot)
            .map_err(|e| Error::file("list", &boot, e))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz-")))
            .ok_or_else(|| bad(deb, "its package has no `boot/vmlinuz-…`"))?;
        let release = release_of_file_name(&vmlinuz);
        unpack_image(&vmlinuz, &tree.join("vmlinux"))?;
        fs::remove_dir_all(&boot).map_err(|e| Error::file("remove", &boot, e))?;
        let base = if tree.join("lib/modules").exists() { tree.clone() } else { tree.join("usr") };
        let arguments = ["-b", &base.display().to_string(), &release];
        programs::check(
            "list what a kernel's modules depend on",
            programs::run("depmod", "kmod", &arguments, None)?,
        )?;
        write_sums(&tree)?;
        staging::publish(staged, "tree", &self.folder.join(&release), |home| is_good(home, "vmlinux"))?;
        Ok(release)
    }

    fn of_file(&self, path: &Path, talk: &mut dyn FnMut(&str)) -> Result<Kernel> {
        if !path.is_file() {
            let why = "there is no such file".to_owned();
            return Err(Error::NoKernel { wanted: path.display().to_string(), why });
        }
        if path.extension().is_some_and(|e| e == "deb") {
            let release = self.unpack(path, &staging::begin(&self.folder)?)?;
            return self.open(&release);
        }
        let bytes = read(path)?;
        let image = Image::parse(&bytes).map_err(|why| bad(path, &why))?;
        let release = image.release.clone();
        let near = path.parent().and_then(Path::parent).map(|root| root.join("lib/modules").join(&release));
        let modules =
            near.filter(|folder| folder.exists()).unwrap_or_else(|| Path::new("/lib/modules").join(&release));
        if !modules.exists() {
            return Err(bad(path, &format!("the modules of {release} are not in `{}`", modules.display())));
        }
        let digest = digest::of_text(&format!("{} {:?}", path.display(), fs::metadata(path).ok()));
        let folder = self.folder.join(format!("file-{digest}"));
        let vmlinux = folder.join("image");
        if !folder.exists() || !is_whole(&folder, "image", talk)? {
            let staged = staging::begin(&self.folder)?;
            let tree = staged.folder().join("tree");
            fs::create_dir(&tree).map_err(|e| Error::file("make", &tree, e))?;
            unpack_image(path, &tree.join("image"))?;
            write_sums(&tree)?;
            staging::publish(&staged, "tree", &folder, |there| is_good(there, "image"))?;
        }
        Ok(Kernel { release, vmlinux, modules })
    }
}

/// Whether a kernel in the cache is as it was when it was unpacked; `talk` is told where it is not. One that
/// has no sums is from a version that wrote none, and is taken as it is from now on: it may not be had a
/// second time.
fn is_whole(folder: &Path, image: &str, talk: &mut dyn FnMut(&str)) -> Result<bool> {
    match digest::check_sums(folder, &[image]) {
        Checked::Whole => Ok(true),
        Checked::NoSums if folder.join(image).exists() => write_sums(folder).map(|()| true),
        Checked::NoSums => Ok(false),
        Checked::Damaged(why) => {
            talk(&format!("the kernel in `{}` is damaged: {why}; it is unpacked anew", folder.display()));
            Ok(false)
        }
    }
}

fn is_good(folder: &Path, image: &str) -> bool {
    digest::check_sums(folder, &[image]) == Checked::Whole
}

fn write_sums(folder: &Path) -> Result<()> {
    digest::write_sums(folder).map_err(|e| Error::file("write the sums of", folder, e))
}

fn check_folder(kernel: &Kernel) -> Result<()> {
    for path in [&kernel.vmlinux, &kernel.modules] {
        if !path.exists() {
            let why = "it is damaged; `flyball lab clean` removes it, and it is then unpacked anew";
            return Err(bad(path, why));
        }
    }
    Ok(())
}

fn bad(path: &Path, why: &str) -> Error {
    Error::BadKernel { path: path.to_owned(), why: why.to_owned() }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::file("read", path, e))
}

fn release_of_file_name(vmlinuz: &Path) -> String {
    let name = vmlinuz.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_start_matches("vmlinuz-").to_owned()
}

/// What apt offers: the releases of its kernel packages for ordinary PCs.
fn offered() -> Result<Vec<String>> {
    let output = programs::run("apt-cache", "apt", &["pkgnames", "linux-image-"], None)?;
    let text = programs::check("ask apt for kernels", output)?;
    Ok(text.lines().filter_map(release_of_package).map(str::to_owned).collect())
}

/// `linux-image-6.1.0-56-amd64` names a release; meta packages, debug symbols, and kernels for other machines
/// do not.
fn release_of_package(name: &str) -> Option<&str> {
    let release = name.strip_prefix("linux-image-")?;
    let version = release.strip_suffix("-amd64")?;
    let plain = |c: char| c.is_ascii_digit() || "+.-deb".contains(c);
    let is_release = version.split(['.', '-']).count() >= 3;
    (is_release && version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(plain))
        .then_some(release)
}

/// Whether a release is meant by `6.1`, `6.1.0` or the whole of it; `6.12.1` is no `6.1`.
fn is_meant(release: &str, wanted: &str) -> bool {
    release.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
}

fn newest(releases: impl Iterator<Item = String>) -> Option<String> {
    releases.max_by(|a, b| by_version(a, b))
}

/// Runs of digits are numbers, everything else is text.
fn by_version(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(String, u64)> {
        let mut all = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (text, after) = rest.split_at(word);
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (number, after) = after.split_at(digits);
            all.push((text.to_owned(), number.parse().unwrap_or(0)));
            rest = after;
        }
        all
    };
    parts(a).cmp(&parts(b))
}

/// A compressed kernel image, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Image<'a> {
    release: String,
    payload: &'a [u8],
    compression: Compression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Xz,
    Zstd,
    Gzip,
}

impl<'a> Image<'a> {
    /// Takes a bzImage apart, by the setup header of protocol 2.08 and later.
    fn parse(bytes: &'a [u8]) -> std::result::Result<Self, String> {
        let word =
            |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let half = |at: usize| bytes.get(at..at + 2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])));
        if bytes.get(0x202..0x206) != Some(b"HdrS".as_slice()) {
            return Err("it is no bzImage: the signature `HdrS` is missing".into());
        }
        let short = || "it is cut short".to_owned();
        let sectors = match *bytes.get(0x1f1).ok_or_else(short)? {
            0 => 4,
            n => usize::from(n),
        };
        let begin = (sectors + 1) * 512 + word(0x248).ok_or_else(short)?;
        let length = word(0x24c).ok_or_else(short)?;
        // The length of what is packed follows it, as four bytes that no unpacker knows.
        let end = begin.checked_add(length).and_then(|end| end.checked_sub(4)).ok_or_else(short)?;
        let payload = bytes.get(begin..end).ok_or_else(short)?;
        let compression = match payload {
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [0x1f, 0x8b, ..] => Compression::Gzip,
            _ => return Err("it is packed in a way that is neither xz, zstd nor gzip".into()),
        };
        let name = half(0x20e).map_or(0, |at| at + 0x200);
        let text =
            bytes.get(name..).unwrap_or_default().split(|b| *b == 0 || *b == b' ').next().unwrap_or_default();
        Ok(Self { release: String::from_utf8_lossy(text).into_owned(), payload, compression })
    }
}

/// Writes the ELF image that a bzImage holds; an ELF image is taken as it is.
fn unpack_image(vmlinuz: &Path, to: &Path) -> Result<()> {
    let bytes = read(vmlinuz)?;
    let image = Image::parse(&bytes).map_err(|why| bad(vmlinuz, &why))?;
    let (program, package) = match image.compression {
        Compression::Xz => ("xz", "xz-utils"),
        Compression::Zstd => ("zstd", "zstd"),
        Compression::Gzip => ("gzip", "gzip"),
    };
    let output: Output = programs::filter(program, package, &["-dc"], image.payload)?;
    let elf = programs::check_bytes("unpack a kernel", output)?;
    if !elf.starts_with(b"\x7fELF") {
        return Err(bad(vmlinuz, "what is packed in it is no ELF image"));
    }
    fs::write(to, elf).map_err(|e| Error::file("write", to, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_ordinary_machines_are_told_from_other_packages() {
        for (package, release) in [
            ("linux-image-6.1.0-56-amd64", Some("6.1.0-56-amd64")),
            ("linux-image-6.12.90+deb12.1-amd64", Some("6.12.90+deb12.1-amd64")),
            ("linux-image-6.1.0-56-amd64-unsigned", None),
            ("linux-image-6.1.0-56-rt-amd64", None),
            ("linux-image-6.1.0-56-cloud-amd64", None),
            ("linux-image-amd64", None),
            ("linux-image-6.12-amd64", None),
            ("linux-headers-6.1.0-56-amd64", None),
        ] {
            assert_eq!(release_of_package(package), release, "{package}");
        }
    }

    #[test]
    fn a_series_means_its_own_releases_and_the_newest_of_them() {
        assert!(is_meant("6.1.0-56-amd64", "6.1"));
        assert!(is_meant("6.1.0-56-amd64", "6.1.0-56-amd64"));
        assert!(!is_meant("6.12.57+deb12-amd64", "6.1"));
        let all = ["6.12.57+deb12-amd64", "6.12.117+deb12-amd64", "6.12.90+deb12.1-amd64"];
        assert_eq!(newest(all.map(str::to_owned).into_iter()).as_deref(), Some(all[1]));
    }

    /// A bzImage of a kernel that is only the beginning of one, with its modules beside it.
    fn vmlinuz(root: &Path, release: &str) -> PathBuf {
        let packed = programs::filter("gzip", "gzip", &["-c"], b"\x7fELF and more").unwrap();
        let packed = programs::check_bytes("pack", packed).unwrap();
        let mut image = vec![0_u8; 5 * 512];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        image[0x24c..0x250].copy_from_slice(&(packed.len() as u32 + 4).to_le_bytes());
        image.extend(packed);
        image.extend([0; 4]);
        let path = root.join("boot").join(format!("vmlinuz-{release}"));
        fs::create_dir_all(root.join("boot")).unwrap();
        fs::create_dir_all(root.join("lib/modules").join(release)).unwrap();
        fs::write(&path, image).unwrap();
        path
    }

    #[test]
    fn a_kernel_that_was_damaged_in_the_cache_is_told_and_unpacked_anew() {
        let root = tempfile::tempdir().unwrap();
        let path = vmlinuz(root.path(), "6.1.0-1-amd64");
        let kernels = Kernels::new(&root.path().join("kernels"));
        let mut told = Vec::new();
        let mut get = || {
            told.clear();
            let kernel = kernels.get(path.to_str().unwrap(), &mut |text| told.push(text.to_owned()));
            (kernel.unwrap(), told.clone())
        };
        let (kernel, told) = get();
        assert_eq!(
            (read(&kernel.vmlinux).unwrap().as_slice(), told),
            (b"\x7fELF and more".as_slice(), vec![])
        );
        assert_eq!(get().1, [""; 0]);
        fs::write(&kernel.vmlinux, b"\x7fELF and mope").unwrap();
        let (again, told) = get();
        assert!(told[0].contains("`image` is not what it was"), "{told:?}");
        assert_eq!(again, kernel);
        assert_eq!(read(&kernel.vmlinux).unwrap(), b"\x7fELF and more");
    }

    #[test]
    fn a_damaged_kernel_that_nobody_offers_is_not_started() {
        let root = tempfile::tempdir().unwrap();
        // No series of Debian's.
        let release = "0.0.1-1-amd64";
        let modules = root.path().join(release).join("lib/modules").join(release);
        fs::create_dir_all(&modules).unwrap();
        let (vmlinux, module) = (root.path().join(release).join("vmlinux"), modules.join("a.ko"));
        fs::write(&vmlinux, "a kernel").unwrap();
        fs::write(&module, "a module").unwrap();
        let kernels = Kernels::new(root.path());
        // Of a version that wrote no sums.
        kernels.get(release, &mut |_| {}).unwrap();
        for (file, text) in [(&vmlinux, "a kernel"), (&module, "a module")] {
            fs::write(file, "damaged").unwrap();
            let mut told = String::new();
            let error = kernels.get(release, &mut |text| told.push_str(text));
            let Err(error) = error else { panic!("it is given all the same") };
            assert!(told.contains("is damaged"), "{told}");
            assert!(matches!(error, Error::NoKernel { .. } | Error::MissingProgram { .. }), "{error}");
            fs::write(file, text).unwrap();
            kernels.get(release, &mut |_| {}).unwrap();
        }
    }

    #[test]
    fn what_is_no_kernel_is_told() {
        assert!(Image::parse(b"").unwrap_err().contains("HdrS"));
        let mut image = vec![0_u8; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        assert_eq!(Image::parse(&image).unwrap_err(), "it is cut short");
        image[0x248] = 0;
        image[0x24c] = 8;
        image.resize(5 * 512 + 64, 0);
        assert!(Image::parse(&image).unwrap_err().contains("packed"));
        image[5 * 512..5 * 512 + 2].copy_from_slice(&[0x1f, 0x8b]);
        assert_eq!(Image::parse(&image).unwrap().compression, Compression::Gzip);
    }
}
