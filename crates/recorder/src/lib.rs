//! A fixed-interval sampler over kept descriptors.
