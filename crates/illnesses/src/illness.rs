//! What can ail a machine: how it is planted, how it is cured, and which rules tell of it.

use crate::recipe::{Array, Crypt, Disk, Driver, Filesystem, Recipe};
use domain::rng::Rng;

/// A cause of slowness.
pub struct Illness {
    /// Its name in the table.
    pub name: &'static str,
    /// The rules of which a finding names it.
    pub rules: &'static [&'static str],
    /// Gives it to a machine where that machine can have it.
    pub plant: fn(&mut Recipe, &mut Rng) -> bool,
    /// The same machine without it; `None` where the machine does not have it.
    pub cure: fn(&Recipe) -> Option<Recipe>,
}

impl Illness {
    /// Whether a finding of this rule names it.
    pub fn is_named_by(&self, rule: &str) -> bool {
        self.rules.contains(&rule)
    }
}

/// All of them.
pub const ILLNESSES: &[Illness] = &[
    Illness {
        name: "frequency policy",
        rules: &[
            "governor",
            "governor-stays-low",
            "threshold-not-reached",
            "io-is-busy",
            "sampling-window",
            "low-frequency",
            "hwp-dynamic-boost",
            "energy-bias",
        ],
        plant: |recipe, rng| {
            match recipe.cpu.driver {
                Driver::Acpi => {
                    let governors = ["ondemand", "conservative", "powersave", "schedutil"];
                    recipe.cpu.governor = governors[rng.below(governors.len())];
                }
                Driver::IntelPstate => recipe.cpu.governor = "powersave",
                Driver::IntelHwp => {
                    recipe.cpu.governor = "powersave";
                    recipe.cpu.epp = ["power", "balance_power"][rng.below(2)];
                }
                Driver::None => return false,
            }
            true
        },
        cure: |recipe| {
            (recipe.cpu.governor != "performance")
                .then(|| changed(recipe, |recipe| recipe.cpu.governor = "performance"))
        },
    },
    Illness {
        name: "frequency cap",
        rules: &["frequency-capped", "frequency-limit", "power-limit"],
        plant: |recipe, rng| {
            if recipe.cpu.driver == Driver::None {
                return false;
            }
            let [low, base, _] = recipe.cpu.mhz;
            if recipe.cpu.driver != Driver::Acpi && rng.below(2) == 0 {
                recipe.settings.insert("turbo".into(), "0".into());
            } else {
                recipe.settings.insert("max_freq".into(), format!("{}MHz", low + (base - low) / 3));
            }
            true
        },
        cure: |recipe| without(recipe, &["turbo", "max_freq"]),
    },
    Illness {
        name: "deep idle state",
        rules: &["idle-exit-latency", "idle-wakeups", "idle-policy"],
        plant: |recipe, rng| {
            recipe.cpu.deep_us = [90, 200, 400][rng.below(3)];
            true
        },
        cure: |recipe| (recipe.cpu.deep_us > 0).then(|| changed(recipe, |recipe| recipe.cpu.deep_us = 0)),
    },
    Illness {
        name: "small writes to parity",
        rules: &["read-modify-write", "parity-writes"],
        plant: |recipe, rng| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.members >= 4) else { return false };
            array.level = [5, 6][rng.below(2)];
            true
        },
        cure: |recipe| {
            let is_small = recipe.load.writes() && !recipe.load.writes_whole_stripes();
            let array = recipe.array.as_ref().filter(|array| array.has_parity() && is_small)?;
            (array.members % 2 == 0 && array.missing < 2).then(|| {
                let mirrored = of_array(recipe, |array| array.level = 10);
                without(&mirrored, &["stripe_cache_size", "group_thread_cnt"]).unwrap_or(mirrored)
            })
        },
    },
    Illness {
        name: "small stripe cache",
        rules: &["stripe-cache", "stripe-cache-full"],
        plant: |recipe, _| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.members >= 3) else { return false };
            array.level = 5;
            recipe.settings.insert("stripe_cache_size".into(), "32".into());
            true
        },
        cure: |recipe| {
            let has_cache = recipe.array.as_ref().is_some_and(|array| array.has_parity());
            let is_large = recipe.settings.get("stripe_cache_size").is_some_and(|size| size == "4096");
            (has_cache && recipe.load.writes() && !is_large)
                .then(|| with(recipe, "stripe_cache_size", "4096"))
        },
    },
    Illness {
        name: "one thread for stripes",
        rules: &["one-thread-at-limit", "group-threads"],
        plant: |recipe, _| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.members >= 3) else { return false };
            array.level = 5;
            recipe.disk = Disk::Nvme;
            (recipe.load.access, recipe.load.depth, recipe.load.is_direct) = ("randwrite", 32, true);
            true
        },
        cure: |recipe| {
            let has_thread = recipe.array.as_ref().is_some_and(|array| array.has_parity());
            let is_spread = recipe.settings.contains_key("group_thread_cnt");
            // Reads of what a disk lacks pass the thread as well, which computes it from the others: of a
            // missing one, and of the one that the first synchronisation of a RAID5 fills.
            let lacks_data = |array: &Array| array.missing > 0 || array.resyncs;
            let passes_it = recipe.load.writes() || recipe.array.as_ref().is_some_and(lacks_data);
            (has_thread && passes_it && !is_spread && recipe.cpu.count > 1)
                .then(|| with(recipe, "group_thread_cnt", "4"))
        },
    },
    Illness {
        name: "bitmap",
        rules: &["bitmap"],
        plant: |recipe, rng| {
            let Some(array) = &mut recipe.array else { return false };
            if array.level == 0 {
                array.level = 10;
            }
            array.bitmap_kib = Some([64, 1024, 65_536][rng.below(3)]);
            true
        },
        cure: |recipe| {
            let has_one = recipe.array.as_ref()?.bitmap_kib.is_some() && recipe.load.writes();
            has_one.then(|| of_array(recipe, |array| array.bitmap_kib = None))
        },
    },
    Illness {
        name: "missing disk",
        rules: &["degraded-array"],
        plant: |recipe, _| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.level != 0 && !array.resyncs) else {
                return false;
            };
            array.missing = 1;
            true
        },
        cure: |recipe| {
            (recipe.array.as_ref()?.missing > 0).then(|| of_array(recipe, |array| array.missing = 0))
        },
    },
    Illness {
        name: "resync beside",
        rules: &["resync-beside"],
        plant: |recipe, _| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.level != 0 && array.missing == 0)
            else {
                return false;
            };
            array.resyncs = true;
            true
        },
        cure: |recipe| {
            recipe.array.as_ref()?.resyncs.then(|| of_array(recipe, |array| array.resyncs = false))
        },
    },
    Illness {
        name: "slow member",
        rules: &["slowest-member"],
        plant: |recipe, _| {
            recipe.slow_member = recipe.array.is_some();
            recipe.slow_member
        },
        cure: |recipe| recipe.slow_member.then(|| changed(recipe, |recipe| recipe.slow_member = false)),
    },
    Illness {
        name: "small chunk",
        rules: &["chunk-size"],
        plant: |recipe, _| {
            let Some(array) = recipe.array.as_mut().filter(|array| array.level != 1) else { return false };
            array.chunk_kib = 4;
            true
        },
        cure: |recipe| {
            let is_small =
                recipe.array.as_ref().is_some_and(|array| array.level != 1 && array.chunk_kib < 64);
            (is_small && recipe.load.is_random()).then(|| of_array(recipe, |array| array.chunk_kib = 512))
        },
    },
    Illness {
        name: "dm-crypt's queues",
        rules: &["crypt-workqueues"],
        plant: |recipe, _| {
            let Some(crypt) = &mut recipe.crypt else { return false };
            crypt.has_queues = true;
            true
        },
        cure: |recipe| {
            recipe.crypt.as_ref()?.has_queues.then(|| of_crypt(recipe, |crypt| crypt.has_queues = false))
        },
    },
    Illness {
        name: "small sectors of dm-crypt",
        rules: &["crypt-sector"],
        plant: |recipe, _| {
            let Some(crypt) = &mut recipe.crypt else { return false };
            crypt.sector = 512;
            true
        },
        cure: |recipe| {
            (recipe.crypt.as_ref()?.sector < 4096).then(|| of_crypt(recipe, |crypt| crypt.sector = 4096))
        },
    },
    Illness {
        name: "cipher without instructions",
        rules: &["cipher-without-hardware"],
        plant: |recipe, _| {
            let Some(crypt) = &mut recipe.crypt else { return false };
            crypt.has_instructions = false;
            true
        },
        cure: |recipe| {
            (!recipe.crypt.as_ref()?.has_instructions)
                .then(|| of_crypt(recipe, |crypt| crypt.has_instructions = true))
        },
    },
    Illness {
        name: "short read-ahead",
        rules: &["read-ahead"],
        plant: |recipe, rng| {
            recipe.settings.insert("read_ahead_kb".into(), ["0", "16", "32"][rng.below(3)].into());
            recipe.load.is_direct = false;
            recipe.load.access = "read";
            recipe.load.depth = 1;
            true
        },
        cure: |recipe| {
            let reads = recipe.load.access == "read" && !recipe.load.is_direct;
            let is_long = recipe.settings.get("read_ahead_kb").is_some_and(|kb| kb.len() > 3);
            (reads && !is_long).then(|| with(recipe, "read_ahead_kb", "4096"))
        },
    },
    Illness {
        name: "long read-ahead",
        rules: &["read-ahead-too-large"],
        plant: |recipe, _| {
            recipe.settings.insert("read_ahead_kb".into(), "4096".into());
            true
        },
        cure: |recipe| {
            let reads = recipe.load.access == "randread" && !recipe.load.is_direct;
            let is_short = recipe.settings.get("read_ahead_kb").is_some_and(|kb| kb == "16");
            (reads && !is_short).then(|| with(recipe, "read_ahead_kb", "16"))
        },
    },
    Illness {
        name: "data in the journal",
        rules: &["journal-mode"],
        plant: |recipe, _| {
            let Some(fs) = &mut recipe.filesystem else { return false };
            fs.data = "journal";
            true
        },
        cure: |recipe| {
            (recipe.filesystem.as_ref()?.data == "journal")
                .then(|| of_filesystem(recipe, |fs| fs.data = "ordered"))
        },
    },
    Illness {
        name: "journal beside data",
        rules: &["journal-on-data-disk"],
        plant: |recipe, _| {
            let Some(fs) = &mut recipe.filesystem else { return false };
            fs.has_own_journal = false;
            (recipe.load.access, recipe.load.is_synced, recipe.load.is_direct) = ("randwrite", true, false);
            recipe.load.depth = 1;
            true
        },
        cure: |recipe| {
            (!recipe.filesystem.as_ref()?.has_own_journal && recipe.load.is_synced)
                .then(|| of_filesystem(recipe, |fs| fs.has_own_journal = true))
        },
    },
    Illness {
        name: "a call of fsync for each write",
        rules: &["flushes"],
        plant: |recipe, _| {
            recipe.load.is_synced = recipe.load.writes();
            recipe.load.is_synced
        },
        cure: |recipe| recipe.load.is_synced.then(|| changed(recipe, |recipe| recipe.load.is_synced = false)),
    },
];

fn changed(recipe: &Recipe, change: impl FnOnce(&mut Recipe)) -> Recipe {
    let mut other = recipe.clone();
    change(&mut other);
    other
}

fn of_array(recipe: &Recipe, change: fn(&mut Array)) -> Recipe {
    changed(recipe, |recipe| recipe.array.iter_mut().for_each(change))
}

fn of_crypt(recipe: &Recipe, change: fn(&mut Crypt)) -> Recipe {
    changed(recipe, |recipe| recipe.crypt.iter_mut().for_each(change))
}

fn of_filesystem(recipe: &Recipe, change: fn(&mut Filesystem)) -> Recipe {
    changed(recipe, |recipe| recipe.filesystem.iter_mut().for_each(change))
}

/// With a setting at this value.
fn with(recipe: &Recipe, setting: &str, value: &str) -> Recipe {
    changed(recipe, |recipe| {
        recipe.settings.insert(setting.into(), value.into());
    })
}

fn without(recipe: &Recipe, settings: &[&str]) -> Option<Recipe> {
    let has_one = settings.iter().any(|name| recipe.settings.contains_key(*name));
    has_one.then(|| {
        changed(recipe, |recipe| recipe.settings.retain(|name, _| !settings.contains(&name.as_str())))
    })
}
