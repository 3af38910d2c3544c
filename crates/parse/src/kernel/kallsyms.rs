//! `/proc/kallsyms`: the kernel's symbols (kernel `kernel/kallsyms.c`).

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Where it begins.
    pub address: u64,
    /// Its name.
    pub name: &'a str,
    /// The module that it is part of; `None` of what is built in.
    pub module: Option<&'a str>,
}

/// The function in one line: `ffffffff81000000 T _stext`, with `[module]` behind it. `None` of what is none,
/// and where the kernel hides addresses: all are zero then (`kernel.kptr_restrict`).
pub fn function(line: &str) -> Option<Function<'_>> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    (is_code && address > 0).then_some(Function { address, name, module })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_an_address_and_a_name_and_what_is_hidden_has_none() {
        let of = |address, name, module| Some(Function { address, name, module });
        assert_eq!(function("ffffffff81234560 t wb_workfn"), of(0xffff_ffff_8123_4560, "wb_workfn", None));
        assert_eq!(
            function("ffffffffc0000010 t crypt_work\t[dm_crypt]"),
            of(0xffff_ffff_c000_0010, "crypt_work", Some("dm_crypt"))
        );
        assert_eq!(function("ffffffff81234560 D jiffies"), None);
        assert_eq!(function("0000000000000000 T _stext"), None);
        assert_eq!(function("tea"), None);
    }
}
