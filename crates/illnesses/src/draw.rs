//! Draws machines: healthy ones first, then none, one or two illnesses for each.

use crate::illness::ILLNESSES;
use crate::lab;
use crate::recipe::{Array, Cpu, Crypt, Disk, Driver, Filesystem, Load, Recipe};
use domain::rng::{Rng, Seed};
use std::collections::BTreeMap;

/// A simulated machine, and the names of what was planted.
pub fn machine(seed: Seed, number: u32) -> (Recipe, Vec<&'static str>) {
    let rng = &mut seed.stream(&format!("machine {number}"));
    let cpu = cpu(rng);
    let healthy = healthy(rng, format!("machine-{number}"), cpu);
    planted(healthy, rng, |_| true)
}

/// A machine of the lab, and the names of what was planted.
pub fn lab_machine(seed: Seed, number: u32) -> (Recipe, Vec<&'static str>) {
    let rng = &mut seed.stream(&format!("lab machine {number}"));
    let cpu = lab::cpu(rng);
    let healthy = healthy(rng, format!("lab-{}-{number}", seed.0), cpu);
    let (mut recipe, planted) = planted(healthy, rng, lab::can_have);
    lab::mend(&mut recipe);
    (recipe, planted)
}

/// Plants none, one or two illnesses.
fn planted(
    mut recipe: Recipe,
    rng: &mut Rng,
    is_there: impl Fn(&str) -> bool,
) -> (Recipe, Vec<&'static str>) {
    let mut planted = Vec::new();
    let count = rng.below(3);
    // Not each machine can have each illness.
    for _ in 0..20 {
        if planted.len() == count {
            break;
        }
        let illness = &ILLNESSES[rng.below(ILLNESSES.len())];
        let is_new = !planted.contains(&illness.name) && is_there(illness.name);
        if is_new && (illness.plant)(&mut recipe, rng) {
            planted.push(illness.name);
        }
    }
    mend(&mut recipe);
    (recipe, planted)
}

/// One of these.
pub fn of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len())]
}

fn cpu(rng: &mut Rng) -> Cpu {
    let driver = of(rng, &[Driver::Acpi, Driver::Acpi, Driver::IntelPstate, Driver::IntelHwp]);
    Cpu {
        count: of(rng, &[2, 4, 8]),
        driver,
        governor: "performance",
        epp: "balance_performance",
        mhz: of(rng, &[[800, 2400, 3600], [1200, 2000, 3000], [400, 1800, 2800]]),
        deep_us: 0,
    }
}

fn healthy(rng: &mut Rng, name: String, cpu: Cpu) -> Recipe {
    let array = (rng.below(3) > 0).then(|| Array {
        level: of(rng, &[0, 1, 5, 6, 10, 10]),
        members: of(rng, &[4, 4, 6]),
        chunk_kib: of(rng, &[64, 512]),
        bitmap_kib: None,
        missing: 0,
        resyncs: false,
    });
    let crypt =
        (rng.below(5) < 2).then_some(Crypt { sector: 4096, has_queues: false, has_instructions: true });
    let filesystem = (rng.below(4) == 0).then_some(Filesystem { data: "ordered", has_own_journal: false });
    let access = of(rng, &["randread", "randread", "randwrite", "randwrite", "read", "write"]);
    let is_random = access.starts_with("rand");
    let is_direct = rng.below(3) > 0;
    let load = Load {
        access,
        block_kib: if is_random { of(rng, &[4, 4, 16, 64]) } else { of(rng, &[128, 1024]) },
        depth: if is_direct { of(rng, &[1, 1, 4, 32]) } else { 1 },
        is_direct,
        is_synced: false,
        rate: if rng.below(8) == 0 { 20 } else { 0 },
    };
    let disk = of(rng, &[Disk::Hdd, Disk::Sata, Disk::Nvme]);
    let mut settings = BTreeMap::new();
    if access == "read" && !is_direct && rng.below(2) == 0 {
        settings.insert("read_ahead_kb".to_owned(), "4096".to_owned());
    }
    if access == "randread" && !is_direct {
        settings.insert("read_ahead_kb".to_owned(), "16".to_owned());
    }
    Recipe { name, cpu, disk, slow_member: false, array, crypt, filesystem, load, settings }
}

/// What cannot be together is made so that it can.
fn mend(recipe: &mut Recipe) {
    let has_parity = recipe.array.as_ref().is_some_and(Array::has_parity);
    if !has_parity {
        recipe.settings.remove("stripe_cache_size");
        recipe.settings.remove("group_thread_cnt");
    }
    let Some(array) = &mut recipe.array else { return };
    if array.level == 0 {
        (array.missing, array.resyncs, array.bitmap_kib) = (0, false, None);
    }
    if array.resyncs {
        array.missing = 0;
    }
}
