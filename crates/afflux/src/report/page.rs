//! The page: one HTML file with everything in it, which asks no network and runs no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures::Figure;
use super::figures::forest::class_of;
use super::schema::{ComparedRecord, ComparisonRecord, ResultFile};
use super::sections::Section;
use super::words::{count, interval, percent, quantity, seconds, sentence, verdict};
use super::worlds;
use crate::interval::Verdict;
use crate::tables::number;

const COLOURS: &str = include_str!("colours.css");
const STYLE: &str = include_str!("style.css");
const PLOT: &str = include_str!("plot.css");

/// A plot as a file of its own.
pub(super) fn standalone(figure: &Figure) -> String {
    let svg = figure.svg.0.as_str();
    // The drawing's own tag ends at the first `>`, since attributes are escaped.
    let (tag, rest) = svg.split_at(svg.find('>').map_or(0, |at| at + 1));
    let ground = "svg.plot { background: var(--paper); }";
    format!("{tag}<style>{COLOURS}{PLOT}{ground}</style>{rest}\n")
}

/// The whole page.
pub(super) fn page(result: &ResultFile, sections: &[Section]) -> String {
    let title = format!("{} on {}", result.workload.name, result.target);
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "afflux " (result.program.version) };
                title { (title) " – Afflux" }
                style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) (PreEscaped(PLOT)) }
            }
            body {
                header {
                    p class="brand" { b { "Afflux" } " · " (title) " · " (result.began_at) }
                    (headline(result))
                    (warning(result))
                    (tiles(result))
                }
                main {
                    @for section in sections { (part(section)) }
                    (method(result))
                }
                footer {
                    "Made from " code { "result.json" } " by afflux " (env!("CARGO_PKG_VERSION"))
                    ". The data of every plot lies beside this page in " code { "data/" }
                    " as CSV, the plots in " code { "plots/" } " as SVG; "
                    code { "afflux report DIR" } " makes them again."
                }
            }
        }
    };
    whole.into_string() + "\n"
}

fn part(section: &Section) -> Markup {
    html! {
        section {
            // On paper a heading stays with its plots.
            div class="whole" {
                @if let Some(part) = &section.part { h2 class="part" { (part) } }
                h2 { (section.title) }
                @if !section.lead.0.is_empty() { p class="lead" { (section.lead) } }
                @if !section.figures.is_empty() { (figures(&section.figures)) }
            }
            (section.after)
        }
    }
}

fn figures(figures: &[Figure]) -> Markup {
    html! {
        div class=(if figures.len() == 1 { "figures one" } else { "figures" }) {
            @for figure in figures {
                figure {
                    figcaption class=(figure.side.map_or("plain", |side| side.word())) {
                        (figure.title)
                    }
                    (figure.svg)
                }
            }
        }
    }
}

/// What came out, in one line, and what it stands on.
fn headline(result: &ResultFile) -> Markup {
    if let Some(sweep) = &result.sweep {
        return worlds::headline(result, sweep);
    }
    match result.comparisons.as_slice() {
        [] => headline_alone(result),
        [one] => headline_of(result, one),
        several => headline_of_several(result, several),
    }
}

fn headline_alone(result: &ResultFile) -> Markup {
    let Some(run) = result.runs.first() else {
        return html! {
            h1 { "Nothing is confirmed yet" }
            p class="sub" { (result.workload.name) " on " (result.target) }
        };
    };
    html! {
        h1 { (quantity(run.summary.total_mb_s, "MB/s")) " by "
            (count(run.clients.len() as u64, "client")) }
        p class="sub" {
            b { (result.workload.name) } " on " b { (result.target) } " under "
            b { (run.setting) } ", one run of " (seconds(result.plan.length_secs))
            ". One run tells what happened, and not whether anything was gained; "
            code { "--compare" } " does."
        }
    }
}

fn headline_of(result: &ResultFile, comparison: &ComparisonRecord) -> Markup {
    let Some(first) = comparison.metrics.first() else { return html! {} };
    let class = class_of(first.verdict());
    let also: Vec<String> = comparison
        .metrics
        .iter()
        .skip(1)
        .filter(|compared| compared.verdict() != Verdict::NoDifference)
        .map(|compared| {
            let words = compared.verdict().words();
            format!("{} {} ({words})", compared.metric, percent(compared.change_percent.mean))
        })
        .collect();
    html! {
        h1 class=(class) { (sentence(&verdict(first))) }
        p class="sub" {
            "95 % interval " b { (interval(first.change_percent)) } ": "
            (basis(result, comparison))
        }
        @if !also.is_empty() {
            p class="sub" { "Also beyond noise: " (also.join(", ")) "." }
        } @else {
            p class="sub" { "Nothing else changed beyond noise." }
        }
    }
}

fn headline_of_several(result: &ResultFile, comparisons: &[ComparisonRecord]) -> Markup {
    let firsts = comparisons.iter().filter_map(|one| Some((one, one.metrics.first()?)));
    let better = firsts.clone().filter(|(_, first)| first.verdict() == Verdict::Better).count();
    let metric = firsts.clone().next().map_or("", |(_, first)| first.metric.as_str());
    let found: Vec<&ComparedRecord> = firsts.clone().map(|(_, first)| first).collect();
    let found = found.as_slice();
    let intervals: usize = comparisons.iter().map(|one| one.metrics.len()).sum();
    html! {
        @match (&result.search, found) {
            (Some(_), [over_baseline, over_fixed, ..]) => {
                h1 { "Found: " (verdict(over_baseline)) ", and against the best fixed setting "
                    (verdict(over_fixed)) }
            }
            _ => h1 { (better) " of " (comparisons.len()) " settings improved " (metric) },
        }
        p class="sub" {
            b { (result.workload.name) } " on " b { (result.target) } ", "
            (count(result.plan.pairs.into(), "alternating pair")) " of "
            (seconds(result.plan.length_secs)) " for each."
        }
        ul class="verdicts" {
            @for (one, first) in firsts {
                li {
                    b { (one.setting) } " against " (one.baseline) ": "
                    span class=(class_of(first.verdict())) { (verdict(first)) }
                    " (95 % interval " (interval(first.change_percent)) ")"
                }
            }
        }
        p class="sub" {
            "There are " (intervals) " intervals below. One in twenty excludes zero by chance "
            "alone, so that a single small change among many proves little."
        }
    }
}

fn basis(result: &ResultFile, comparison: &ComparisonRecord) -> Markup {
    html! {
        b { (comparison.setting) } " against " b { (comparison.baseline) } ", "
        b { (result.workload.name) } " on " b { (result.target) } ", "
        (count(result.plan.pairs.into(), "alternating pair")) " of fresh runs of "
        (seconds(result.plan.length_secs)) " each."
    }
}

/// Requests that failed make every number doubtful, so they are told first.
fn warning(result: &ResultFile) -> Markup {
    let clients = || result.runs.iter().flat_map(|run| &run.clients);
    let faults: u64 = clients().map(|client| client.faults).sum();
    let first = clients().find_map(|client| client.first_fault.as_deref());
    if faults == 0 {
        return html! {};
    }
    html! {
        p class="warning" {
            b { (count(faults, "request")) " ended without an answer" }
            @if let Some(first) = first { "; the first: " (first) }
            ". What was measured is that of a system in trouble."
        }
    }
}

fn tiles(result: &ResultFile) -> Markup {
    let [comparison] = result.comparisons.as_slice() else { return html! {} };
    html! {
        ul class="tiles" {
            @for compared in &comparison.metrics {
                li class=(class_of(compared.verdict())) {
                    span class="name" { (compared.metric) }
                    span class="value" {
                        (number(compared.baseline)) " → " (number(compared.setting))
                        small { " " (compared.unit) }
                    }
                    span class="change" {
                        @match compared.verdict() {
                            Verdict::NoDifference => { (compared.verdict().words()) }
                            _ => {
                                (percent(compared.change_percent.mean)) ", "
                                (compared.verdict().words())
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How it was measured, and all that is needed to measure it again.
fn method(result: &ResultFile) -> Markup {
    let program = &result.program;
    let words = program.command.iter().map(String::as_str);
    // Only a null byte cannot be quoted, and no argument of a process has one.
    let command = shlex::try_join(words).unwrap_or_else(|_| program.command.join(" "));
    let mut seeds: Vec<u64> = result.runs.iter().map(|run| run.seed).collect();
    seeds.push(result.plan.seed);
    seeds.extend(result.sweep.iter().flat_map(|sweep| &sweep.rows).map(|row| row.seed));
    seeds.sort_unstable();
    seeds.dedup();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let machine = &result.machine;
    html! {
        section {
            h2 { "How it was measured" }
            p class="lead" { (how(result)) }
            dl {
                dt { "command" } dd { code { (command) } }
                dt { "program" } dd { "afflux " (program.version) }
                dt { "began" } dd { (result.began_at) }
                dt { "target" } dd { (result.target) }
                dt { "workload" }
                dd {
                    (result.workload.name) ", " (count(result.workload.clients.into(), "client"))
                    @if !result.workload.about.is_empty() { ": " (result.workload.about) }
                }
                dt { "runs" }
                dd {
                    @match &result.sweep {
                        Some(sweep) => (count(sweep.rows.len() as u64, "world")),
                        None => (count(result.runs.len() as u64, "full run")),
                    }
                    " of "
                    (seconds(result.plan.length_secs)) ", after "
                    (seconds(result.plan.settle_secs)) " each that do not count"
                }
                dt { "seeds" } dd { (seeds.join(", ")) }
                dt { "machine" }
                dd {
                    (count(machine.cores.into(), "core"))
                    @if !machine.processor.is_empty() { ", " (machine.processor) }
                    @if machine.memory_bytes > 0 {
                        ", " (format!("{:.0} GiB", machine.memory_bytes as f64 / 1_073_741_824.0))
                    }
                    @if !machine.kernel.is_empty() { ", Linux " (machine.kernel) }
                }
            }
            @if !result.workload.text.is_empty() { pre { (result.workload.text.trim_end()) } }
        }
    }
}

fn how(result: &ResultFile) -> Markup {
    html! {
        "Throughput is counted at the clients, second by second, by the arrival of replies. Every "
        "run starts from the same files, with fresh controllers. "
        @if !result.comparisons.is_empty() {
            "Machines and disks drift, so each run of a setting stands in a pair with a run of its "
            "baseline under the same seed, in changing order, and only differences within pairs "
            "count: their mean, in percent of the mean of all baselines, with the 95 % interval of "
            "Student's t. An interval that holds zero means that no difference was seen, not that "
            "there is none. "
        }
        "Traffic that is not regulated still has a window of 8 requests for each client, server and "
        "class, as Lustre ships it: the baseline " b { "none" } " is that, and not a storm."
    }
}
