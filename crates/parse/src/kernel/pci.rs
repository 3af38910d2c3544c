//! Links of PCI Express in `/sys/bus/pci/devices`: `Documentation/ABI/testing/sysfs-bus-pci`,
//! drivers/pci/pci.c (`pci_speed_string`).

use super::Error;

/// The speed of a lane in millions of transfers a second: 8000 of `8.0 GT/s PCIe`; `None` where the kernel
/// says `Unknown`.
///
/// # Errors
/// Where it is neither.
pub fn megatransfers(text: &str) -> Result<Option<u32>, Error> {
    let word = text.split_whitespace().next().unwrap_or_default();
    if word == "Unknown" {
        return Ok(None);
    }
    let gigatransfers: Option<f64> = word.parse().ok().filter(|speed| (0.5..1000.0).contains(speed));
    let known = gigatransfers.filter(|_| text.contains("GT/s"));
    let speed = known.map(|speed| Some((speed * 1000.0).round() as u32));
    speed.ok_or_else(|| Error::value(1, text, "a speed such as `8.0 GT/s PCIe`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_the_kernel_writes_them() {
        for (text, speed) in [
            ("2.5 GT/s PCIe", Some(2500)),
            ("8.0 GT/s PCIe", Some(8000)),
            ("5 GT/s", Some(5000)),
            ("Unknown", None),
        ] {
            assert_eq!(megatransfers(text).unwrap(), speed, "{text}");
        }
        for text in ["", "fast", "8.0 MT/s", "NaN GT/s", "-1 GT/s"] {
            assert!(megatransfers(text).is_err(), "{text}");
        }
    }
}
