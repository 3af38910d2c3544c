//! Quantities as files write them: a number with its unit, in a string.

use domain::time::Nanos;
use domain::units::Bytes;
use serde::de::{Deserialize, Deserializer, Error};

/// `"2 ms"`, `"70 us"`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Nanos);

/// `"32 MiB"`, `"1000204886016 B"`; a lone letter is a power of 1024.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub Bytes);

/// `"111 MB/s"`.
#[derive(Clone, Copy, Debug)]
pub struct Rate(pub Bytes);

/// `"7%"`.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub f64);

/// Longer than any time a disk takes; sums of a few stay far below overflow.
const LONGEST: Nanos = Nanos::from_secs(60);

/// Larger than any disk; products with nanoseconds still fit in 128 bits.
const LARGEST: Bytes = Bytes::new(1 << 60);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        read(input, "is no time; write it as `\"2 ms\"` or `\"70 us\"`, at most 60 s", |text| {
            Nanos::parse(text).filter(|span| *span <= LONGEST).map(Self)
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        read(input, "is no size; write it as `\"32 MiB\"` or `\"1000 GB\"`", |text| {
            Bytes::parse(text).filter(|size| *size <= LARGEST).map(Self)
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        read(input, "is no rate above zero; write it as `\"111 MB/s\"`", |text| {
            let rate = Bytes::parse(text.trim().strip_suffix("/s")?)?;
            (rate.get() > 0 && rate <= LARGEST).then_some(Self(rate))
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        read(input, "is no share; write it as `\"7%\"`", |text| {
            let percent = text.trim().strip_suffix('%')?.trim().parse::<f64>().ok()?;
            (0.0..=100.0).contains(&percent).then_some(Self(percent / 100.0))
        })
    }
}

fn read<'de, D: Deserializer<'de>, T>(
    input: D,
    wrong: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(input)?;
    parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` {wrong}")))
}
