//! Links of SATA in `/sys/class/ata_link` and what a disk says of itself in `/sys/class/ata_device`:
//! `Documentation/ABI/testing/sysfs-ata`, drivers/ata/libata-transport.c, drivers/ata/libata-core.c
//! (`sata_spd_string`); ATA8-ACS, 7.16 (IDENTIFY DEVICE).

use super::Error;

/// The word of IDENTIFY DEVICE that names the speeds of a SATA disk, and its bits: 1.5, 3 and 6 Gbit/s.
const CAPABILITIES: usize = 76;
const SPEEDS: [(u16, u32); 3] = [(1 << 3, 6000), (1 << 2, 3000), (1 << 1, 1500)];

/// What `sata_spd` holds, in millions of transfers a second: 6000 of `6.0 Gbps`.
///
/// # Errors
/// Where it is no such speed.
pub fn megatransfers(text: &str) -> Result<u32, Error> {
    let number = text.trim().strip_suffix(" Gbps").and_then(|number| number.parse::<f64>().ok());
    let known = number.filter(|speed| (0.5..1000.0).contains(speed));
    let speed = known.map(|speed| (speed * 1000.0).round() as u32);
    speed.ok_or_else(|| Error::value(1, text, "a speed such as `6.0 Gbps`"))
}

/// The highest speed that a disk says it has, of the words of its `id` file, in millions of transfers a
/// second; `None` where it names none, as one on a parallel cable.
///
/// # Errors
/// Where it does not hold such words.
pub fn most_megatransfers(text: &str) -> Result<Option<u32>, Error> {
    let word = text.split_whitespace().nth(CAPABILITIES);
    let word = word.ok_or_else(|| Error::value(1, "", "the 256 words of IDENTIFY DEVICE"))?;
    let bits = u16::from_str_radix(word, 16)
        .map_err(|_| Error::value(1, word, "a word of IDENTIFY DEVICE, four hexadecimal digits"))?;
    // ATA8-ACS: 0000h and FFFFh say nothing.
    let says = bits != 0 && bits != u16::MAX;
    Ok(SPEEDS.iter().find(|(bit, _)| says && bits & bit != 0).map(|(_, speed)| *speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel writes it: eight words a line.
    fn id(capabilities: &str) -> String {
        let word = |number: usize| if number == CAPABILITIES { capabilities } else { "0040" };
        let ends = |number: usize| if number % 8 == 7 { "\n" } else { " " };
        (0..256).map(|number| format!("{}{}", word(number), ends(number))).collect()
    }

    #[test]
    fn speeds_are_read_as_the_kernel_writes_them() {
        for (text, speed) in [("1.5 Gbps\n", 1500), ("3.0 Gbps", 3000), ("6.0 Gbps", 6000)] {
            assert_eq!(megatransfers(text).unwrap(), speed, "{text}");
        }
        for text in ["", "fast", "6.0 GT/s", "NaN Gbps", "-1 Gbps"] {
            assert!(megatransfers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_disk_says_the_highest_of_its_speeds() {
        for (word, speed) in
            [("850e", Some(6000)), ("0706", Some(3000)), ("0002", Some(1500)), ("0000", None), ("ffff", None)]
        {
            assert_eq!(most_megatransfers(&id(word)).unwrap(), speed, "{word}");
        }
        assert!(most_megatransfers("0040 0040").is_err());
        assert!(most_megatransfers(&id("none")).is_err());
    }
}
