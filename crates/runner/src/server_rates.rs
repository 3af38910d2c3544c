//! What the counters of a watched server say: rates, and how far they can be trusted.

use crate::watched_server::{Counted, WatchedServer};
use analysis::server::{of_autovacuum, rates};
use domain::database::counters::{BEGAN_ANEW, NOT_MEASURED};
use domain::outcome::Metric;
use std::collections::BTreeMap;

/// Figures, the state of the server, and what is to be said of both.
pub struct Told {
    /// By name; what does not follow from the counters is absent.
    pub metrics: BTreeMap<String, Metric>,
    /// For a trial: which server, its settings, what was not measured and why.
    pub environment: BTreeMap<String, String>,
    /// What is to be said of the figures.
    pub warnings: Vec<String>,
}

/// What is to be said of a server that was watched. `ended_by_itself`: so did the load, and with it its
/// sessions.
pub fn told(server: &WatchedServer, counted: &Counted, ended_by_itself: bool) -> Told {
    let rates = rates(server.kind(), &counted.samples);
    let mut environment = server.shown();
    let mut put = |name: &str, value: String| environment.insert(name.to_owned(), value);
    put("server counters", format!("{} samples; rates over {}", counted.count, rates.span));
    // What is not asked for is said as such, whatever else is missing.
    for missing in rates.missing.iter().chain(server.missing()) {
        put(&format!("{NOT_MEASURED}{}", missing.metric), missing.why.clone());
    }
    let mut warnings: Vec<String> = server.warning().into_iter().collect();
    if let Some(what) = rates.began_anew {
        put(BEGAN_ANEW, what.clone());
        warnings.push(format!("{}: {what}", server.name()));
    }
    if let Some(why) = &counted.last_refusal {
        warnings.push(format!(
            "{} of the questions for its counters had no answer; the last: {why}",
            counted.unanswered
        ));
    }
    warnings
        .extend(counted.not_kept.iter().map(|why| format!("its samples could not be kept in a file: {why}")));
    if !rates.metrics.is_empty() {
        warnings.extend(server.bound(rates.span, ended_by_itself));
        warnings.extend(of_autovacuum(server.kind(), &environment, &rates.metrics));
    }
    Told { metrics: rates.metrics, environment, warnings }
}
