//! Text of others that would steer a terminal, forge a line, run in a page or be computed by a spreadsheet,
//! in every field that a foreign notebook, file, study or command line can set, through the program itself:
//! none of it is alive in what comes out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;
use crate::support::Place;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools");

const PAYLOADS: usize = 200;

/// What acts, by what it acts on.
const CORES: [&str; 50] = [
    // Terminals: CSI, OSC, DCS, APC, single characters, and the same in 8 bits.
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x1b[8mhidden",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1bP+q544e\x1b\\",
    "\x1b_Gi=1\x1b\\",
    "\x1bc",
    "\u{9b}31m",
    "\u{9d}0;title\u{9c}",
    "\u{90}q\u{9c}",
    "\x07\x07",
    "safe\x08\x08\x08\x08evil",
    "\x0b\x0c",
    "\x7f\x7f",
    "nul\0nul",
    "\x0e\x0f",
    // Forged lines.
    "x\nerror: forged",
    "x\r\nwarning: forged",
    "x\rforged",
    "x\u{85}forged",
    "x\u{2028}forged\u{2029}forged",
    "x\n\n## forged\n\n- forged",
    // Directions, and what is not seen.
    "\u{202e}txt.exe",
    "\u{2066}a\u{2067}b\u{2069}",
    "\u{200f}\u{200e}\u{61c}",
    "a\u{200b}b\u{200d}c\u{2060}d",
    "\u{feff}bom",
    "\u{e0041}\u{e0042}",
    "soft\u{ad}hyphen\u{3164}",
    "\u{fff9}a\u{fffa}b\u{fffb}",
    "\u{ffff}\u{fdd0}",
    // Pages.
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "\" onmouseover=\"alert(1)",
    "</title></style></script><svg onload=alert(1)>",
    "<!-- ]]> <![CDATA[ <a href=\"javascript:alert(1)\">",
    "&#x3c;script&#x3e;&lt;b&gt;",
    // Markdown.
    "a | b |\\| c",
    "```\n# forged\n~~~",
    "![x](http://evil.example/p.png)[y](javascript:alert(1))",
    "`code` **b** _i_ # h",
    // Spreadsheets, shells, and texts that only look like escapes.
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "-2+3+cmd\t=1+1",
    "a\",=1+1,\";=1+1",
    "$(reboot)`reboot`; rm -rf / #\\x1b[2J \\ud800",
    "漢字/../../../etc/passwd\\",
];

/// Around them: nothing, a sign of a formula, letters that are written from right to left, and more text than
/// anybody reads.
fn payloads() -> Vec<String> {
    let long = "long ".repeat(200);
    let around = |core: &str| {
        [
            core.to_owned(),
            format!("={core}{core}"),
            format!("עברית {core} العربية"),
            format!("{core}{long}{core}"),
        ]
    };
    let all: Vec<String> = CORES.iter().flat_map(|core| around(core)).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), PAYLOADS);
    all
}

/// Whether a character acts in a terminal or a text. Written down once more, and not the program's own list.
fn acts(c: char) -> bool {
    let invisible =
        ['\u{ad}', '\u{34f}', '\u{61c}', '\u{180e}', '\u{3164}', '\u{feff}', '\u{ffff}', '\u{fdd0}'];
    c.is_control() && c != '\n' && c != '\t'
        || invisible.contains(&c)
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A tally of what was looked at, and everything that was found alive.
#[derive(Default)]
struct Watch {
    outputs: usize,
    fields: BTreeSet<String>,
    alive: BTreeSet<String>,
}

impl Watch {
    fn found(&mut self, place: &str, what: String) {
        self.alive.insert(format!("{place}: {what}"));
    }

    fn fields<const N: usize>(&mut self, names: [&str; N]) {
        self.fields.extend(names.map(str::to_owned));
    }

    /// A text that nobody obeys, in which no line is forged.
    fn inert(&mut self, place: &str, bytes: &[u8]) -> String {
        self.outputs += 1;
        let text = String::from_utf8_lossy(bytes).into_owned();
        if std::str::from_utf8(bytes).is_err() {
            self.found(place, "it is not UTF-8".to_owned());
        }
        if let Some((at, c)) = text.char_indices().find(|(_, c)| acts(*c)) {
            let after: String = text[at..].chars().take(30).collect();
            self.found(place, format!("{c:?} in {after:?}"));
        }
        text
    }

    /// Both streams of a process.
    fn both(&mut self, place: &str, output: &Output) -> String {
        let text = self.inert(place, &output.stdout);
        let talk = self.inert(&format!("{place}, standard error"), &output.stderr);
        for line in text.lines().chain(talk.lines()) {
            if ["error: forged", "warning: forged", "forged", "## forged", "- forged"].contains(&line) {
                self.found(place, format!("a forged line: {line}"));
            }
        }
        if talk.contains("panicked at") {
            self.found(place, talk);
        }
        text
    }

    fn page(&mut self, place: &str, text: &str) {
        let text = self.inert(place, text.as_bytes());
        // Quotes and angle brackets of others are entities, so that these can only be the program's own.
        let markup =
            ["<img", "<svg onload", "onmouseover=\"", "onerror=\"", "<![CDATA", "<!--", "<a href=\"java"];
        for live in markup.into_iter().filter(|live| text.contains(live)) {
            self.found(place, live.to_owned());
        }
        if text.matches("<script").count() > 1 || text.contains("</title></style") {
            self.found(place, "a script that is not the page's".to_owned());
        }
    }

    fn markdown(&mut self, place: &str, text: &str) {
        let text = self.inert(place, text.as_bytes());
        let mut fence = None;
        let mut columns = None;
        for line in text.lines() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            match fence {
                Some(open) if ticks >= open => fence = None,
                None if ticks >= 3 => fence = Some(ticks),
                _ => {}
            }
            if fence.is_some() || ticks >= 3 {
                continue;
            }
            let plain = without_code(line);
            let live = plain.contains('<') || unescaped(&plain, "](").is_some();
            if live || plain == "## forged" || plain == "- forged" || plain.starts_with("~~~") {
                self.found(place, plain.clone());
            }
            let bars = plain.matches('|').count() - plain.matches("\\|").count();
            if !plain.starts_with('|') {
                columns = None;
            } else if *columns.get_or_insert(bars) != bars {
                self.found(place, format!("a row of {bars} bars: {plain}"));
            }
        }
        if fence.is_some() {
            self.found(place, "a fence that does not end".to_owned());
        }
    }

    fn csv(&mut self, place: &str, text: &str) {
        let text = self.inert(place, text.as_bytes());
        let rows = rows(&text);
        let columns = rows.first().map_or(0, Vec::len);
        for row in &rows {
            if row.len() != columns {
                self.found(place, format!("a row of {} cells, not {columns}", row.len()));
            }
            for cell in row {
                let parts = cell.split(';').map(str::trim_start);
                let computed =
                    |part: &str| part.starts_with(['=', '+', '-', '@']) && part.parse::<f64>().is_err();
                if parts.into_iter().any(computed) || cell.contains(['\n', '\t']) {
                    self.found(place, format!("the cell {cell:?}"));
                }
            }
        }
    }
}

/// A line of Markdown without its spans of code.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let (mut inside, mut before) = (false, ' ');
    for c in line.chars() {
        if c == '`' && (inside || before != '\\') {
            inside = !inside;
        } else if !inside {
            out.push(c);
        }
        before = c;
    }
    out
}

fn unescaped(text: &str, what: &str) -> Option<usize> {
    text.match_indices(what).map(|(at, _)| at).find(|at| !text[..*at].ends_with('\\'))
}

/// The cells of RFC 4180's text.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => cell.push(rest.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

/// Every string of a document, names of members too.
fn strings(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(all.insert(text.clone())),
        Value::Array(values) => values.iter().for_each(|value| strings(value, all)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            all.insert(name.clone());
            strings(value, all);
        }),
        _ => {}
    }
}

/// A run of two cells with a trial for each payload, which is in all its fields that are free text.
fn write_notebook(place: &Place, run: &str, payloads: &[String], watch: &mut Watch) {
    let folder = place.path("notebook/runs").join(run);
    std::fs::create_dir_all(folder.join("trials")).unwrap();
    let fits = |p: &&String| !p.chars().any(char::is_control);
    let question: Vec<String> = payloads.iter().filter(fits).map(|p| p.replace("long ", "")).collect();
    let toml = |text: &str| Value::from(text).to_string();
    let study = format!(
        "flyball = 1\nname = \"hostile\"\nquestion = {}\n[target]\nfile = \"64MiB\"\n[workload.w]\ntool = \"fio\"\n\
         options = {{ rw = \"read\" }}\n[factor.bs]\noption = \"bs\"\nlevels = [\"4k\", \"64k\"]\n[[published]]\nsource = {}\n\
         levels = {{ bs = \"4k\" }}\nvalue = \"5 MB/s\"\nnote = {}\n[measure]\nrepeats = [200, 200]\n",
        toml(&question.join(" ")),
        toml(&question.join(" ")),
        toml(&question.join(" "))
    );
    std::fs::write(folder.join("study.toml"), study).unwrap();
    watch.fields(["study: question", "study: published source", "study: published note"]);
    let command: Vec<&String> = payloads.iter().collect();
    let record = json!({
        "schema": 1, "written_by": "0.1.0", "id": run, "study": "hostile", "seed": 7,
        "started_ns": 1_795_186_516_860_425_390_i64, "finished_ns": 1_795_186_522_826_281_966_i64,
        "provenance": "host", "machine": payloads.concat(), "flyball": payloads.concat(),
        "revision": payloads.concat(), "command": command,
    });
    std::fs::write(folder.join("run.json"), record.to_string()).unwrap();
    watch.fields(["run: machine", "run: flyball", "run: revision", "run: command"]);
    std::fs::write(folder.join("machine.json"), inventory(place, payloads, watch)).unwrap();
    for (block, payload) in payloads.iter().enumerate() {
        for bs in ["4k", "64k"] {
            let cell = format!("w_{bs}");
            let trial = folder.join(format!("trials/b{block:02}.{cell}.a0"));
            std::fs::create_dir(&trial).unwrap();
            std::fs::write(trial.join("trial.json"), trial_json(run, block, &cell, bs, payload).to_string())
                .unwrap();
        }
    }
    let fields = "validity kind|validity detail|setting path|setting before|setting asked|setting got|setting after|\
                  environment name|environment value|tool|metric|unit|warning|command|thread|device|not recorded|machine|\
                  origin tool|origin version|origin file|origin sha256|disturbance";
    fields.split('|').for_each(|name| watch.fields([&format!("trial: {name}")]));
}

fn trial_json(run: &str, block: usize, cell: &str, bs: &str, p: &str) -> Value {
    let metric = |value: f64| json!({ "value": value, "unit": "bytes_per_second", "better": "higher" });
    let disturbance = json!({ "kind": p, "detail": p });
    // Some count, some are disturbed, some failed.
    let validity = match block % 4 {
        0 => json!({ "disturbed": [disturbance] }),
        1 => json!({ "failed": p }),
        _ => json!("valid"),
    };
    json!({
        "schema": 1, "written_by": "0.1.0", "run": run, "block": block, "cell": cell, "attempt": 0,
        "study": "hostile", "workload": "w", "levels": { "bs": bs }, "provenance": "host", "machine": p,
        "started_ns": 1_795_186_516_860_425_390_i64 + block as i64, "validity": validity,
        "settings": [{ "name": "vm.dirty_ratio", "object": null, "path": p, "before": p, "asked": p, "got": p, "after": p }],
        "environment": { "kernel": p, p: p, "device": p },
        "measurement": {
            "tool": p,
            "metrics": {
                "throughput": metric(5e6 + block as f64),
                p: { "value": 1.0, "unit": { "other": p }, "better": "lower" },
            },
            "warnings": [p], "commands": [[p, p]], "duration_ns": 1_318_576_314,
            "roles_ns": { "workload": 420_625_844 },
            "threads": [{ "name": p, "tid": 6165, "role": "workload", "cpu_ns": 420_625_844 }],
            "disks": [{ "device": p, "read_ios": 1, "read_sectors": 8, "write_ios": 1, "write_sectors": 8, "busy_ns": 8 }],
            "recorder": { "samples": 129, "missed": 0, "cpu_ns": 12, "span_ns": 13, "frequency": "none", "absent": [p] },
            "disturbances": [disturbance],
        },
        "origin": { "tool": p, "version": p, "file": p, "sha256": p },
    })
}

/// This machine's inventory, with payloads in the texts that devices and files set.
fn inventory(place: &Place, payloads: &[String], watch: &mut Watch) -> String {
    let mut value: Value = serde_json::from_str(&place.ok(&["inspect", "--json"])).unwrap();
    let mut next = payloads.iter().cycle();
    fn fill<'p>(
        value: &mut Value,
        name: &str,
        next: &mut impl Iterator<Item = &'p String>,
        watch: &mut Watch,
    ) {
        const FREE: [&str; 11] = [
            "host",
            "os",
            "name",
            "vendor",
            "product",
            "firmware",
            "model",
            "serial",
            "release",
            "version",
            "description",
        ];
        match value {
            Value::String(text) if FREE.contains(&name) => {
                watch.fields([&format!("inventory: {name}")]);
                *text = next.next().unwrap().clone();
            }
            Value::Array(values) => values.iter_mut().for_each(|value| fill(value, name, next, watch)),
            Value::Object(all) => all.iter_mut().for_each(|(name, value)| fill(value, name, next, watch)),
            _ => {}
        }
    }
    fill(&mut value, "", &mut next, watch);
    value.to_string()
}

#[test]
fn a_foreign_notebook_is_inert_in_every_form() {
    let (place, mut watch, payloads) = (Place::new(), Watch::default(), payloads());
    place.output(&["import", &format!("{TOOLS}/dd/read.txt")]);
    write_notebook(&place, "hostile-20261120-145516-7f3a", &payloads, &mut watch);
    write_notebook(&place, "hostile-20261120-145516-7f3b", &payloads, &mut watch);
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["list", &payloads[0].replace('\0', "")],
        &["show", "hostile"],
        &["show", "--full", "hostile"],
        &["show", "hostile", "b18.w_4k.a0"],
        &["explain", "hostile"],
        &["replay", "hostile"],
        &["replay", "hostile", "b18.w_4k.a0"],
        &["replay", "hostile", "--check"],
        &["report", "hostile", "--format", "text", "--metric", &payloads[0]],
        &["compare", "hostile", "--factor", "bs"],
        &["show", "hostil\u{202e}e"],
        &["export", "hostile", "--format", "junit"],
        &["export", "hostile", "--format", "otava-config"],
        &["export", "hostile", "--format", "jsonl"],
    ] {
        let output = place.output(arguments);
        watch.both(&arguments.join(" "), &output);
    }
    let compared = place.output(&["compare", "hostile~1", "hostile"]);
    watch.both("compare", &compared);
    json_means_the_same(&place, &payloads, &mut watch);
    documents(&place, "hostile", &mut watch);
    let mut out = Vec::new();
    let parquet = place.flyball(&["export", "hostile", "--format", "parquet"]).output().unwrap();
    out.extend_from_slice(&parquet.stdout);
    assert!(out.starts_with(b"PAR1"), "Parquet has every text as it is");
    // A notebook that cannot be read is told of in lines that are inert too.
    let damaged = place.path("notebook/runs").join(OsStr::from_bytes(b"a\x1b[2J\nerror: forged\xff"));
    std::fs::create_dir(damaged).unwrap();
    let listed = place.output(&["list"]);
    watch.both("a damaged run", &listed);
    watch.fields(["run folder's name"]);
    ends(&watch);
}

/// What is read back from each form of JSON is what the notebook has.
fn json_means_the_same(place: &Place, payloads: &[String], watch: &mut Watch) {
    for arguments in [&["export", "hostile", "--format", "json"][..], &["show", "hostile", "--json"]] {
        let output = place.output(arguments);
        let text = watch.both(&arguments.join(" "), &output);
        let mut all = BTreeSet::new();
        strings(&serde_json::from_str(&text).unwrap(), &mut all);
        let wanted = |p: &&String| arguments[0] == "export" || p.chars().count() < 60;
        let lost: Vec<&String> =
            payloads.iter().filter(wanted).filter(|p| !all.iter().any(|text| text.contains(*p))).collect();
        if arguments[0] == "export" && !lost.is_empty() {
            watch.found("export --format json", format!("not as they were: {lost:?}"));
        }
    }
    for (block, payload) in payloads.iter().enumerate().step_by(20) {
        let output = place.output(&["show", "hostile", &format!("b{block:02}.w_4k.a0"), "--json"]);
        let text = watch.both("show TRIAL --json", &output);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["measurement"]["tool"], Value::from(payload.as_str()));
    }
}

/// Every form of a report of a run.
fn documents(place: &Place, run: &str, watch: &mut Watch) {
    let text = |watch: &mut Watch, arguments: &[&str]| {
        let output = place.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", support::stderr(&output));
        watch.both(&arguments.join(" "), &output)
    };
    // In a page a line break is a blank: there are no lines to forge.
    let page = place.output(&["report", run, "--out", "-"]);
    assert!(page.status.success(), "{}", support::stderr(&page));
    watch.page("report --format html", &String::from_utf8_lossy(&page.stdout));
    let markdown = text(watch, &["report", run, "--format", "markdown"]);
    watch.markdown("report --format markdown", &markdown);
    for arguments in
        [&["report", run, "--format", "csv"][..], &["export", run], &["export", run, "--format", "otava"]]
    {
        let csv = text(watch, arguments);
        watch.csv(&arguments.join(" "), &csv);
    }
}

fn ends(watch: &Watch) {
    let (fields, outputs) = (watch.fields.len(), watch.outputs);
    assert!(watch.alive.is_empty(), "{}", watch.alive.iter().cloned().collect::<Vec<_>>().join("\n"));
    testing::promise("inert-text", PAYLOADS, format!("in {fields} fields; {outputs} outputs looked at"));
}

/// A file of other tools' results, with payloads in its texts.
fn spoiled(file: &Path, next: &mut dyn Iterator<Item = &String>) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(mut value) => {
            spoil(&mut value, next);
            value.to_string().into_bytes()
        }
        Err(_) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().map(|line| match line.rsplit_once(' ') {
                // The last word of a line is the name of a command, a device or a host in most formats.
                Some((rest, last)) if last.parse::<f64>().is_err() => {
                    let payload: String = next
                        .next()
                        .unwrap()
                        .chars()
                        .filter(|c| !c.is_whitespace() && !"<&\0".contains(*c))
                        .collect();
                    format!("{rest} {last}{payload}")
                }
                _ => line.to_owned(),
            });
            (lines.collect::<Vec<_>>().join("\n") + "\n").into_bytes()
        }
    }
}

fn spoil(value: &mut Value, next: &mut dyn Iterator<Item = &String>) {
    match value {
        // What is a number or a date in quotes decides what the file is.
        Value::String(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            text.push_str(next.next().unwrap())
        }
        Value::Array(values) => values.iter_mut().for_each(|value| spoil(value, next)),
        Value::Object(members) => members.values_mut().for_each(|value| spoil(value, next)),
        _ => {}
    }
}

#[test]
fn foreign_files_are_inert_from_their_names_to_their_reports() {
    let (place, mut watch, payloads) = (Place::new(), Watch::default(), payloads());
    let mut next = payloads.iter().cycle();
    let mut imported = 0;
    for tool in std::fs::read_dir(TOOLS).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&tool).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in files.iter().step_by(3) {
            let kind = tool.file_name().unwrap().to_str().unwrap();
            let to = place.path(&format!("{kind}-{imported}"));
            std::fs::write(&to, spoiled(file, &mut next)).unwrap();
            let output = place.output(&["import", "--name", &format!("run{imported}"), to.to_str().unwrap()]);
            watch.both(&format!("import of {kind}"), &output);
            watch.fields([&format!("import: texts of {kind}")]);
            if output.status.success() {
                documents_of_import(&place, &format!("run{imported}"), &mut watch);
                imported += 1;
            }
        }
    }
    assert!(imported > 10, "only {imported} spoiled files could be imported");
    named_files(&place, &payloads, &mut watch);
    unknown_files(&place, &payloads, &mut watch);
    ends(&watch);
}

fn documents_of_import(place: &Place, run: &str, watch: &mut Watch) {
    for arguments in [&["show", "--full", run][..], &["report", run, "--format", "markdown"]] {
        let output = place.output(arguments);
        watch.both(&arguments.join(" "), &output);
    }
    let page = place.output(&["report", run, "--out", "-"]);
    watch.page("report of an import", &String::from_utf8_lossy(&page.stdout));
    let csv = place.output(&["export", run]);
    watch.csv("export of an import", &String::from_utf8_lossy(&csv.stdout));
}

/// Results in files with such names, and in their commands: one process for all.
fn named_files(place: &Place, payloads: &[String], watch: &mut Watch) {
    let folder = place.path("named");
    std::fs::create_dir(&folder).unwrap();
    let mut files = Vec::new();
    for (index, payload) in payloads.iter().enumerate() {
        let name: String = payload.chars().filter(|c| *c != '\0' && *c != '/').take(60).collect();
        let path = folder.join(format!("{index}{name}"));
        let times = json!({ "command": payload, "mean": 0.1, "times": [0.1, 0.2], "exit_codes": [0, 0] });
        std::fs::write(&path, json!({ "results": [times] }).to_string()).unwrap();
        files.push(path);
    }
    let mut command = place.flyball(&["import", "--as", "hyperfine"]);
    let output = command.args(&files).output().unwrap();
    assert!(output.status.success(), "{}", support::stderr(&output));
    watch.both("import of named files", &output);
    watch.fields(["import: name of the file", "import: command of hyperfine"]);
    for arguments in [&["list"][..], &["list", "--json"]] {
        let output = place.output(arguments);
        watch.both("list of imports", &output);
    }
    // Once more is refused, with the name in the message.
    for file in files.iter().step_by(10) {
        let output = place.flyball(&["import", "--as", "hyperfine"]).arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        watch.both("import once more", &output);
    }
    let newest = place.ok(&["list", "--json"]);
    let newest: Value = serde_json::from_str(&newest).unwrap();
    for run in newest["runs"].as_array().unwrap().iter().take(40).step_by(10) {
        documents_of_import(place, run["run"].as_str().unwrap(), watch);
    }
}

/// Files of no known kind, and a command line that names none: the message shows what it found.
fn unknown_files(place: &Place, payloads: &[String], watch: &mut Watch) {
    for some in payloads.chunks(20) {
        let file = place.path("unknown");
        std::fs::write(&file, [some.concat().as_bytes(), b"\xff\xfe\xc0\xaf"].concat()).unwrap();
        for kind in [&["import"][..], &["import", "--as", "fio"]] {
            let output = place.flyball(kind).arg(&file).output().unwrap();
            watch.both("import of an unknown file", &output);
        }
        let typed = some[0].replace('\0', "");
        for arguments in [
            &[typed.as_str()][..],
            &["run", &typed],
            &["import", "--as", &typed, "x"],
            &["list", "--x", &typed],
        ] {
            let output = place.output(arguments);
            assert!(!output.status.success(), "{arguments:?}");
            watch.both("a wrong command line", &output);
        }
        let study = format!(
            "flyball = 1\nname = {0}\nquestion = {0}\n[workload.{0}]\ntool = {0}\n",
            Value::from(some.concat())
        );
        let output = place.output(&["run", &place.study("wrong", &study)]);
        assert_eq!(output.status.code(), Some(2));
        watch.both("a wrong study", &output);
    }
    watch.fields([
        "head of an unknown file",
        "command line",
        "wrong study: name",
        "wrong study: workload",
        "wrong study: tool",
    ]);
}

#[test]
fn a_study_is_inert_before_it_is_run() {
    let (place, mut watch, payloads) = (Place::new(), Watch::default(), payloads());
    // A study refuses control characters; all else may stand in its texts.
    let texts: Vec<&String> = payloads.iter().filter(|p| !p.chars().any(char::is_control)).collect();
    let argv: Vec<String> = texts.iter().map(|p| Value::from(p.as_str()).to_string()).collect();
    let study = format!(
        "flyball = 1\nname = \"typed\"\nquestion = {}\n[workload.w]\ntool = \"command\"\nargv = [\"true\", {}]\n\
         [measure]\nmetric = \"elapsed\"\nrepeats = 1\nsettle = \"0s\"\n",
        argv[0],
        argv.join(", ")
    );
    let study = place.study("typed", &study);
    for arguments in
        [&["run", &study, "--dry-run"][..], &["run", &study, "--dry-run", "--json"], &["run", &study]]
    {
        let output = place.output(arguments);
        watch.both(&arguments.join(" "), &output);
    }
    for arguments in
        [&["show", "typed"][..], &["show", "typed", "b00.w.a0"], &["report", "typed", "--format", "text"]]
    {
        let output = place.output(arguments);
        watch.both(&arguments.join(" "), &output);
    }
    watch.fields(["study: argv", "study: question"]);
    documents(&place, "typed", &mut watch);
    ends(&watch);
}
