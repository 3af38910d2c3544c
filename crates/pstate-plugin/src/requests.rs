//! What a guest asked its processor for, while it was paced.

use crate::processor::{self, Processor};

/// Requests kept for one CPU and span: as many as transitions.
const MAX: usize = crate::vcpu::MAX_CHANGES;

/// The requests of one CPU in a span: nanoseconds from its beginning, register, value.
#[derive(Debug, Default)]
pub struct Requests(Vec<(u64, u32, u64)>);

impl Requests {
    /// A span begins with what stands in the register.
    pub fn begin(&mut self, processor: Option<&Processor>) {
        self.0.clear();
        if let Some((register, value)) = processor.map(Processor::request) {
            self.note(Some(0), register, value);
        }
    }

    /// A register was written; `None`: while the CPU was not paced.
    pub fn note(&mut self, ns: Option<u64>, register: u32, value: u64) {
        if let Some(ns) = ns.filter(|_| processor::is_request(register) && self.0.len() < MAX) {
            self.0.push((ns, register, value));
        }
    }

    /// The first [`MAX`] of them, in order.
    pub fn kept(&self) -> impl Iterator<Item = &(u64, u32, u64)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Intel's processors.
    const PERF_CTL: u32 = 0x199;
    const HWP_REQUEST: u32 = 0x774;

    #[test]
    fn requests_are_kept_from_the_beginning_of_pacing_up_to_a_bound() {
        let mut requests = Requests::default();
        requests.note(None, PERF_CTL, 1);
        requests.note(Some(1), 0x10, 1);
        assert_eq!(requests.kept().count(), 0, "not paced; not a request");
        (0..5_000).for_each(|ns| requests.note(Some(ns), HWP_REQUEST, ns));
        assert_eq!(
            (requests.kept().count(), requests.kept().last()),
            (MAX, Some(&(4_095, HWP_REQUEST, 4_095)))
        );
        requests.begin(None);
        assert_eq!(requests.kept().count(), 0);
    }
}
