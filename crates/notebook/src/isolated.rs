//! Calls of the library that decodes traces: it panics on some damaged files where it should give an error.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use trace_file::Caller;

/// Calls it in a thread of its own, which serves all calls of one thread. A panic there does not end the
/// program, even one whose panics do; the next call has a new thread.
#[derive(Debug)]
pub struct OwnThread;

/// A call, and who is told whether it came to its end.
type Call = (Box<dyn FnOnce() + Send>, SyncSender<bool>);

thread_local! {
    /// The thread that serves this one's calls; none before the first and after a panic.
    static SERVES: RefCell<Option<Sender<Call>>> = const { RefCell::new(None) };

    /// Tells a thread's caller that it gave up; in threads of [`OwnThread`] alone.
    static GIVE_UP: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

impl Caller for OwnThread {
    fn call(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        static HOOK: Once = Once::new();
        HOOK.call_once(stop_at_panics);
        let Some(calls) = SERVES.take().or_else(begun) else { return false };
        let (tell, told) = sync_channel(1);
        let is_done = calls.send((work, tell)).is_ok() && told.recv().unwrap_or(false);
        if is_done {
            SERVES.set(Some(calls));
        }
        is_done
    }
}

/// A thread that serves calls until nobody can send it any; `None` where the kernel gives none.
fn begun() -> Option<Sender<Call>> {
    let (calls, to_serve) = channel();
    thread::Builder::new().name("trace-decoder".to_owned()).spawn(move || serve(&to_serve)).ok()?;
    Some(calls)
}

fn serve(calls: &Receiver<Call>) {
    for (work, tell) in calls {
        let to_hook = tell.clone();
        // Where the hook has told it, what comes behind finds no room or no caller.
        GIVE_UP.set(Some(Box::new(move || {
            let _ = to_hook.try_send(false);
        })));
        // Nothing that a panic may leave half done is looked at again: the caller gives up on this file.
        let is_done = panic::catch_unwind(AssertUnwindSafe(work)).is_ok();
        drop(GIVE_UP.take());
        let _ = tell.try_send(is_done);
        if !is_done {
            return;
        }
    }
}

/// Where a panic would end the program (`panic = "abort"`), one in a thread of [`OwnThread`] does not: its
/// caller is told, and the thread stands still for good. Such a panic is no fault of the program, and nothing
/// is printed of it.
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
        assert!(OwnThread.call(Box::new(|| {})));
        assert!(!OwnThread.call(Box::new(|| panic!("damaged"))));
        assert!(OwnThread.call(Box::new(|| {})));
    }
}
