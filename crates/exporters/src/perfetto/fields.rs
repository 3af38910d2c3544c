//! The numbers of Perfetto's fields that are written, a module a message
//! (`protos/perfetto/trace/perfetto_trace.proto` of Perfetto 59.1).

/// `Trace`.
pub(super) mod trace {
    pub const PACKET: u32 = 1;
}

/// `TracePacket`.
pub(super) mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const FTRACE_STATS: u32 = 34;
    pub const SYSTEM_INFO: u32 = 45;
    pub const TRACK_DESCRIPTOR: u32 = 60;

    /// `SequenceFlags`: what was interned before counts no more.
    pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
    /// `SequenceFlags`: it is read with what was interned.
    pub const NEEDS_INCREMENTAL_STATE: u32 = 2;
}

/// `ClockSnapshot`, its `Clock`, and `BuiltinClock`.
pub(super) mod clock {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY: u32 = 2;
    pub const ID: u32 = 1;
    pub const TIMESTAMP: u32 = 2;

    pub const REALTIME: u32 = 1;
    pub const MONOTONIC: u32 = 3;
    pub const BOOTTIME: u32 = 6;
}

/// `SystemInfo` and `Utsname`.
pub(super) mod system {
    pub const UTSNAME: u32 = 1;
    pub const CPUS: u32 = 8;
    pub const SYSNAME: u32 = 1;
    pub const RELEASE: u32 = 3;
}

/// `TrackDescriptor` and `CounterDescriptor`.
pub(super) mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const RANK: u32 = 12;
    pub const UNIT_NAME: u32 = 6;

    /// `ChildTracksOrdering`: by rank.
    pub const EXPLICIT: u32 = 3;
}

/// `TrackEvent` and `DebugAnnotation`.
pub(super) mod event {
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const TRACK: u32 = 11;
    pub const NAME: u32 = 23;
    pub const DOUBLE_VALUE: u32 = 44;

    pub const SLICE_BEGIN: u32 = 1;
    pub const SLICE_END: u32 = 2;
    pub const INSTANT: u32 = 3;
    pub const COUNTER: u32 = 4;

    pub const ANNOTATION_NAME: u32 = 10;
    pub const ANNOTATION_UINT: u32 = 3;
}

/// `ProcessTree`, its `Process` and `Thread`.
pub(super) mod tree {
    pub const PROCESSES: u32 = 1;
    pub const THREADS: u32 = 2;
    pub const PID: u32 = 1;
    pub const PARENT: u32 = 2;
    pub const COMMAND_LINE: u32 = 3;
    pub const IS_KERNEL: u32 = 8;
    pub const IS_COMM: u32 = 9;
    pub const TID: u32 = 1;
    pub const THREAD_GROUP: u32 = 3;
}

/// `InternedData` and `InternedString`.
pub(super) mod interned {
    pub const KERNEL_SYMBOLS: u32 = 26;
    pub const ID: u32 = 1;
    pub const TEXT: u32 = 2;
}

/// `FtraceEventBundle` and `FtraceEvent`.
pub(super) mod ftrace {
    pub const CPU: u32 = 1;
    pub const EVENT: u32 = 2;
    pub const LOST_EVENTS: u32 = 3;

    pub const TIMESTAMP: u32 = 1;
    pub const PID: u32 = 2;
    pub const FLAGS: u32 = 5;
    pub const SCHED_SWITCH: u32 = 4;
    pub const CPU_FREQUENCY: u32 = 11;
    pub const CPU_IDLE: u32 = 13;
    pub const SCHED_WAKING: u32 = 20;
    pub const SOFTIRQ_ENTRY: u32 = 24;
    pub const SOFTIRQ_EXIT: u32 = 25;
    pub const IRQ_ENTRY: u32 = 36;
    pub const IRQ_EXIT: u32 = 37;
    pub const WORK_END: u32 = 57;
    pub const WORK_BEGIN: u32 = 58;
    pub const SCHED_EXIT: u32 = 238;
    pub const SCHED_FORK: u32 = 239;
}

/// `FtraceStats` and `FtraceCpuStats`.
pub(super) mod stats {
    pub const PHASE: u32 = 1;
    pub const CPU_STATS: u32 = 2;
    pub const CPU: u32 = 1;
    pub const OVERRUN: u32 = 3;
    pub const READ_EVENTS: u32 = 9;

    pub const START: u32 = 1;
    pub const END: u32 = 2;
}
