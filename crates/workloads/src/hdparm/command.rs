//! hdparm's command line. It has its timings alone, whoever made the workload.

use super::options::Timings;
use crate::job::text;
use crate::{Error, Invocation, Job};

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let (target, _) = job.needed_target()?;
    let timings = Timings::parse(&job.workload.options).map_err(|error| job.refused("hdparm", &error))?;
    let mut argv = vec!["hdparm".to_owned()];
    argv.extend(timings.direct.then(|| "--direct".to_owned()));
    if let Some(gib) = timings.offset_gib {
        argv.extend(["--offset".to_owned(), gib.to_string()]);
    }
    argv.extend(timings.device.then(|| "-t".to_owned()));
    argv.extend(timings.cache.then(|| "-T".to_owned()));
    argv.push(text(target));
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::{Tool, Workload};
    use domain::units::Bytes;
    use std::path::Path;

    fn made(options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "read".into(), tool: Tool::Hdparm, options };
        let target = Some((Path::new("/dev/loop3"), Bytes::from_mib(64)));
        let made = invocation(&Job::planned(&workload, target, Path::new("/n/raw")));
        made.map_or_else(|error| error.to_string(), |made| made.argv.join(" "))
    }

    #[test]
    fn the_command_is_literal() {
        assert_eq!(made(&[]), "hdparm -t /dev/loop3");
        assert_eq!(made(&[("t", "0"), ("T", "1")]), "hdparm -T /dev/loop3");
        let all = [("T", "1"), ("direct", "1"), ("offset", "2")];
        assert_eq!(made(&all), "hdparm --direct --offset 2 -t -T /dev/loop3");
    }

    #[test]
    fn nothing_but_timings_is_passed_on() {
        let told = made(&[("security-erase", "x")]);
        assert!(told.starts_with("cannot give `security-erase = x` to hdparm: "), "{told}");
    }
}
