//! `[page]`: a page of the book, which puts the runs of several kinds of machine beside a published report.
//!
//! Only what concerns this study is checked here. Cells of the page's other studies are checked when those
//! are read.

use super::check::{named_metrics, reported};
use super::node::{Node, Section, listed, nearest};
use super::published::{levels, names_exist, over, selection};
use super::words;
use domain::Study;
use domain::page::{Answer, Look, Page, Part, Question, YesIf};
use domain::plan::Cell;
use domain::published::subjects;
use domain::trial::Provenance;
use std::collections::BTreeMap;

/// A bound on each list of a page: more than anybody reads.
const MAX_ITEMS: usize = 64;

/// Reads the table.
pub(super) fn read(node: &Node) -> Option<Page> {
    let section = node.section()?;
    section.only(&["title", "source", "published", "part", "question", "not_reproduced", "needs"]);
    let title = section.require("title", "title = \"…\"").and_then(|node| words(&node));
    let source = section.require("source", "source = \"https://…\"").and_then(|node| words(&node));
    let published = section.require("published", "published = [\"…\"]").and_then(|node| list(&node, words));
    let parts = section.require("part", "[[page.part]]").and_then(|node| list(&node, part));
    let questions = section.get("question").map_or(Some(vec![]), |node| list(&node, question));
    let not_reproduced = section.get("not_reproduced").map_or(Some(vec![]), |node| list(&node, words));
    let needs = needs(&section);
    Some(Page {
        title: title?,
        source: source?,
        published: published?,
        parts: parts?,
        questions: questions?,
        not_reproduced: not_reproduced?,
        needs: needs?,
    })
}

/// What an answer needs, by kind of machine.
fn needs(section: &Section) -> Option<BTreeMap<Provenance, String>> {
    let Some(node) = section.get("needs") else { return Some(BTreeMap::new()) };
    let section = node.section()?;
    section.only(&Provenance::MACHINES.map(Provenance::name));
    by_machine(&section)
}

/// A text for each kind of machine that is named.
fn by_machine(section: &Section) -> Option<BTreeMap<Provenance, String>> {
    let text = |provenance: Provenance| {
        let node = section.get(provenance.name())?;
        Some(words(&node).map(|text| (provenance, text)))
    };
    Provenance::MACHINES.into_iter().filter_map(text).collect()
}

/// The items of a list, each read before any is given up.
fn list<'a, T>(node: &Node<'a>, read: impl Fn(&Node<'a>) -> Option<T>) -> Option<Vec<T>> {
    let items = node.items()?;
    if items.is_empty() || items.len() > MAX_ITEMS {
        node.refuse(format!("has {} items; from 1 to {MAX_ITEMS} make sense", items.len()));
        return None;
    }
    let items: Vec<Option<T>> = items.iter().map(read).collect();
    items.into_iter().collect()
}

fn part(node: &Node) -> Option<Part> {
    let section = node.section()?;
    section.only(&["study", "about", "only", "host", "lab", "simulation"]);
    let study = section.get("study").map_or(Some(None), |node| words(&node).map(Some));
    let about = section.require("about", "about = \"…\"").and_then(|node| words(&node));
    let not_run = by_machine(&section);
    let only = section.get("only").map_or_else(|| Some(BTreeMap::new()), |node| levels(&node));
    Some(Part { study: study?, about: about?, only: only?, not_run: not_run? })
}

fn question(node: &Node) -> Option<Question> {
    let section = node.section()?;
    section.only(&["asked", "answer", "note", "known", "needs"]);
    let asked = section.require("asked", "asked = \"…?\"").and_then(|node| words(&node));
    let answers = section.get("answer").map_or(Some(vec![]), |node| list(&node, answer));
    let note = section.get("note").map_or(Some(None), |node| words(&node).map(Some));
    let known = section.get("known").map_or(Some(None), |node| words(&node).map(Some));
    let needs = needs(&section);
    let (asked, answers, note, known, needs) = (asked?, answers?, note?, known?, needs?);
    if answers.is_empty() && note.is_none() && known.is_none() && needs.is_empty() {
        section.refuse("has no answer, and no `note`, `known` or `needs` that says why; add one of them");
        return None;
    }
    Some(Question { asked, answers, known, needs, note })
}

fn answer(node: &Node) -> Option<Answer> {
    let section = node.section()?;
    section.only(&["claim", "study", "workload", "levels", "over", "metric", "yes_if", "look"]);
    let claim = section.require("claim", "claim = \"powersave is slower\"").and_then(|node| words(&node));
    let study = section.get("study").map_or(Some(None), |node| super::name(&node).map(Some));
    let of = selection(&section);
    let look = match section.get("look") {
        Some(node) => looked(&node, &section),
        None => against(&section),
    };
    Some(Answer { claim: claim?, study: study?, of: of?, look: look? })
}

fn looked(node: &Node, section: &Section) -> Option<Look> {
    let text = node.text()?;
    let found = Look::NAMED.into_iter().find(|(name, _)| *name == text);
    let Some((_, look)) = found else {
        node.refuse("has to be `\"figure\"`: the cells' figures, `\"spread\"`: from where to where their trials go, `\"cpu\"`: whose CPU time the cells took, `\"spent\"`: what it was spent in, or `\"windows\"`: how busy CPUs were between samples of their governor");
        return None;
    };
    let others: &[&str] =
        if look.is_by_metric() { &["over", "yes_if"] } else { &["over", "metric", "yes_if"] };
    for other in others.iter().filter_map(|key| section.get(key)) {
        other.refuse_key("is of a comparison, and cannot stand beside `look`; take one or the other out");
    }
    Some(match look {
        Look::Figure { .. } => Look::Figure { metric: metric(section)? },
        Look::Spread { .. } => Look::Spread { metric: metric(section)? },
        look => look,
    })
}

fn metric(section: &Section) -> Option<Option<String>> {
    section.get("metric").map_or(Some(None), |node| super::name(&node).map(Some))
}

fn against(section: &Section) -> Option<Look> {
    let example = "over = { levels = { governor = \"performance\" } }";
    let over = section.require("over", example).and_then(|node| over(&node));
    let metric = metric(section);
    let yes_if = section.require("yes_if", "yes_if = \"worse\"").and_then(|node| yes_if(&node));
    Some(Look::Against { over: over?, metric: metric?, yes_if: yes_if? })
}

fn yes_if(node: &Node) -> Option<YesIf> {
    let text = node.text()?;
    let found = YesIf::ALL.into_iter().find(|known| known.name() == text);
    if found.is_none() {
        let names = YesIf::ALL.map(YesIf::name);
        let help = match nearest(text, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", listed(&names)),
        };
        node.refuse(format!("`{text}` is nothing that comes out of a comparison; {help}"));
    }
    found
}

/// Notes what the page says of this study and the study does not have.
pub(super) fn check(study: &Study, cells: Option<&[Cell]>, root: &Section) {
    let (Some(page), Some(section)) = (&study.page, root.get("page").and_then(|node| node.section_if_any()))
    else {
        return;
    };
    let questions = items(&section, "question");
    for (node, question) in questions.iter().zip(&page.questions) {
        let Some(node) = node.section_if_any() else { continue };
        for (node, answer) in items(&node, "answer").iter().zip(&question.answers) {
            let own = answer.study.as_ref().is_none_or(|name| *name == study.name);
            if let Some(section) = node.section_if_any().filter(|_| own) {
                suits(study, answer, &section, cells.filter(|_| root.is_sound()));
            }
        }
    }
}

/// The items of a list that may not be there.
fn items<'a>(section: &Section<'a>, key: &str) -> Vec<Node<'a>> {
    section.get(key).map(|node| node.items_if_any()).unwrap_or_default()
}

/// An answer's cells and metric are the study's.
fn suits(study: &Study, answer: &Answer, section: &Section, cells: Option<&[Cell]>) {
    names_exist(study, &answer.of, section);
    let mut against = None;
    if let Look::Against { over, .. } = &answer.look {
        if let Some(node) = section.get("over").and_then(|node| node.section_if_any()) {
            names_exist(study, over, &node);
        }
        against = Some(over);
    }
    if let (Some(metric), Some(node)) = (answer.look.metric(), section.get("metric")) {
        let known = study.workloads.iter().flat_map(|workload| reported(study, workload));
        let known: Vec<&str> = known.collect();
        if !known.contains(&metric.as_str()) {
            node.refuse(format!("no workload reports `{metric}`; there are {}", named_metrics(&known)));
        }
    }
    let Some(cells) = cells.filter(|_| section.is_sound()) else { return };
    if let Err(error) = subjects(&answer.of, against, cells) {
        section.refuse(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use crate::study::parse;
    use domain::page::{Look, YesIf};
    use domain::trial::Provenance;
    use expect_test::{Expect, expect};

    /// The first line of a test's own text is line 14.
    const HEAD: &str = r#"flyball = 1
name = "s"
question = "q"
target.file = "1MiB"
[workload.small]
tool = "fio"
[factor.governor]
setting = "governor"
levels = ["performance", "ondemand"]
[page]
title = "Governors"
source = "https://example.org"
published = ["It was slow."]
"#;

    const PART: &str = "[[page.part]]\nabout = \"the lab\"\nsimulation = \"no model\"\n";

    fn check(text: &str, expected: Expect) {
        let errors = parse(&format!("{HEAD}{text}")).expect_err("this study is wrong");
        expected.assert_eq(&format!("{errors}\n"));
    }

    #[test]
    fn a_page_has_parts_questions_and_what_answers_them() {
        let text = format!(
            "{HEAD}not_reproduced = [\"the machine\"]\n{PART}[[page.part]]\nstudy = \"other.toml\"\nabout = \"a model\"\n\
             [[page.question]]\nasked = \"Is it slow?\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nlevels = {{ governor = \"ondemand\" }}\n\
             over = {{ levels = {{ governor = \"performance\" }} }}\nyes_if = \"worse\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nlook = \"cpu\"\n\
             [[page.question.answer]]\nclaim = \"it is slow\"\nstudy = \"other\"\nworkload = \"what it has\"\nlook = \"cpu\"\n[[page.question]]\nasked = \"Why?\"\nnote = \"nobody knows\"\n"
        );
        let text = text.replace("\"what it has\"", "\"read\"");
        let page = parse(&text).unwrap_or_else(|errors| panic!("{errors}")).page.unwrap();
        assert_eq!(page.parts[0].not_run[&Provenance::Simulation], "no model");
        assert_eq!((page.parts[1].study.as_deref(), page.parts.len()), (Some("other.toml"), 2));
        let answers = &page.questions[0].answers;
        assert!(matches!(&answers[0].look, Look::Against { yes_if: YesIf::Worse, metric: None, .. }));
        assert_eq!((&answers[1].look, answers[2].study.as_deref()), (&Look::Cpu, Some("other")));
        assert_eq!(page.questions[1].note.as_deref(), Some("nobody knows"));
    }

    #[test]
    fn a_question_says_what_is_known_and_what_an_answer_needs() {
        let text = format!(
            "{HEAD}needs = {{ host = \"such disks\" }}\n{PART}[[page.question]]\nasked = \"Which tool?\"\nknown = \"The log says it.\"\n\
             [[page.question]]\nasked = \"How many watts?\"\nneeds = {{ lab = \"a meter\", simulation = \"measured watts\" }}\n\
             [[page.question]]\nasked = \"How fast?\"\n[[page.question.answer]]\nclaim = \"by governor\"\nlook = \"figure\"\nmetric = \"iops\"\n\
             [[page.question.answer]]\nclaim = \"apart\"\nlook = \"spread\"\n"
        );
        let page = parse(&text).unwrap_or_else(|errors| panic!("{errors}")).page.unwrap();
        assert_eq!(page.needs[&Provenance::Host], "such disks");
        assert_eq!(page.questions[0].known.as_deref(), Some("The log says it."));
        assert_eq!(page.questions[1].needs[&Provenance::Simulation], "measured watts");
        let looks: Vec<&Look> = page.questions[2].answers.iter().map(|answer| &answer.look).collect();
        let by_iops = Look::Figure { metric: Some("iops".into()) };
        assert_eq!(looks, [&by_iops, &Look::Spread { metric: None }]);
    }

    #[test]
    fn what_is_wrong_with_needs_and_figures_is_said_with_its_place() {
        check(
            &format!(
                "{PART}[[page.question]]\nasked = \"Is it?\"\nneeds = {{ labs = \"a meter\" }}\n[[page.question]]\nasked = \"How fast?\"\n[[page.question.answer]]\nclaim = \"by governor\"\nlook = \"figure\"\nyes_if = \"worse\"\n[[page.question.answer]]\nclaim = \"whose\"\nlook = \"cpu\"\nmetric = \"iops\"\n[[page.question.answer]]\nclaim = \"apart\"\nlook = \"spread\"\nmetric = \"watts\"\n"
            ),
            expect![[r#"
                line 17, column 1: `page.question[1]`: has no answer, and no `note`, `known` or `needs` that says why; add one of them
                line 19, column 11: `page.question[1].needs.labs`: unknown key; did you mean `lab`?
                line 25, column 1: `page.question[2].answer[1].yes_if`: is of a comparison, and cannot stand beside `look`; take one or the other out
                line 29, column 1: `page.question[2].answer[2].metric`: is of a comparison, and cannot stand beside `look`; take one or the other out
            "#]],
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        check(
            "tittle = \"x\"\n[[page.question]]\nasked = \"Why?\"\n[[page.question]]\nasked = \"Is it?\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nyes_if = \"wors\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nlook = \"cpus\"\n",
            expect![[r#"
                line 10, column 2: `page.part`: missing; write `[[page.part]]`
                line 14, column 1: `page.tittle`: unknown key; did you mean `title`?
                line 15, column 1: `page.question[1]`: has no answer, and no `note`, `known` or `needs` that says why; add one of them
                line 19, column 1: `page.question[2].answer[1].over`: missing; write `over = { levels = { governor = "performance" } }`
                line 21, column 10: `page.question[2].answer[1].yes_if`: `wors` is nothing that comes out of a comparison; did you mean `worse`?
                line 24, column 8: `page.question[2].answer[2].look`: has to be `"figure"`: the cells' figures, `"spread"`: from where to where their trials go, `"cpu"`: whose CPU time the cells took, `"spent"`: what it was spent in, or `"windows"`: how busy CPUs were between samples of their governor
            "#]],
        );
        check(
            &format!(
                "{PART}[[page.question]]\nasked = \"Is it?\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nlevels = {{ governor = \"ondemnad\" }}\nover = {{ levels = {{ govrnor = \"performance\" }} }}\nmetric = \"speed\"\nyes_if = \"worse\"\n"
            ),
            expect![[r#"
                line 21, column 23: `page.question[1].answer[1].levels.governor`: `governor` has no level `ondemnad`; did you mean `ondemand`?
                line 22, column 21: `page.question[1].answer[1].over.levels.govrnor`: there is no factor `govrnor`; did you mean `governor`?
                line 23, column 10: `page.question[1].answer[1].metric`: no workload reports `speed`; there are `throughput`, `read_throughput`, `write_throughput`, `iops`, `read_iops`, `write_iops`, `latency_mean`, `latency_p50`, `latency_p99`, `latency_p999`, `syncs`, `sync_latency_mean`, `sync_latency_p50`, `sync_latency_p99`, `sync_latency_p999`, `elapsed`, `cpu_user`, `cpu_system`, `context_switches`, `cpu_busy`
            "#]],
        );
        check(
            &format!(
                "{PART}[[page.question]]\nasked = \"Is it?\"\n[[page.question.answer]]\nclaim = \"it is slow\"\nlevels = {{ governor = \"performance\" }}\nover = {{ levels = {{ governor = \"performance\" }} }}\nyes_if = \"worse\"\n"
            ),
            expect![[r#"
                line 19, column 1: `page.question[1].answer[1]`: `over` names nothing that differs from the cell `small_performance` itself; name another level or workload
            "#]],
        );
    }
}
