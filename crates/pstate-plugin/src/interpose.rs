//! The calls of the C library by which QEMU reads a clock or waits for a time, replaced by ones of the
//! machine's clock (`clock.rs`). They are in force where this library is loaded before QEMU (`LD_PRELOAD`,
//! ld.so(8)); loaded as a plugin alone, nobody calls them.
//!
//! Clocks of CPU time stay the host's. A wait is cut into pieces while the clock is slow, so that it ends
//! soon after the clock goes as fast as the host's again.
//!
//! QEMU reads the host's time-stamp counter by the instruction itself for a guest's; `hooks.rs` replaces
//! that.

use crate::clock::Shared;
use libc::{c_int, c_uint, c_void, clockid_t, nfds_t, pollfd, sigset_t, timespec, timeval};
use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

/// The longest piece of a wait while the clock is slow, in the host's nanoseconds.
const PIECE_NS: u64 = 20_000_000;

/// The longest piece of a wait for a condition, which then ends as POSIX lets it, for no reason.
const CONDITION_NS: u64 = 1_000_000_000;

/// Deadlines beyond are of the time since 1970 and not of that since the host started.
const SINCE_START_NS: u64 = 1_000_000_000 * 1_000_000_000;

static CLOCK: Shared = Shared::new();

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
type ClockNanosleep = unsafe extern "C" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
type Ppoll = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type CondTimedwait =
    unsafe extern "C" fn(*mut libc::pthread_cond_t, *mut libc::pthread_mutex_t, *const timespec) -> c_int;

/// The C library's own.
struct Real {
    clock_gettime: ClockGettime,
    clock_nanosleep: ClockNanosleep,
    ppoll: Ppoll,
    pthread_cond_timedwait: CondTimedwait,
}

fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| {
        // SAFETY: these are the types of these functions (clock_gettime(2), clock_nanosleep(2), ppoll(2),
        // pthread_cond_timedwait(3)).
        unsafe {
            Real {
                clock_gettime: std::mem::transmute::<*mut c_void, ClockGettime>(next(c"clock_gettime")),
                clock_nanosleep: std::mem::transmute::<*mut c_void, ClockNanosleep>(next(c"clock_nanosleep")),
                ppoll: std::mem::transmute::<*mut c_void, Ppoll>(next(c"ppoll")),
                pthread_cond_timedwait: std::mem::transmute::<*mut c_void, CondTimedwait>(next(
                    c"pthread_cond_timedwait",
                )),
            }
        }
    })
}

/// The C library's function of this name. Without it, nothing here can go on.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: looking a symbol up has no effect. Of a condition's functions glibc has two versions, and
    // without its number the first would be found, whose conditions are others (glibc 2.3.2).
    let found = unsafe {
        let newer = libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr());
        if newer.is_null() { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } else { newer }
    };
    assert!(!found.is_null(), "the C library has no {name:?}");
    found
}

/// Whether QEMU calls what is here: whether this library was loaded before it.
pub fn is_in_force() -> bool {
    // SAFETY: looking a symbol up has no effect.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"clock_gettime".as_ptr()) };
    found == clock_gettime as ClockGettime as *mut c_void
}

/// The machine's clock runs so many times slower than the host's from now on. Only one thread at a time may
/// say so.
pub fn slow_down(slow: f64) {
    CLOCK.set(CLOCK.get().at_rate(host_ns(), slow));
}

/// The machine's clock, in nanoseconds: the host's `CLOCK_MONOTONIC` without what it is behind.
pub fn now_ns() -> u64 {
    CLOCK.get().own(host_ns())
}

/// The host's `CLOCK_MONOTONIC`, in nanoseconds.
pub fn host_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// When the host's clock shows what the machine's clock is to show.
pub fn host_ns_of(own_ns: u64) -> u64 {
    CLOCK.get().host(own_ns)
}

/// Sleeps until that point of the host's `CLOCK_MONOTONIC`, or until a signal comes.
pub fn sleep_until_host(host_ns: u64) {
    let time = time_of(host_ns);
    // SAFETY: the time is valid for reading; what is left is not asked for.
    unsafe {
        (real().clock_nanosleep)(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, ptr::null_mut())
    };
}

fn clock_ns(clock: clockid_t) -> u64 {
    let mut time = time_of(0);
    // SAFETY: `time` is valid for writing. A clock that does not exist leaves it at zero.
    unsafe { (real().clock_gettime)(clock, &raw mut time) };
    ns_of(&time)
}

fn time_of(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Of a time that is not negative; a negative one is none.
fn ns_of(time: &timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Whether a clock tells the time, and not how much of a CPU somebody had.
const fn tells_the_time(clock: clockid_t) -> bool {
    clock >= 0 && clock != libc::CLOCK_PROCESS_CPUTIME_ID && clock != libc::CLOCK_THREAD_CPUTIME_ID
}

/// As clock_gettime(2).
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: as documented on this function.
    unsafe {
        let result = (real().clock_gettime)(clock, time);
        if result == 0 && tells_the_time(clock) && !time.is_null() {
            let lag_ns = CLOCK.get().lag_ns(host_ns());
            if lag_ns > 0 {
                *time = time_of(ns_of(&*time).saturating_sub(lag_ns));
            }
        }
        result
    }
}

/// As gettimeofday(2); no time zone is told.
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut c_void) -> c_int {
    let mut exact = time_of(0);
    // SAFETY: `exact` is valid for writing, and `time` where it is not null.
    unsafe {
        let result = clock_gettime(libc::CLOCK_REALTIME, &raw mut exact);
        if !time.is_null() {
            *time = timeval { tv_sec: exact.tv_sec, tv_usec: exact.tv_nsec / 1_000 };
        }
        result
    }
}

/// As time(2).
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(time: *mut libc::time_t) -> libc::time_t {
    let mut exact = time_of(0);
    // SAFETY: `exact` is valid for writing, and `time` where it is not null.
    unsafe {
        clock_gettime(libc::CLOCK_REALTIME, &raw mut exact);
        if !time.is_null() {
            *time = exact.tv_sec;
        }
    }
    exact.tv_sec
}

/// As nanosleep(2). A signal does not end it while the clock is slow.
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: as documented on this function.
    match unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, time, left) } {
        0 => 0,
        error => {
            // SAFETY: it is the calling thread's own.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// As clock_nanosleep(2). A signal does not end it while the clock is slow.
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let slow = CLOCK.get();
    let lag_ns = slow.lag_ns(host_ns());
    let is_absolute = flags & libc::TIMER_ABSTIME != 0;
    // SAFETY: as documented on this function; `time` is only read where it is there.
    unsafe {
        if time.is_null() || !tells_the_time(clock) || (lag_ns == 0 && !slow.is_slow()) {
            return (real().clock_nanosleep)(clock, flags, time, left);
        }
        let asked_ns = ns_of(&*time);
        let for_ns = match is_absolute {
            true => asked_ns.saturating_sub(clock_ns(clock).saturating_sub(lag_ns)),
            false => asked_ns,
        };
        let deadline_ns = now_ns().saturating_add(for_ns);
        while let Some(piece_ns) = piece(deadline_ns, PIECE_NS) {
            sleep_until_host(host_ns() + piece_ns);
        }
    }
    0
}

/// For how long to wait next, in the host's time, for the machine's clock to show `deadline_ns`; `None`: it
/// does.
fn piece(deadline_ns: u64, most_ns: u64) -> Option<u64> {
    let (clock, host_ns) = (CLOCK.get(), host_ns());
    let left_ns = deadline_ns.saturating_sub(clock.own(host_ns));
    // Never nothing, or the last part of a nanosecond would be waited for for ever.
    (left_ns > 0).then(|| clock.stretch(left_ns).clamp(1, most_ns))
}

/// As usleep(3).
///
/// # Safety
/// None: it takes a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usleep(us: c_uint) -> c_int {
    let time = time_of(u64::from(us) * 1_000);
    // SAFETY: the time is valid for reading.
    unsafe { nanosleep(&raw const time, ptr::null_mut()) }
}

/// As sleep(3).
///
/// # Safety
/// None: it takes a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let time = time_of(u64::from(seconds) * 1_000_000_000);
    // SAFETY: the time is valid for reading.
    unsafe { nanosleep(&raw const time, ptr::null_mut()) };
    0
}

/// As poll(2).
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(descriptors: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let time = u64::try_from(timeout_ms).map(|ms| time_of(ms * 1_000_000));
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: as documented on this function.
    unsafe { ppoll(descriptors, count, time, ptr::null()) }
}

/// As ppoll(2).
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let wait = real().ppoll;
    // SAFETY: as documented on this function; `time` is only read where it is there.
    unsafe {
        if time.is_null() || !CLOCK.get().is_slow() {
            return wait(descriptors, count, time, mask);
        }
        let deadline_ns = now_ns().saturating_add(ns_of(&*time));
        loop {
            let left_ns = piece(deadline_ns, PIECE_NS);
            let piece = time_of(left_ns.unwrap_or(0));
            let result = wait(descriptors, count, &raw const piece, mask);
            if result != 0 || left_ns.is_none() {
                return result;
            }
        }
    }
}

/// As pthread_cond_timedwait(3), but that it may end a second after it began for no reason.
///
/// # Safety
/// As of the C library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    deadline: *const timespec,
) -> c_int {
    let wait = real().pthread_cond_timedwait;
    let clock = CLOCK.get();
    let host_ns = host_ns();
    let lag_ns = clock.lag_ns(host_ns);
    // SAFETY: as documented on this function.
    unsafe {
        if deadline.is_null() || (lag_ns == 0 && !clock.is_slow()) {
            return wait(condition, mutex, deadline);
        }
        let asked_ns = ns_of(&*deadline);
        // The condition does not tell whose clock its deadlines are of.
        let host_now_ns = if asked_ns > SINCE_START_NS { clock_ns(libc::CLOCK_REALTIME) } else { host_ns };
        let left_ns = clock.stretch(asked_ns.saturating_sub(host_now_ns.saturating_sub(lag_ns)));
        let is_cut = left_ns > CONDITION_NS;
        let until = time_of(host_now_ns + left_ns.min(CONDITION_NS));
        match wait(condition, mutex, &raw const until) {
            libc::ETIMEDOUT if is_cut => 0,
            result => result,
        }
    }
}
