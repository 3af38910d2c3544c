//! Devices on USB in `/sys/bus/usb/devices`: `Documentation/ABI/stable/sysfs-bus-usb`,
//! drivers/usb/core/sysfs.c.

use super::Error;

/// What `speed` holds, in millions of bits a second: 480, 5000; 1.5 becomes 1. `None` where the kernel says
/// `unknown`.
///
/// # Errors
/// Where it is neither.
pub fn megabits(text: &str) -> Result<Option<u32>, Error> {
    if text.trim() == "unknown" {
        return Ok(None);
    }
    let number: Option<f64> = text.trim().parse().ok().filter(|speed| (1.0..1e6).contains(speed));
    number.map(|speed| Some(speed as u32)).ok_or_else(|| Error::value(1, text, "a speed such as `480`"))
}

/// What `version` holds, as a device names the version of USB that it is made for: (2, 10) of ` 2.10`.
///
/// # Errors
/// Where it is no such version.
pub fn version(text: &str) -> Result<(u8, u8), Error> {
    let parts = text.trim().split_once('.');
    let known = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    known.ok_or_else(|| Error::value(1, text, "a version such as `2.10`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_versions_are_read_as_the_kernel_writes_them() {
        let speeds = [("1.5", Some(1)), ("12", Some(12)), ("480\n", Some(480)), ("10000", Some(10_000))];
        for (text, speed) in speeds.into_iter().chain([("unknown\n", None)]) {
            assert_eq!(megabits(text).unwrap(), speed, "{text}");
        }
        assert_eq!(version(" 2.10\n").unwrap(), (2, 10));
        assert_eq!(version(" 3.20").unwrap(), (3, 20));
        for text in ["", "fast", "-480", "NaN"] {
            assert!(megabits(text).is_err() && version(text).is_err(), "{text}");
        }
    }
}
