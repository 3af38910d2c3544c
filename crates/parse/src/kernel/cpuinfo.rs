//! `/proc/cpuinfo`: proc_cpuinfo(5), `arch/x86/kernel/cpu/proc.c`.

use super::{Error, number_at as number};

/// One block of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor<'a> {
    /// `processor`.
    pub number: u32,
    /// `vendor_id`.
    pub vendor: Option<&'a str>,
    /// `model name`.
    pub name: Option<&'a str>,
    /// `cpu family`.
    pub family: Option<u32>,
    /// `model`.
    pub model: Option<u32>,
    /// `stepping`; `None` where it says `unknown`.
    pub stepping: Option<u32>,
    /// `microcode`.
    pub microcode: Option<&'a str>,
    /// `physical id`: the package.
    pub package: Option<u32>,
    /// `core id`, unique within a package.
    pub core: Option<u32>,
    /// `flags`, separated by spaces.
    pub flags: Option<&'a str>,
}

impl Processor<'_> {
    /// Whether it has a flag; `None` where it lists none.
    pub fn has_flag(&self, flag: &str) -> Option<bool> {
        Some(self.flags?.split(' ').any(|f| f == flag))
    }
}

/// Reads all blocks that name a processor, in their order. Unknown keys are passed over: each architecture
/// has its own.
///
/// # Errors
/// Where a known number is none.
pub fn parse(text: &str) -> Result<Vec<Processor<'_>>, Error> {
    let mut processors: Vec<Processor> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value, line) = (key.trim(), value.trim(), index + 1);
        if key == "processor" {
            processors.push(Processor { number: number(line, value)?, ..Processor::default() });
        } else if let Some(processor) = processors.last_mut() {
            set(processor, key, value, line)?;
        }
    }
    Ok(processors)
}

fn set<'a>(processor: &mut Processor<'a>, key: &str, value: &'a str, line: usize) -> Result<(), Error> {
    match key {
        "vendor_id" => processor.vendor = Some(value),
        "model name" => processor.name = Some(value),
        "cpu family" => processor.family = Some(number(line, value)?),
        // On other architectures than x86 `model` is a name.
        "model" => processor.model = value.parse().ok(),
        "stepping" if value != "unknown" => processor.stepping = Some(number(line, value)?),
        "microcode" => processor.microcode = Some(value),
        "physical id" => processor.package = Some(number(line, value)?),
        "core id" => processor.core = Some(number(line, value)?),
        "flags" => processor.flags = Some(value),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_a_processor() {
        let text = "processor\t: 3\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nphysical id\t: 1\ncore id\t\t: 7\nflags\t\t: fpu hypervisor\npower management:\n";
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].number, found[0].package, found[0].core), (3, Some(1), Some(7)));
        assert_eq!(found[0].has_flag("hypervisor"), Some(true));
        assert_eq!(found[0].has_flag("hyper"), Some(false));
    }

    #[test]
    fn an_arm_file_has_processors_without_a_model() {
        let found =
            parse("processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name, found[0].has_flag("x")), (None, None));
    }

    #[test]
    fn a_wrong_number_names_its_line() {
        let error = parse("processor : 0\nphysical id : x\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: `x` is not a number");
    }
}
