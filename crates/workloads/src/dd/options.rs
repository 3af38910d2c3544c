//! dd's operands, and two of Flyball's own: which a workload may set (dd(1), GNU coreutils).
//!
//! Flyball's own are `direction`, `read` (the default: from the target to `/dev/null`) or `write` (to the
//! target, in place), and `source`, what is written: `zero` (the default) or `random`. The study's reader
//! asks here to tell early and where, the runner once more when it makes the command.

use crate::options::{Options, Refusal};
use domain::units::Bytes;

/// The block size where none is given.
pub const DEFAULT_BLOCK: Bytes = Bytes::new(512);

/// The operands that may be set.
pub const NAMES: [&str; 9] = ["bs", "conv", "count", "direction", "iflag", "oflag", "seek", "skip", "source"];

const FLAGS: [&str; 7] = ["direct", "dsync", "sync", "fullblock", "noatime", "nocache", "nofollow"];
const CONVERSIONS: [&str; 6] = ["notrunc", "nocreat", "fdatasync", "fsync", "noerror", "swab"];

/// Whether dd may be given this operand with this value.
///
/// # Errors
/// Why it may not.
pub fn check(option: &str, value: &str) -> Result<(), Refusal> {
    match option {
        "if" | "of" => Err(Refusal::Forbidden(
            "Flyball runs dd on the study's target and on nothing else; write `direction = \"read\"` or `\"write\"`",
        )),
        "status" => Err(Refusal::Forbidden("Flyball sets it, to read dd's report")),
        "bs" => block_size(value).map(|_| ()),
        "count" | "skip" | "seek" if value.parse::<u64>().is_err() => {
            Err(Refusal::Value(format!("is `{value}`; write a plain number of blocks")))
        }
        "count" | "skip" | "seek" => Ok(()),
        "iflag" | "oflag" => each_of(&FLAGS, value),
        "conv" => each_of(&CONVERSIONS, value),
        "direction" => one_of(["read", "write"], value),
        "source" => one_of(["zero", "random"], value),
        _ => Err(Refusal::Unknown { tool: "dd" }),
    }
}

/// What `bs` means in bytes.
///
/// # Errors
/// Where it is no size from 1 byte to 1 GiB, or one that dd reads otherwise.
pub fn block_size(text: &str) -> Result<Bytes, Refusal> {
    let refuse = |why: &str| Err(Refusal::Value(format!("is `{text}`; {why}")));
    match Bytes::parse(text) {
        // dd means blocks of 512 by it, and everybody else bytes.
        _ if text.ends_with('b') && !text.to_ascii_lowercase().ends_with("ib") => {
            refuse("a `b` at the end means blocks to dd; write bytes as a number, or k, M, KiB")
        }
        Some(size) if (1..=1 << 30).contains(&size.get()) => Ok(size),
        _ => refuse("a block is a size from 1 byte to 1 GiB, such as 64k or 1M"),
    }
}

fn one_of(known: [&str; 2], value: &str) -> Result<(), Refusal> {
    if known.contains(&value) {
        return Ok(());
    }
    Err(Refusal::Value(format!("is `{value}`; write `{}` or `{}`", known[0], known[1])))
}

fn each_of(known: &[&str], value: &str) -> Result<(), Refusal> {
    let stranger = value.split(',').find(|word| !known.contains(word));
    stranger.map_or(Ok(()), |word| {
        Err(Refusal::Value(format!("has `{word}`, which is none of `{}`", known.join("`, `"))))
    })
}

/// The operands of a read alone. `nofollow` would not open what is given as a descriptor's path.
pub(super) fn only_reads(options: &Options) -> Result<(), String> {
    const READING: [&str; 5] = ["bs", "count", "direction", "iflag", "skip"];
    if let Some(option) = options.keys().find(|option| !READING.contains(&option.as_str())) {
        return Err(format!(
            "`{option}` is not among dd's operands that only read, which are `{}`; take it out",
            READING.join("`, `")
        ));
    }
    let given = |name: &str| options.get(name).map(String::as_str);
    if let Some(direction) = given("direction").filter(|direction| *direction != "read") {
        return Err(format!("`direction = {direction}` writes to it; write `direction = \"read\"`"));
    }
    if given("iflag").is_some_and(|flags| flags.split(',').any(|flag| flag == "nofollow")) {
        return Err("`iflag = nofollow` does not open a descriptor that it is given; take it out".to_owned());
    }
    Ok(())
}

/// dd would make the target longer.
pub(super) fn reaches_beyond(options: &Options, target: Bytes) -> Option<String> {
    if options.get("direction").map(String::as_str) != Some("write") {
        return None;
    }
    let block = options.get("bs").map_or(Some(DEFAULT_BLOCK), |bs| Bytes::parse(bs))?;
    let blocks = |name: &str| options.get(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let end = blocks("count").saturating_add(blocks("seek")).saturating_mul(block.get());
    (end > target.get()).then(|| {
        format!(
            "dd would write up to {}, beyond the target's {target}; make `count`, `seek` or `bs` smaller, or the target larger",
            Bytes::new(end)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_that_may_be_set_is_known() {
        for name in NAMES {
            assert!(
                !matches!(check(name, "x"), Err(Refusal::Unknown { .. } | Refusal::Forbidden(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn only_a_read_is_one() {
        let told = |options: &[(&str, &str)]| {
            only_reads(&options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        for options in
            [&[][..], &[("direction", "read")], &[("bs", "1M"), ("iflag", "direct"), ("skip", "2")]]
        {
            assert_eq!(told(options), Ok(()));
        }
        for option in [
            ("direction", "write"),
            ("direction", "read "),
            ("of", "/dev/sda"),
            ("seek", "1"),
            ("oflag", "direct"),
            ("conv", "fsync"),
            ("source", "zero"),
            ("iflag", "direct,nofollow"),
        ] {
            assert!(told(&[option]).is_err(), "{option:?}");
        }
    }

    #[test]
    fn flags_that_change_more_than_the_target_are_refused() {
        for (option, value) in
            [("conv", "excl"), ("conv", "notrunc,sparse"), ("oflag", "append"), ("bs", "4b"), ("bs", "0")]
        {
            assert!(matches!(check(option, value), Err(Refusal::Value(_))), "{option} = {value}");
        }
        assert_eq!(check("iflag", "direct,fullblock"), Ok(()));
        assert_eq!(block_size("64KiB"), Ok(Bytes::from_kib(64)));
    }
}
