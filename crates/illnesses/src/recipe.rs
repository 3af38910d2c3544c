//! What a simulated machine, its storage and its load are made of, and the two files that say so: a machine
//! file and a study of one cell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The driver that chooses frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Acpi,
    IntelPstate,
    IntelHwp,
    /// None: the CPUs have one frequency.
    None,
}

/// The CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpu {
    pub count: u32,
    pub driver: Driver,
    pub governor: &'static str,
    pub epp: &'static str,
    /// Lowest, base and highest frequency.
    pub mhz: [u32; 3],
    /// Exit latency of the deepest idle state, in microseconds; 0: there is no deep one.
    pub deep_us: u32,
}

/// A kind of disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    Hdd,
    Sata,
    Nvme,
}

/// Disks and how they are put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub level: u32,
    pub members: u32,
    pub chunk_kib: u32,
    /// What one bit of the bitmap stands for; `None`: no bitmap.
    pub bitmap_kib: Option<u32>,
    pub missing: u32,
    /// It is synchronised beside the load.
    pub resyncs: bool,
}

impl Array {
    pub const fn has_parity(&self) -> bool {
        matches!(self.level, 5 | 6)
    }
}

/// dm-crypt.
#[derive(Clone, Debug, PartialEq)]
pub struct Crypt {
    pub sector: u32,
    pub has_queues: bool,
    /// The CPU has instructions for the cipher.
    pub has_instructions: bool,
}

/// A filesystem.
#[derive(Clone, Debug, PartialEq)]
pub struct Filesystem {
    pub data: &'static str,
    /// On a disk of its own.
    pub has_own_journal: bool,
}

/// fio's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub access: &'static str,
    pub block_kib: u32,
    pub depth: u32,
    pub is_direct: bool,
    pub is_synced: bool,
    /// At most so many requests a second; 0: as fast as it goes.
    pub rate: u32,
}

impl Load {
    pub fn writes(&self) -> bool {
        self.access.contains("write")
    }

    /// Writes in order into the page cache, which nobody waits for: the kernel writes back what lies side by
    /// side, and no write is less than a stripe but the last.
    pub fn writes_whole_stripes(&self) -> bool {
        self.access == "write" && !self.is_direct && !self.is_synced
    }

    pub fn is_random(&self) -> bool {
        self.access.starts_with("rand")
    }
}

/// A machine with its storage and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    pub name: String,
    pub cpu: Cpu,
    pub disk: Disk,
    /// The last disk is of a slower model than the others.
    pub slow_member: bool,
    pub array: Option<Array>,
    pub crypt: Option<Crypt>,
    pub filesystem: Option<Filesystem>,
    pub load: Load,
    /// Settings in force, by name.
    pub settings: BTreeMap<String, String>,
}

/// What differs between benches in the study of a machine.
pub struct Means<'a> {
    /// The source of the devices of a layer, by its name: a line of its table.
    pub devices: &'a dyn Fn(&str) -> String,
    /// The size of the file.
    pub file: &'a str,
    pub runtime: &'a str,
    pub repeats: u32,
    /// Settings that are keys of the array's table, where it lies below something else and has a name of its
    /// own.
    pub of_array: &'a [&'a str],
}

/// The file that a load works on, where there is a filesystem.
const FILE: &str = "4GiB";

impl Recipe {
    pub fn disks(&self) -> u32 {
        self.array.as_ref().map_or(1, |array| array.members)
    }

    pub fn has_journal_disk(&self) -> bool {
        self.filesystem.as_ref().is_some_and(|fs| fs.has_own_journal)
    }

    const fn model(&self) -> (&'static str, &'static str, u32, &'static str) {
        match self.disk {
            Disk::Hdd => ("plain-7200", "mq-deadline", 32, "40GiB"),
            Disk::Sata => ("samsung-850-evo", "mq-deadline", 32, "20GiB"),
            Disk::Nvme => ("pm9a3-3840gb", "none", 1023, "20GiB"),
        }
    }

    /// The machine file.
    pub fn machine(&self) -> String {
        let Cpu { count, driver, governor, epp, mhz: [low, base, high], deep_us } = &self.cpu;
        let (driver, with_epp) = match driver {
            Driver::Acpi => ("acpi-cpufreq", String::new()),
            Driver::IntelPstate => ("intel_pstate", String::new()),
            Driver::IntelHwp => ("intel_pstate-hwp", format!("epp = \"{epp}\"\n")),
            Driver::None => unreachable!("each simulated machine has a driver"),
        };
        let states: Vec<String> = (0..=4)
            .map(|step| {
                // Intel's driver asks for multiples of 100 MHz.
                let mhz = (low + (high - low) * step / 4) / 100 * 100;
                format!("{{ mhz = {mhz}, busy_watts = {:.1}, idle_watts = 0.7 }}", f64::from(mhz) / 400.0)
            })
            .collect();
        let mut text = format!(
            "flyball_machine = 1\nname = \"{}\"\nabout = \"a machine of the test\"\nkernel = \"6.1.0\"\nhz = 250\nmemory = \"2 GiB\"\n\n\
             [cpu]\nmodel = \"a CPU\"\nsource = \"assumed\"\ncount = {count}\ndriver = \"{driver}\"\ngovernor = \"{governor}\"\n\
             {with_epp}base_mhz = {}\ntransition = \"10 us\"\nstate = [{}]\n",
            self.name,
            base / 100 * 100,
            states.join(", ")
        );
        text += "[[cpu.idle]]\nname = \"C1\"\nexit_latency = \"2 us\"\ntarget_residency = \"2 us\"\nwatts = 1.0\n";
        if *deep_us > 0 {
            let _ = writeln!(
                text,
                "[[cpu.idle]]\nname = \"C6\"\nexit_latency = \"{deep_us} us\"\ntarget_residency = \"{} us\"\nwatts = 0.2",
                deep_us * 2
            );
        }
        let (model, scheduler, tags, size) = self.model();
        let mut disk = |name: &str, model: &str, count: u32| {
            let _ = writeln!(
                text,
                "\n[[disk]]\nname = \"{name}\"\nmodel = \"{model}\"\ncount = {count}\nsize = \"{size}\"\nscheduler = \"{scheduler}\"\ntags = {tags}\nsource = \"assumed\""
            );
        };
        let alike = self.disks() - u32::from(self.slow_member);
        disk("disk", model, alike);
        if self.slow_member {
            disk("slow", if self.disk == Disk::Hdd { "maxtor-5400-120gb" } else { "plain-7200" }, 1);
        }
        if self.has_journal_disk() {
            disk("journal", model, 1);
        }
        if self.crypt.as_ref().is_some_and(|crypt| !crypt.has_instructions) {
            text += "\n[cost]\ncrypt_byte = { is = 22, assumed = \"AES in C\" }\n";
        }
        text
    }

    /// The study of one cell, in the simulator.
    pub fn study(&self) -> String {
        let devices = |_: &str| "loop = \"1GiB\"".to_owned();
        self.study_with(&Means {
            devices: &devices,
            file: FILE,
            runtime: self.runtime(),
            repeats: 1,
            of_array: &[],
        })
    }

    /// The study of one cell, with what a bench has.
    pub fn study_with(&self, means: &Means<'_>) -> String {
        let Means { devices, file, runtime, repeats, of_array } = means;
        let mut text = format!("flyball = 1\nname = \"{}\"\nquestion = \"What is slow?\"\n", self.name);
        let mut top = "disks";
        if self.filesystem.is_some() {
            let _ = writeln!(text, "\n[target]\nfile = \"{file}\"");
        }
        let _ = writeln!(
            text,
            "\n[stack.disks]\nkind = \"devices\"\ncount = {}\n{}",
            self.disks(),
            devices("disks")
        );
        if let Some(array) = &self.array {
            let _ = write!(
                text,
                "\n[stack.array]\nkind = \"md\"\non = \"{top}\"\nlevel = {}\nchunk = \"{}KiB\"\nresync = \"{}\"\n",
                array.level,
                array.chunk_kib,
                if array.resyncs { "background" } else { "skip" }
            );
            if array.missing > 0 {
                let _ = writeln!(text, "missing = {}", array.missing);
            }
            let own = self.settings.iter().filter(|(name, _)| of_array.contains(&name.as_str()));
            for (name, value) in own {
                let _ = writeln!(text, "{name} = {value}");
            }
            if let Some(kib) = array.bitmap_kib {
                let _ = writeln!(text, "bitmap = \"internal\"\nbitmap_chunk = \"{kib}KiB\"");
            }
            top = "array";
        }
        if let Some(crypt) = &self.crypt {
            let _ = write!(
                text,
                "\n[stack.vault]\nkind = \"crypt\"\non = \"{top}\"\nsector_size = {}\nno_read_workqueue = {}\nno_write_workqueue = {}\n",
                crypt.sector, !crypt.has_queues, !crypt.has_queues
            );
            top = "vault";
        }
        if let Some(fs) = &self.filesystem {
            if fs.has_own_journal {
                let _ = writeln!(
                    text,
                    "\n[stack.journal]\nkind = \"devices\"\ncount = 1\n{}",
                    devices("journal")
                );
            }
            let _ = write!(
                text,
                "\n[stack.files]\nkind = \"filesystem\"\non = \"{top}\"\ntype = \"ext4\"\ndata = \"{}\"\n",
                fs.data
            );
            if fs.has_own_journal {
                text += "journal = \"journal\"\n";
            }
        }
        let Load { access, block_kib, depth, is_direct, is_synced, rate } = &self.load;
        let engine = if *depth > 1 { "libaio" } else { "psync" };
        let _ = write!(
            text,
            "\n[workload.load]\ntool = \"fio\"\noptions = {{ rw = \"{access}\", bs = \"{block_kib}k\", ioengine = \"{engine}\", iodepth = {depth}, direct = {is_direct}, time_based = true, runtime = \"{runtime}\""
        );
        if *is_synced {
            text += ", fsync = 1";
        }
        if *rate > 0 {
            let _ = write!(text, ", rate_iops = {rate}");
        }
        text += " }\n";
        let mut others =
            self.settings.iter().filter(|(name, _)| !of_array.contains(&name.as_str())).peekable();
        if others.peek().is_some() {
            text += "\n[settings]\n";
        }
        for (name, value) in others {
            let _ = writeln!(text, "\"{name}\" = \"{value}\"");
        }
        let _ = write!(
            text,
            "\n[measure]\nmetric = \"throughput\"\nrepeats = {repeats}\ninterval = \"100ms\"\ntimeout = \"600s\"\n"
        );
        text
    }

    /// Long enough for a governor to settle, and for as many requests as make a rate.
    const fn runtime(&self) -> &'static str {
        match self.disk {
            Disk::Hdd => "6s",
            Disk::Sata => "2s",
            Disk::Nvme => "1s",
        }
    }
}
