//! From a planned trial to a measured one: tools, settling, guards.
