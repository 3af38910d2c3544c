//! performance, powersave and userspace: the highest, the lowest, the chosen frequency.
//!
//! Follows `drivers/cpufreq/cpufreq_{performance,powersave,userspace}.c`, 6.1 and 6.12, which do not differ.

use crate::tunable::{TunableError, Tunables};
use crate::{Policy, Relation};
use domain::units::Hertz;

pub(crate) const PERFORMANCE: Tunables = Tunables { governor: "performance", names: &[] };
pub(crate) const POWERSAVE: Tunables = Tunables { governor: "powersave", names: &[] };
/// Its frequency is a file of the policy's own folder, in kHz.
pub(crate) const USERSPACE: Tunables = Tunables { governor: "userspace", names: &["scaling_setspeed"] };

pub(crate) fn performance(policy: &Policy) -> Option<Hertz> {
    policy.request(policy.max, Relation::AtMost)
}

pub(crate) fn powersave(policy: &Policy) -> Option<Hertz> {
    policy.request(policy.min, Relation::AtLeast)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Userspace {
    /// As it was written, whatever the limits.
    set_speed: Option<Hertz>,
}

impl Userspace {
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        USERSPACE.find(name)?;
        let khz = USERSPACE.number("scaling_setspeed", value, 0, u32::MAX)?;
        self.set_speed = Some(Hertz::from_khz(u64::from(khz)));
        Ok(())
    }

    /// Without a chosen one the frequency stays what it is.
    pub(crate) fn start(&mut self, policy: &Policy) -> Option<Hertz> {
        self.set_speed.get_or_insert(policy.current);
        self.limits_changed(policy)
    }

    pub(crate) fn limits_changed(&self, policy: &Policy) -> Option<Hertz> {
        let speed = self.set_speed.unwrap_or(policy.current);
        if policy.max < speed {
            policy.request(policy.max, Relation::AtMost)
        } else if policy.min > speed {
            policy.request(policy.min, Relation::AtLeast)
        } else {
            policy.request(speed, Relation::AtLeast)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbs::tests::laptop;

    #[test]
    fn performance_and_powersave_follow_the_limits() {
        let mut policy = laptop();
        assert_eq!(performance(&policy), Some(Hertz::from_mhz(2800)));
        assert_eq!(powersave(&policy), None, "it is there already");
        (policy.min, policy.max) = (Hertz::from_mhz(700), Hertz::from_mhz(1400));
        assert_eq!(performance(&policy), Some(Hertz::from_mhz(1400)));
        assert_eq!(powersave(&policy), Some(Hertz::from_mhz(700)));
    }

    #[test]
    fn userspace_comes_back_to_its_speed_when_limits_allow_it() {
        let (mut userspace, mut policy) = (Userspace::default(), laptop());
        userspace.set("scaling_setspeed", "2100000").unwrap();
        assert_eq!(userspace.start(&policy), Some(Hertz::from_mhz(2100)));
        policy.current = Hertz::from_mhz(2100);
        policy.max = Hertz::from_mhz(700);
        assert_eq!(userspace.limits_changed(&policy), Some(Hertz::from_mhz(700)));
        policy.current = Hertz::from_mhz(700);
        policy.max = Hertz::from_mhz(2800);
        assert_eq!(userspace.limits_changed(&policy), Some(Hertz::from_mhz(2100)));
    }

    #[test]
    fn userspace_without_a_speed_stays() {
        let (mut userspace, policy) = (Userspace::default(), laptop());
        assert_eq!(userspace.start(&policy), None);
        assert!(userspace.set("scaling_setspeed", "fast").is_err());
    }
}
