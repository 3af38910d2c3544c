//! What fio asks for: a workload's options as a [`FioJob`], and the job's steps one after the other, a
//! [`Stream`].

mod draws;
mod job;
mod offsets;
mod stream;
mod visited;

pub use draws::{Draws, Seeding};
pub use job::{
    Advice, Caching, Depth, Ending, Engine, FioJob, Pace, PerDirection, Rate, Replay, SyncedWrites, Syncs,
    Think, ThinkAfter,
};
pub use offsets::{Access, BlockSizes, Coverage, Distribution, Mix, Pattern, PatternSpec, RunOf, Span, Zone};
pub use stream::{Step, Stream};
