//! `/proc/kallsyms`: the kernel's symbols (kernel `kernel/kallsyms.c`).

/// The address and name of a function in one line: `ffffffff81000000 T _stext`, with the module behind it.
/// `None` of what is none, and where the kernel hides addresses: all are zero then (`kernel.kptr_restrict`).
pub fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    (is_code && address > 0).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_an_address_and_a_name_and_what_is_hidden_has_none() {
        assert_eq!(function("ffffffff81234560 t wb_workfn"), Some((0xffff_ffff_8123_4560, "wb_workfn")));
        assert_eq!(function("ffffffffc0000010 t crypt_work\t[dm_crypt]"), {
            Some((0xffff_ffff_c000_0010, "crypt_work"))
        });
        assert_eq!(function("ffffffff81234560 D jiffies"), None);
        assert_eq!(function("0000000000000000 T _stext"), None);
        assert_eq!(function("tea"), None);
    }
}
