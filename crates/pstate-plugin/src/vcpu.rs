//! One virtual CPU's account: what it did, what was due, and when it must wait. Pure: it is told the time.
//!
//! **Due.** While a CPU is paced and busy, each instruction is due one interval (the state's nanoseconds for
//! an instruction) after the one before. *Ahead* is how far the last executed instruction's due time lies in
//! the future; the CPU waits it off. *Behind* is how far it lies in the past.
//!
//! **Credit.** A CPU that is behind runs on without waiting until it has caught up, so that its mean speed is
//! right although the host's sleeps end late. It never owes itself more than [`CREDIT_NS`]: what is beyond is
//! *late*, and forgiven. An idle CPU saves no credit: what it is behind by when it goes idle is late, and
//! after it resumes only the time that it waited for a host CPU counts, for it was due to run by then.
//!
//! **Idle states.** Where the machine has any, an idle CPU is in one of them: the one that its guest chose,
//! or the first, which `hlt` enters. Its exit latency is work that is due when the CPU resumes: the CPU waits
//! it off before it executes anything.
//!
//! **Late** is therefore the time by which instructions that were due had not run and were never caught up
//! with. It contains what the host took away (other load, an emulator too slow for the pace) and nothing that
//! the guest did.

use crate::options::{IdleOptions, Options};

/// The most that a CPU may be behind and still catch up, in the host's time.
///
/// Long enough for a sleep that ends late (0.05 to 0.2 ms on a host with other load), and short against the
/// 10 ms in which a governor looks at a CPU: a burst at the host's own speed can distort no more than this.
pub const CREDIT_NS: f64 = 1_000_000.0;

/// How far ahead a busy CPU may run before it waits, in the host's time: sleeping for less costs more than
/// it gives.
pub const NAP_NS: f64 = 100_000.0;

/// How far ahead a CPU may be that halts, in the host's time: what is left is carried into its next burst.
const HALT_NAP_NS: f64 = 5_000.0;

/// Transitions kept for one CPU and span; all are counted.
pub const MAX_CHANGES: usize = 4_096;

/// Time and work in one P-state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Wall time in the state, idle time included, in nanoseconds.
    pub time_ns: u64,
    /// Of this, while the CPU was not idle.
    pub busy_ns: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Of the wall time, while the CPU was in an idle state with watts of its own.
    pub own_watts_ns: u64,
}

/// Time in one idle state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// How often it was entered.
    pub entries: u64,
    /// Wall time in it, without the time that leaving takes.
    pub time_ns: u64,
}

/// What a CPU did in a span of pacing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// By state.
    pub sums: Vec<Sum>,
    /// By idle state; none where the machine has none.
    pub idle: Vec<Idle>,
    /// By how much it was late, in nanoseconds.
    pub late_ns: f64,
    /// The most that was counted as late at once.
    pub worst_ns: f64,
    /// When that was, in nanoseconds from the beginning.
    pub worst_at_ns: u64,
    /// When it changed to which state, in nanoseconds from the beginning; the first at 0. At most
    /// [`MAX_CHANGES`].
    pub changes: Vec<(u64, usize)>,
    /// How many there were.
    pub changes_total: u64,
}

/// One virtual CPU.
#[derive(Debug)]
pub struct Vcpu {
    state: usize,
    /// Whether the guest has ever written its state; until then the fastest is assumed.
    written: bool,
    /// Writes of a state that the table does not have.
    rejected: u64,
    idle: bool,
    /// The machine's idle states.
    idle_states: Vec<IdleOptions>,
    /// How many times slower its clock is than the host's while it is paced.
    slow: f64,
    /// The one that the guest has chosen for when it is idle next, or now.
    chosen: Option<usize>,
    /// Whether it has to leave an idle state before it executes anything.
    is_leaving: bool,
    /// The host's monotonic time of the last account, and the instructions counted by then.
    accounted_ns: u64,
    instructions: u64,
    /// Time while not idle since the machine started.
    busy_ns: u64,
    pacing: bool,
    began_ns: u64,
    /// When the last executed instruction is due, from the beginning of pacing.
    due_ns: f64,
    span: Span,
}

impl Vcpu {
    /// A CPU that begins to run now, in the fastest state.
    pub fn new(options: &Options, now_ns: u64) -> Self {
        let span = Span {
            sums: vec![Sum::default(); options.speeds.len()],
            idle: vec![Idle::default(); options.idle.len()],
            ..Span::default()
        };
        Self {
            state: 0,
            written: false,
            rejected: 0,
            idle: false,
            idle_states: options.idle.clone(),
            slow: options.slow,
            chosen: None,
            is_leaving: false,
            accounted_ns: now_ns,
            instructions: 0,
            busy_ns: 0,
            pacing: false,
            began_ns: now_ns,
            due_ns: 0.0,
            span,
        }
    }

    /// Whether it is paced at present.
    pub const fn is_paced(&self) -> bool {
        self.pacing
    }

    /// Whether it waits for an interrupt.
    pub const fn is_idle(&self) -> bool {
        self.idle
    }

    /// The guest chose this idle state for when it is idle next; `None`: it runs on.
    pub const fn choose_idle_state(&mut self, state: Option<usize>) {
        self.chosen = state;
    }

    /// The idle state that it is in, or will be in when it is idle next.
    fn idle_state(&self) -> Option<(usize, IdleOptions)> {
        let index = self.chosen.unwrap_or(0);
        self.idle_states.get(index).map(|state| (index, *state))
    }

    /// The idle state that it is in, where the machine has any.
    pub fn resting(&self) -> Option<IdleOptions> {
        self.idle_state().filter(|_| self.idle).map(|(_, state)| state)
    }

    /// The index of its P-state.
    pub const fn state(&self) -> usize {
        self.state
    }

    /// For how long it has been paced, in nanoseconds, as of the last account; `None` where it is not.
    pub fn paced_for_ns(&self) -> Option<u64> {
        self.pacing.then(|| self.accounted_ns - self.began_ns)
    }

    /// Instructions since the machine started, as of the last account.
    pub const fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Time while not idle since the machine started, in nanoseconds, as of the last account.
    pub const fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Whether the guest has ever written this CPU's state.
    pub const fn was_written(&self) -> bool {
        self.written
    }

    /// Writes of a state that the table does not have.
    pub const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Brings the account up to now. `count` is all instructions since the start of the machine.
    pub fn account(&mut self, now_ns: u64, count: u64, pace: &[f64]) {
        let time_ns = now_ns.saturating_sub(self.accounted_ns);
        let busy_ns = if self.idle { 0 } else { time_ns };
        let instructions = count.saturating_sub(self.instructions);
        self.accounted_ns = self.accounted_ns.max(now_ns);
        self.instructions = self.instructions.max(count);
        self.busy_ns += busy_ns;
        if self.pacing {
            let sum = &mut self.span.sums[self.state];
            sum.time_ns += time_ns;
            sum.busy_ns += busy_ns;
            sum.instructions += instructions;
            if let Some((index, state)) = self.idle_state().filter(|_| self.idle) {
                self.span.idle[index].time_ns += time_ns;
                self.span.sums[self.state].own_watts_ns += if state.watts.is_some() { time_ns } else { 0 };
            }
            self.due_ns += instructions as f64 * pace[self.state];
        }
    }

    /// Begins a span of pacing.
    pub fn begin(&mut self, now_ns: u64, count: u64, pace: &[f64]) {
        self.account(now_ns, count, pace);
        self.pacing = true;
        self.began_ns = self.accounted_ns;
        self.due_ns = 0.0;
        self.span.sums.fill(Sum::default());
        self.span.idle.fill(Idle::default());
        self.span.late_ns = 0.0;
        (self.span.worst_ns, self.span.worst_at_ns) = (0.0, 0);
        self.span.changes.clear();
        self.span.changes.reserve(MAX_CHANGES);
        self.span.changes_total = 0;
        self.note_change();
    }

    /// Ends it, and gives its record; `None` where none had begun.
    pub fn end(&mut self, now_ns: u64, count: u64, pace: &[f64]) -> Option<&Span> {
        if !self.pacing {
            return None;
        }
        self.account(now_ns, count, pace);
        if !self.idle {
            self.write_off(0.0);
        }
        self.pacing = false;
        Some(&self.span)
    }

    /// For a CPU that is executing: until when, on the host's monotonic clock, it must wait; `None`: it runs
    /// on.
    pub fn check(&mut self, now_ns: u64, count: u64, pace: &[f64]) -> Option<u64> {
        let tolerated_ns = if std::mem::take(&mut self.is_leaving) { HALT_NAP_NS } else { NAP_NS };
        self.wait_for(now_ns, count, pace, tolerated_ns)
    }

    /// The same for a CPU that is about to halt: it must not be idle before its work is due to end.
    pub fn halt(&mut self, now_ns: u64, count: u64, pace: &[f64]) -> Option<u64> {
        self.wait_for(now_ns, count, pace, HALT_NAP_NS)
    }

    fn wait_for(&mut self, now_ns: u64, count: u64, pace: &[f64], tolerated_ns: f64) -> Option<u64> {
        self.account(now_ns, count, pace);
        if !self.pacing {
            return None;
        }
        self.write_off(CREDIT_NS / self.slow);
        (self.ahead_ns() > tolerated_ns / self.slow).then(|| self.began_ns + self.due_ns as u64)
    }

    /// It goes idle.
    pub fn rest(&mut self, now_ns: u64, count: u64, pace: &[f64]) {
        self.account(now_ns, count, pace);
        if self.pacing && !self.idle {
            self.write_off(0.0);
        }
        self.idle = true;
        if let Some((index, _)) = self.idle_state().filter(|_| self.pacing) {
            self.span.idle[index].entries += 1;
        }
    }

    /// It was woken, and waited `queued_ns` of its own time for a host CPU before it ran. Gives whether it
    /// leaves an idle state, so that it has to look at the clock before it executes anything.
    pub fn resume(&mut self, now_ns: u64, queued_ns: u64, pace: &[f64]) -> bool {
        let idle_ns = now_ns.saturating_sub(self.accounted_ns);
        self.account(now_ns, self.instructions, pace);
        self.is_leaving = false;
        if self.pacing {
            self.due_ns = self.due_ns.max(self.elapsed_ns() - queued_ns.min(idle_ns) as f64);
            self.write_off(CREDIT_NS / self.slow);
            if let Some((_, state)) = self.idle_state().filter(|_| self.idle) {
                self.due_ns += state.exit_ns as f64;
                self.is_leaving = state.exit_ns > 0;
            }
        }
        self.idle = false;
        self.is_leaving
    }

    /// Its P-state is written, by itself or by another CPU.
    pub fn set_state(&mut self, state: usize, now_ns: u64, count: u64, pace: &[f64]) {
        if state >= pace.len() {
            self.rejected += 1;
            return;
        }
        self.account(now_ns, count, pace);
        self.written = true;
        if state == self.state {
            return;
        }
        if self.pacing && self.ahead_ns() > 0.0 {
            // What has run ahead is work, and that work takes its time in the new state.
            self.due_ns = self.elapsed_ns() + self.ahead_ns() * pace[state] / pace[self.state];
        }
        self.state = state;
        if self.pacing {
            self.note_change();
        }
    }

    fn note_change(&mut self) {
        self.span.changes_total += 1;
        if self.span.changes.len() < MAX_CHANGES {
            self.span.changes.push((self.accounted_ns - self.began_ns, self.state));
        }
    }

    fn elapsed_ns(&self) -> f64 {
        (self.accounted_ns - self.began_ns) as f64
    }

    fn ahead_ns(&self) -> f64 {
        self.due_ns - self.elapsed_ns()
    }

    /// Counts as late, and forgives, what the CPU is behind by beyond `credit_ns`.
    fn write_off(&mut self, credit_ns: f64) {
        let beyond_ns = -self.ahead_ns() - credit_ns;
        if beyond_ns > 0.0 {
            self.span.late_ns += beyond_ns;
            self.due_ns += beyond_ns;
            if beyond_ns > self.span.worst_ns {
                self.span.worst_ns = beyond_ns;
                self.span.worst_at_ns = self.accounted_ns - self.began_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two states: an instruction takes 50 ns in the first, 100 ns in the second.
    const PACE: [f64; 2] = [50.0, 100.0];
    const MS: u64 = 1_000_000;

    fn options(more: &str) -> Options {
        Options::parse(format!("table=1:0.5,pace=2e7,record=r{more}").split(',')).unwrap()
    }

    fn new(more: &str) -> Vcpu {
        Vcpu::new(&options(more), 0)
    }

    fn begun() -> Vcpu {
        let mut vcpu = new("");
        vcpu.begin(0, 0, &PACE);
        vcpu
    }

    /// A CPU that executes 1000 instructions in 5 µs, checks, and sleeps as told, each time `oversleep_ns`
    /// too long.
    fn run(vcpu: &mut Vcpu, until_ns: u64, oversleep_ns: u64) -> (u64, u64) {
        let (mut now, mut count) = (vcpu.accounted_ns, vcpu.instructions);
        while now < until_ns {
            now += 5_000;
            count += 1_000;
            if let Some(wake) = vcpu.check(now, count, &PACE) {
                now = wake.max(now) + oversleep_ns;
            }
        }
        (now, count)
    }

    #[test]
    fn the_mean_speed_is_right_although_every_sleep_ends_late() {
        let mut vcpu = begun();
        let (now, count) = run(&mut vcpu, 1_000 * MS, 150_000);
        let expected = now as f64 / 50.0;
        assert!((count as f64 / expected - 1.0).abs() < 0.005, "{count} of {expected}");
        assert!(vcpu.end(now, count, &PACE).unwrap().late_ns < 0.001 * now as f64);
    }

    #[test]
    fn a_stall_beyond_the_credit_is_late_and_not_run_after() {
        let mut vcpu = begun();
        assert_eq!(vcpu.check(5 * MS, 0, &PACE), None);
        assert_eq!(vcpu.check(6 * MS, 20_000, &PACE), None, "the credit is still there");
        assert!(vcpu.check(6 * MS, 50_000, &PACE).is_some(), "caught up");
        let span = vcpu.end(6 * MS, 50_000, &PACE).unwrap();
        assert_eq!((span.late_ns, span.worst_ns, span.worst_at_ns), (4e6, 4e6, 5 * MS));
    }

    #[test]
    fn what_the_host_is_given_is_a_part_of_its_own_time_where_the_clock_is_slow() {
        let mut vcpu = new(",slow=100");
        vcpu.begin(0, 0, &PACE);
        assert!(vcpu.check(1_000, 60, &PACE).is_some(), "2 µs ahead are 200 of the host's");
        assert_eq!(vcpu.check(50_000, 60, &PACE), None);
        let span = vcpu.end(50_000, 60, &PACE).unwrap();
        assert_eq!(span.late_ns, 47_000.0, "10 µs might have been caught up with, and the end came");
        assert_eq!(span.worst_ns, 37_000.0);
    }

    #[test]
    fn idle_time_gives_no_credit_but_waiting_for_a_host_cpu_does() {
        let mut vcpu = begun();
        vcpu.rest(0, 0, &PACE);
        vcpu.resume(100 * MS, 0, &PACE);
        assert_eq!(vcpu.ahead_ns(), 0.0);
        vcpu.rest(100 * MS, 0, &PACE);
        vcpu.resume(200 * MS, MS / 2, &PACE);
        assert_eq!(vcpu.ahead_ns(), -0.5e6);
        let span = vcpu.end(200 * MS, 0, &PACE).unwrap();
        assert_eq!((span.late_ns, span.sums[0].time_ns, span.sums[0].busy_ns), (0.5e6, 200 * MS, 0));
    }

    #[test]
    fn a_cpu_that_is_idle_when_pacing_ends_is_not_late() {
        let mut vcpu = begun();
        vcpu.rest(10, 0, &PACE);
        assert_eq!(vcpu.end(300 * MS, 0, &PACE).unwrap().late_ns, 10.0);
    }

    #[test]
    fn a_short_burst_takes_its_time_before_the_halt() {
        let mut vcpu = begun();
        assert_eq!(vcpu.check(1_000, 400, &PACE), None, "20 µs ahead is less than a nap");
        assert_eq!(vcpu.halt(1_000, 400, &PACE), Some(20_000));
    }

    #[test]
    fn work_that_ran_ahead_takes_its_time_in_the_new_state() {
        let mut vcpu = begun();
        vcpu.set_state(1, 10_000, 1_000, &PACE);
        // 1000 instructions are due at 50 µs; the 40 µs still ahead take 80 µs at half the speed.
        assert_eq!(vcpu.halt(10_000, 1_000, &PACE), Some(90_000));
        let span = vcpu.end(90_000, 1_000, &PACE).unwrap();
        assert_eq!(span.changes, [(0, 0), (10_000, 1)]);
        assert_eq!(
            span.sums[0],
            Sum { time_ns: 10_000, busy_ns: 10_000, instructions: 1_000, own_watts_ns: 0 }
        );
        assert_eq!(span.sums[1], Sum { time_ns: 80_000, busy_ns: 80_000, instructions: 0, own_watts_ns: 0 });
    }

    #[test]
    fn writes_of_the_same_and_of_unknown_states_are_no_transitions() {
        let mut vcpu = begun();
        vcpu.set_state(0, 10, 0, &PACE);
        vcpu.set_state(2, 10, 0, &PACE);
        assert_eq!((vcpu.was_written(), vcpu.rejected()), (true, 1));
        assert_eq!(vcpu.end(20, 0, &PACE).unwrap().changes_total, 1);
    }

    #[test]
    fn a_state_written_before_pacing_is_in_force_when_it_begins() {
        let mut vcpu = new("");
        vcpu.set_state(1, 10, 5, &PACE);
        vcpu.begin(20, 10, &PACE);
        let span = vcpu.end(30, 10, &PACE).unwrap();
        assert_eq!((span.changes.as_slice(), span.sums[1].time_ns), (&[(0, 1)][..], 10));
    }

    #[test]
    fn transitions_are_kept_up_to_a_bound_and_all_counted() {
        let mut vcpu = begun();
        for step in 1..=10_000 {
            vcpu.set_state((step % 2) as usize, step, 0, &PACE);
        }
        let span = vcpu.end(10_000, 0, &PACE).unwrap();
        assert_eq!((span.changes.len(), span.changes_total), (MAX_CHANGES, 10_001));
    }

    #[test]
    fn a_span_that_never_began_has_no_record() {
        assert_eq!(new("").end(10, 10, &PACE), None);
    }

    #[test]
    fn leaving_an_idle_state_takes_its_time_before_anything_is_executed() {
        let deep = IdleOptions { exit_ns: 133_000, watts: Some(0.1), c_state: 6 };
        let mut vcpu = new(",ratios=1:1:2,idle=2000:133000/0.1,cstates=1:6");
        vcpu.begin(0, 0, &PACE);
        vcpu.choose_idle_state(Some(1));
        assert_eq!(vcpu.resting(), None, "it is not idle yet");
        vcpu.rest(0, 0, &PACE);
        assert_eq!(vcpu.resting(), Some(deep));
        assert!(vcpu.resume(10 * MS, 0, &PACE));
        assert_eq!(vcpu.check(10 * MS, 0, &PACE), Some(10 * MS + 133_000));
        assert_eq!(vcpu.check(10 * MS + 133_000, 0, &PACE), None);
        vcpu.choose_idle_state(None);
        vcpu.rest(11 * MS, 1_000, &PACE);
        assert!(vcpu.resume(13 * MS, 0, &PACE));
        assert_eq!(vcpu.check(13 * MS, 1_000, &PACE), None, "2 µs are not waited for");
        let span = vcpu.end(13 * MS, 1_000, &PACE).unwrap();
        let idle = |entries, time_ns| Idle { entries, time_ns };
        assert_eq!(span.idle, [idle(1, 2 * MS), idle(1, 10 * MS)]);
        assert_eq!(span.sums[0].own_watts_ns, 10 * MS);
    }

    #[test]
    fn idle_states_of_a_cpu_that_is_not_paced_take_no_time_to_leave() {
        let mut vcpu = new(",ratios=1:1:2,idle=1000000");
        vcpu.rest(0, 0, &PACE);
        assert!(!vcpu.resume(10, 0, &PACE));
    }
}
