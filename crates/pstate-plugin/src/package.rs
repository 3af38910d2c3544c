//! What the CPUs of a package have in common: one frequency for all of them where they share a domain, and a
//! highest ratio that depends on how many of them are busy. Pure.
//!
//! A CPU in a shared domain gets the highest ratio that a busy CPU of it wishes for: an idle one has no part
//! in it (Intel SDM volume 3, 15.3 and 15.6: hardware coordination resolves the requests of those that are
//! active). Where all are idle, the highest wish of all holds. No ratio lies above what the number of busy
//! CPUs allows (MSR_TURBO_RATIO_LIMIT).

use crate::options::ProcessorOptions;

/// The CPUs that are present.
#[derive(Debug)]
pub struct Package {
    options: ProcessorOptions,
    cpus: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    wish: u8,
    is_busy: bool,
}

impl Package {
    /// All CPUs idle, and each with the highest wish.
    pub fn new(options: &ProcessorOptions, cpus: usize) -> Self {
        let member = Member { wish: options.turbo(), is_busy: false };
        Self { options: options.clone(), cpus: vec![member; cpus] }
    }

    /// A CPU's wish, and whether it is busy; gives whether any ratio may be another one now.
    pub fn set(&mut self, cpu: usize, wish: u8, is_busy: bool) -> bool {
        let member = Member { wish, is_busy };
        std::mem::replace(&mut self.cpus[cpu], member) != member
    }

    /// The ratio that a CPU gets.
    pub fn ratio(&self, cpu: usize) -> u8 {
        let busy = self.cpus.iter().filter(|member| member.is_busy).count();
        let wish = if self.options.is_shared {
            let counts = |member: &&Member| member.is_busy || busy == 0;
            self.cpus.iter().filter(counts).map(|member| member.wish).max()
        } else {
            Some(self.cpus[cpu].wish)
        };
        wish.unwrap_or(self.options.least).min(self.options.limit(busy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Vendor;

    fn package(is_shared: bool) -> Package {
        let watts = vec![(1.0, 1.0); 35];
        let limits = vec![42, 42, 41, 40];
        let vendor = Vendor::Intel;
        Package::new(&ProcessorOptions { vendor, least: 8, base: 40, limits, is_shared, hwp: None, watts }, 6)
    }

    #[test]
    fn in_a_shared_domain_the_highest_wish_of_a_busy_cpu_holds_for_all() {
        let mut package = package(true);
        assert_eq!(package.ratio(0), 42, "all idle");
        assert!(package.set(0, 10, true));
        assert!(!package.set(0, 10, true), "nothing is new");
        assert_eq!([0, 5].map(|cpu| package.ratio(cpu)), [10, 10], "the wishes of idle ones have no part");
        package.set(1, 30, true);
        assert_eq!(package.ratio(0), 30);
        package.set(1, 30, false);
        assert_eq!(package.ratio(1), 10);
    }

    #[test]
    fn turbo_falls_as_more_cpus_are_busy() {
        let mut package = package(false);
        let mut seen = Vec::new();
        for cpu in 0..6 {
            package.set(cpu, 42, true);
            seen.push(package.ratio(0));
        }
        assert_eq!(seen, [42, 42, 41, 40, 40, 40]);
        package.set(5, 12, true);
        assert_eq!(package.ratio(5), 12, "its own wish is below the limit");
    }
}
