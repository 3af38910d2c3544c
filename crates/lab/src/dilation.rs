//! Time dilation: a study stretched for a slow machine, and its results in the machine's own time.
