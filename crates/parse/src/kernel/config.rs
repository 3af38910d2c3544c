//! The options a kernel was built with: `/boot/config-*`, `/proc/config.gz` (unpacked).

use domain::inventory::{Preemption, Tickless};
use std::collections::BTreeMap;

/// Option to value, without `CONFIG_`. Options that are not set are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Config<'a> {
    /// Reads the lines `CONFIG_NAME=value` and passes over all others.
    pub fn parse(text: &'a str) -> Self {
        let options = text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
        Self(options.collect())
    }

    /// Ticks a second.
    pub fn hz(&self) -> Option<u32> {
        self.0.get("HZ")?.parse().ok()
    }

    /// When the tick stops; `None` where this is no kernel's configuration.
    pub fn tickless(&self) -> Option<Tickless> {
        const MODES: [(&str, Tickless); 3] = [
            ("NO_HZ_FULL", Tickless::Full),
            ("NO_HZ_IDLE", Tickless::Idle),
            ("HZ_PERIODIC", Tickless::Periodic),
        ];
        MODES.iter().find(|(option, _)| self.is_set(option)).map(|(_, mode)| *mode)
    }

    /// How the kernel was built to be preempted: what holds until the command line or debugfs say otherwise.
    /// `kernel/Kconfig.preempt`.
    pub fn preemption(&self) -> Option<Preemption> {
        const MODES: [(&str, &str); 5] = [
            ("PREEMPT_RT", "rt"),
            ("PREEMPT_LAZY", "lazy"),
            ("PREEMPT", "full"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT_NONE", "none"),
        ];
        let (_, mode) = MODES.iter().find(|(option, _)| self.is_set(option))?;
        Some(Preemption { mode: Some((*mode).to_owned()), dynamic: self.is_set("PREEMPT_DYNAMIC") })
    }

    fn is_set(&self, option: &str) -> bool {
        self.0.get(option) == Some(&"y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_matter_are_read() {
        // From `/proc/config.gz` of a 6.18 kernel.
        let text = "CONFIG_NO_HZ_COMMON=y\n# CONFIG_HZ_PERIODIC is not set\nCONFIG_NO_HZ_IDLE=y\nCONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n";
        let config = Config::parse(text);
        assert_eq!(config.hz(), Some(250));
        assert_eq!(config.tickless(), Some(Tickless::Idle));
        assert_eq!(config.preemption(), Some(Preemption { mode: Some("none".into()), dynamic: true }));
    }

    #[test]
    fn what_is_not_a_configuration_says_nothing() {
        let config = Config::parse("hello\nCONFIG_HZ\nHZ=100\n");
        assert_eq!((config.hz(), config.tickless(), config.preemption()), (None, None, None));
    }
}
