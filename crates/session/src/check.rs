//! The study of `flyball check`, for the machine that it is to check.

use crate::studies::SHIPPED;
use domain::inventory::Inventory;

/// The name of the shipped study.
pub const STUDY: &str = "check";

/// What is added where the frequency policy can be written: the same depth-1 reads as the machine stands, and
/// under `performance`.
const POLICY_FACTOR: &str = "
[factor.policy]
workloads = [\"randread\"]
[[factor.policy.level]]
name = \"as-it-is\"
[[factor.policy.level]]
name = \"performance\"
settings = { governor = \"performance\" }
";

/// Its text: the shipped one, and the frequency policy as a factor where that can be varied.
pub fn study(inventory: &Inventory, is_root: bool) -> String {
    let shipped = SHIPPED.iter().filter(|study| study.name == STUDY).map(|study| study.text);
    let policy = (is_root && can_vary_policy(inventory)).then_some(POLICY_FACTOR);
    shipped.chain(policy).collect()
}

/// Whether there is a policy that could be set to `performance` and is not.
fn can_vary_policy(inventory: &Inventory) -> bool {
    let policies = inventory.cpufreq.iter().flat_map(|cpufreq| &cpufreq.policies);
    policies.into_iter().any(|policy| {
        let offered = policy.available_governors.iter().any(|governor| governor == "performance");
        offered && policy.governor.as_deref() != Some("performance")
    })
}
