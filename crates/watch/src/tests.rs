//! Rows go in, screens come out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::testing::{Column, bare, counter, cpu, feed, gauge, machine, scaled, state, trace};
use crate::*;
use analysis::facts::usage::Usage;
use domain::bench::Sink;
use domain::time::Nanos;
use expect_test::{Expect, expect};

const LIVE: Showing = Showing::Live { is_held: false, is_ending: false, ends_command: true };

fn scene<'a>(about: &'a About, state: &'a State, found: &'a Found) -> Scene<'a> {
    Scene { about, state, showing: LIVE, changed: &[], found, output: &[], scrolled: 0 }
}

fn drawn(state: &State, (columns, rows): (usize, usize), charset: Charset) -> String {
    let about = About { what: "fio job.fio".into() };
    let lines = frame(&scene(&about, state, &Found::NotYet), Size { columns, rows }, charset);
    assert_eq!(lines.len(), rows);
    let text = text_of(&lines);
    assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    text
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}

#[test]
fn a_machine_without_frequency_says_so_in_eighty_columns() {
    let state = state(&trace(&machine(2), 12), Some(bare()));
    check(
        &drawn(&state, (80, 24), Charset::Unicode),
        &expect![[r#"
            flyball watch: fio job.fio                                                12.0 s

            CPU       busy  the last 62 s
                0      33%                                                    ▃▃▃▃▃▃▃▃▃▃▃▃
                1      67%                                                    ▆▆▆▆▆▆▆▆▆▆▆▆
              no cpufreq driver: frequency is not scaled by the kernel; no idle states

            Layer          busy  reads                     writes                    below
              md0           40%  -                         1.00 k/s 4.10 MB/s 500 µs x2.00
               vda          40%  -                         1.00 k/s 4.10 MB/s 500 µs
               vdb          40%  -                         1.00 k/s 4.10 MB/s 500 µs

            CPU time of one CPU: workload 120%, array 20%, flyball 0.4%
            Waits    of tasks for CPU 1%, I/O 25%, memory 0%
            Power    not measured: no energy counter (RAPL) can be read here
            Changed  nothing

            Found    nothing yet: the rules need a few seconds





            q end the command and leave   space hold   up/down CPUs
        "#]],
    );
}

#[test]
fn power_that_is_sampled_is_shown_with_its_sensor() {
    let power = |columns: &[Column]| {
        let all = [&machine(1)[..], columns].concat();
        let text = drawn(&state(&trace(&all, 5), None), (80, 24), Charset::Ascii);
        text.lines().find(|line| line.starts_with("Power")).map(str::to_owned).unwrap()
    };
    assert!(power(&[gauge("battery.BAT0.uw", 11_543_000.0)]).ends_with(" BAT0 11.5 W"));
    let sensors = [
        counter("hwmon.amd_energy-0.Esocket0.uj", 90e6),
        gauge("hwmon.power_meter-0.power1.average_uw", 210e6),
    ];
    assert!(power(&sensors).ends_with(" amd_energy-0.Esocket0 90.0 W, power_meter-0.power1 210 W"));
}

#[test]
fn a_machine_with_all_of_it_fits_eighty_columns_of_ascii() {
    let mut columns = machine(4);
    for cpu in 0..4 {
        let rates = [("aperf", 1.5e9), ("mperf", 1e9), ("tsc", 2e9)];
        columns.extend(rates.map(|(what, rate)| counter(format!("freq.cpu{cpu}.{what}"), rate)));
        columns.push(counter(format!("idle.cpu{cpu}.state2.us"), 4e5));
    }
    columns.push(counter("rapl.package-0.uj", 12.5e6));
    let state = state(&trace(&columns, 30), Some(scaled("schedutil")));
    let text = drawn(&state, (80, 24), Charset::Ascii);
    assert!(text.is_ascii());
    check(
        &text,
        &expect![[r#"
            flyball watch: fio job.fio                                                30.0 s

            CPU       busy  the last 13 s  frequency               governor     idle
                0      20%  .............   3000 MHz +++++++++++++ schedutil    C6 40%
                1      40%  -------------   3000 MHz +++++++++++++ schedutil    C6 40%
                2      60%  =============   3000 MHz +++++++++++++ schedutil    C6 40%
                3      80%  *************   3000 MHz +++++++++++++ schedutil    C6 40%

            Layer          busy  reads                     writes                    below
              md0           40%  -                         1.00 k/s 4.10 MB/s 500 us x2.00
               vda          40%  -                         1.00 k/s 4.10 MB/s 500 us
               vdb          40%  -                         1.00 k/s 4.10 MB/s 500 us

            CPU time of one CPU: workload 120%, array 20%, flyball 0.4%
            Waits    of tasks for CPU 1%, I/O 25%, memory 0%
            Power    package-0 12.5 W
            Changed  nothing

            Found    nothing yet: the rules need a few seconds




            q end the command and leave   space hold   up/down CPUs
        "#]],
    );
}

#[test]
fn a_large_machine_shows_its_busiest_cpus_and_all_of_them_on_a_large_screen() {
    let mut state = state(&trace(&machine(64), 5), Some(bare()));
    let text = drawn(&state, (80, 24), Charset::Unicode);
    assert!(text.contains("64 CPUs, busiest first") && text.contains("\n   63  "), "{text}");
    assert!(text.contains("q end the command"), "{text}");
    // A role has the threads of all its processes, however many there are: rows are as long as before.
    let more = trace(&[machine(64), vec![counter("disk.loop9.write_ios", 5.0)]].concat(), 6);
    feed(&mut state, &more);
    let large = drawn(&state, (200, 90), Charset::Unicode);
    assert!((0..64).all(|cpu| large.contains(&format!("\n{cpu:>5}  "))), "{large}");
    drawn(&state, (200, 60), Charset::Ascii);
}

#[test]
fn a_small_terminal_is_told_what_is_missing() {
    let state = state(&trace(&machine(2), 1), None);
    let about = About::default();
    for (columns, rows) in [(40, 10), (80, 15), (59, 24), (1, 1), (0, 0)] {
        let size = Size { columns, rows };
        let lines = frame(&scene(&about, &state, &Found::NotYet), size, Charset::Unicode);
        let text = text_of(&lines);
        assert!(lines.len() <= rows.max(1) && text.lines().all(|l| l.chars().count() <= columns), "{text}");
    }
    let size = Size { columns: 40, rows: 10 };
    let text = text_of(&frame(&scene(&about, &state, &Found::NotYet), size, Charset::Unicode));
    assert_eq!(text, "too small: 40x10, needs 60x16; q leaves\n");
}

#[test]
fn before_the_first_rows_nothing_is_made_up() {
    let text = drawn(&State::of(Some(bare())), (80, 24), Charset::Unicode);
    assert!(!text.contains('%') && text.contains("not known yet"), "{text}");
}

#[test]
fn figures_are_those_that_a_report_has_of_the_same_rows() {
    let trace = trace(&machine(2), 1);
    let (usage, state) = (Usage::of(&trace), state(&trace, None));
    let figures = state.figures();
    let near = |a: f64, b: f64| assert!((a - b).abs() < 0.01 * a.abs().max(0.01), "{a} {b}");
    near(figures.machine.unwrap().busy(), usage.machine.unwrap().busy());
    near(figures.pressure.io.unwrap(), usage.pressure.io.unwrap());
    for disk in &usage.disks {
        let own = figures.disks.iter().find(|own| own.device == disk.device).unwrap();
        near(own.busy.unwrap(), disk.busy);
        near(own.write.bytes, disk.write.bytes);
        near(own.write.latency.unwrap(), disk.write.latency.unwrap());
        near(own.depth.unwrap(), disk.depth.unwrap());
    }
}

#[test]
fn a_counter_that_began_anew_has_no_rate() {
    let mut state = State::default();
    let rows = trace(&cpu("cpu0", 0.5), 3);
    feed(&mut state, &rows);
    assert!(state.figures().cpus[0].usage.is_some());
    for row in 0..4 {
        state.row(Nanos::from_millis(3300 + row * 100), &[Some(1), Some(1), Some(1)]).unwrap();
    }
    assert_eq!(state.figures().cpus[0].usage, None);
}

#[test]
fn a_device_that_appears_leaves_the_others_as_they_were() {
    let mut state = state(&trace(&machine(2), 5), Some(bare()));
    let before = state.figures().clone();
    let mut head = state.head().unwrap().clone();
    head.series.insert(0, counter("disk.loop0.write_ios", 1.0).0);
    state.begin(&head).unwrap();
    let mut row: Vec<Option<u64>> =
        trace(&machine(2), 5).columns.iter().map(|column| column.last().copied().flatten()).collect();
    row.insert(0, Some(5));
    state.row(Nanos::from_millis(5300), &row).unwrap();
    assert_eq!(state.figures().cpus.len(), 2);
    assert!(state.figures().cpus.iter().all(|cpu| cpu.usage.is_some()));
    assert_eq!(state.figures().roles.len(), before.roles.len());
}

#[test]
fn what_is_written_below_a_layer_is_set_against_what_is_written_to_it() {
    let state = state(&trace(&machine(1), 2), Some(bare()));
    let layers = crate::layers::layers(&state);
    let shown: Vec<_> =
        layers.iter().map(|l| (l.disk.device.as_str(), l.depth, l.write_amplification.is_some())).collect();
    assert_eq!(shown, [("md0", 0, true), ("vda", 1, false), ("vdb", 1, false)]);
    assert!((layers[0].write_amplification.unwrap() - 2.0).abs() < 0.01);
}

#[test]
fn a_machine_that_says_it_is_built_on_itself_is_drawn() {
    let mut circle = bare();
    circle.devices[0].built_of = vec!["md0".into()];
    let state = state(&trace(&machine(1), 2), Some(circle));
    assert_eq!(crate::layers::layers(&state).len(), 3);
}

#[test]
fn what_is_found_changed_and_printed_is_shown_with_the_next_command() {
    let state = state(&trace(&machine(2), 3), Some(bare()));
    let about = About { what: "sh -c true".into() };
    let found = Found::Finding {
        title: "one CPU is at its limit and the others are idle".into(),
        confidence: "likely",
        others: 2,
        next: "q, then flyball explain recording-sh".into(),
    };
    let changed = ["governor@policy0 is performance (was schedutil)".to_owned(), "x".to_owned()];
    let output: Vec<String> = (0..9).map(|number| format!("line {number}")).collect();
    let scene = Scene { changed: &changed, output: &output, ..scene(&about, &state, &found) };
    let text = text_of(&frame(&scene, Size { columns: 80, rows: 24 }, Charset::Unicode));
    for part in [
        "Found    one CPU is at its limit and the others are idle (likely; 2 more)",
        "Next     q, then flyball explain recording-sh",
        "Changed  governor@policy0 is performance (was schedutil), and 1 more",
        "line 8\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_trial_plays_stands_still_and_is_sought_in_with_the_same_figures() {
    let rows = trace(&machine(2), 60);
    let mut player = Player::new(rows.clone(), Some(bare()));
    player.pass(Nanos::from_secs(5));
    assert_eq!(player.state().time(), Some(Nanos::from_secs(5)));
    player.press(Key::Char(' '));
    player.pass(Nanos::from_secs(5));
    assert_eq!(player.state().time(), Some(Nanos::from_secs(5)), "it stands still");
    player.press(Key::PageDown);
    assert_eq!(player.state().time(), Some(Nanos::from_secs(15)));
    player.press(Key::Left);
    assert_eq!(player.state().time(), Some(Nanos::from_secs(14)));
    let sought = player.state().figures().clone();
    player.press(Key::Home);
    player.press(Key::Char(' '));
    (0..140).for_each(|_| player.pass(Nanos::from_millis(100)));
    assert_eq!(player.state().time(), Some(Nanos::from_secs(14)));
    assert_eq!(player.state().figures().cpus, sought.cpus);
    player.press(Key::End);
    assert!(player.is_held() && player.state().time() == Some(Nanos::from_secs(60)));
    player.press(Key::Char(' '));
    assert_eq!(player.state().time(), Some(Nanos::ZERO), "it begins again");
    player.press(Key::Char('+'));
    player.pass(Nanos::from_secs(2));
    assert_eq!(player.state().time(), Some(Nanos::from_secs(4)));
}

#[test]
fn a_trace_of_nothing_is_played_to_its_end() {
    let mut player = Player::new(trace(&[], 0), None);
    player.pass(Nanos::from_secs(1));
    player.press(Key::Left);
    assert!(player.is_held());
    drawn(player.state(), (80, 24), Charset::Ascii);
}

#[test]
fn the_memory_of_a_long_trace_is_bounded() {
    assert_eq!(most_rows(0), most_rows(1));
    assert!(most_rows(4000) * 4000 <= 8 << 20);
    assert_eq!(most_rows(usize::MAX), 2);
}

#[test]
fn a_frequency_that_is_asked_for_is_a_gauge() {
    let columns = [cpu("cpu0", 0.1), vec![gauge("freq.cpu0.khz", 2_800_000.0)]].concat();
    let state = state(&trace(&columns, 2), None);
    assert_eq!(state.figures().cpus[0].hertz, Some(2.8e9));
    assert!(drawn(&state, (80, 24), Charset::Unicode).contains("2800 MHz"));
}
