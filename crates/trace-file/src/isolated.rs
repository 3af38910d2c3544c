//! Calls of a library that panics on some damaged files where it should give an error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a thread of its own. A panic there does not end the program, even one whose panics do.
    OwnThread,
    /// In the caller's. A panic is caught where panics unwind, and else ends the process, which has to be
    /// one that does nothing else: there may be no second thread in it.
    Here,
}

thread_local! {
    /// Tells a thread's caller that it gave up; in threads of [`Place::OwnThread`] alone.
    static GIVE_UP: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// What the call gives; `None` where it panicked, or no thread could be started.
pub(crate) fn call<T: Send + 'static>(place: Place, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // Nothing that a panic may leave half done is looked at again: the caller gives up on this file.
    let caught = move || panic::catch_unwind(AssertUnwindSafe(call));
    if place == Place::Here {
        return caught().ok();
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(stop_at_panics);
    let (tell, told) = sync_channel(1);
    let run = move || {
        let to_hook = tell.clone();
        // Where the hook has told it, what comes behind finds no room or no caller.
        GIVE_UP.set(Some(Box::new(move || drop(to_hook.try_send(None)))));
        drop(tell.try_send(caught().ok()));
    };
    thread::Builder::new().name("trace-decoder".to_owned()).spawn(run).ok()?;
    told.recv().ok()?
}

/// Where a panic would end the program (`panic = "abort"`), one in a thread of [`Place::OwnThread`] does not:
/// its caller is told, and the thread stands still for good. Such a panic is no fault of the program, and
/// nothing is printed of it.
fn stop_at_panics() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let Some(give_up) = GIVE_UP.take() else { return others(info) };
        give_up();
        while cfg!(panic = "abort") {
            thread::park();
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_call_is_no_panic_of_the_caller() {
        for place in [Place::OwnThread, Place::Here] {
            assert_eq!(call(place, || 7), Some(7));
            assert_eq!(call(place, || -> u8 { panic!("damaged") }), None);
            assert_eq!(call(place, || "again"), Some("again"));
        }
    }
}
