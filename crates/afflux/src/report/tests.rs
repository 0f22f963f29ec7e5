//! The page as a whole: what it must hold, and what it must not.

use super::sample;
use super::schema::{ResultFile, RunPlace, TrialRecord};
use super::{page, sections, tables};

fn page_of(result: &ResultFile) -> String {
    page::page(result, &sections::sections(result))
}

#[test]
fn every_part_is_told() {
    let page = page_of(&sample::searched());
    for part in [
        "Throughput +12.0 %",
        "+8.0 % to +16.0 %",
        "What changed",
        "Throughput over time",
        "One path from reply to reply",
        "What held requests back",
        "The rules of x for read, write",
        "Course of the search",
        "best fixed setting",
        "How it was measured",
        "afflux bench 'a b.toml' --compare fixed:4",
        "Linux 6.1.0",
        "−∞ to +∞",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page_of(&sample::single()).contains("One run tells what happened"));
}

#[test]
fn a_result_that_shows_nothing_says_so() {
    let mut result = sample::compared();
    let change = &mut result.comparisons[0].metrics[0].change_percent;
    change.low = Some(-4.0);
    assert!(page_of(&result).contains("<h1 class=\"same\">No difference in throughput seen</h1>"));
    result.comparisons[0].metrics.clear();
    result.runs.clear();
    page_of(&result);
    result.comparisons.clear();
    assert!(page_of(&result).contains("Nothing is confirmed yet"));
}

#[test]
fn several_settings_are_counted_and_warned_about() {
    let mut result = sample::compared();
    let mut second = result.comparisons[0].clone();
    second.setting = "fixed:4".to_owned();
    second.metrics[0].change_percent.low = Some(-1.0);
    result.comparisons.push(second);
    let page = page_of(&result);
    assert!(page.contains("1 of 2 settings improved throughput"));
    assert!(page.contains("One in twenty"));
}

#[test]
fn faults_are_told_first() {
    let mut result = sample::single();
    result.runs[0].clients[1].faults = 3;
    result.runs[0].clients[1].first_fault = Some("server <2> is gone".to_owned());
    let page = page_of(&result);
    let warning = "3 requests ended without an answer</b>; the first: server &lt;2&gt;";
    assert!(page.contains(warning), "{}", page.split("class=\"warning\"").nth(1).unwrap());
}

/// Every text that somebody else may have chosen.
#[test]
fn hostile_names_stay_names() {
    let evil = "<script>alert(1)</script>\"'><svg onload=x>&]]>";
    let mut result = sample::searched();
    result.target = evil.to_owned();
    result.began_at = evil.to_owned();
    result.program.command.push(evil.to_owned());
    result.program.version = evil.to_owned();
    result.machine.kernel = evil.to_owned();
    result.machine.processor = evil.to_owned();
    result.workload.name = evil.to_owned();
    result.workload.about = evil.to_owned();
    result.workload.text = evil.to_owned();
    for comparison in &mut result.comparisons {
        comparison.setting = evil.to_owned();
        comparison.baseline = evil.to_owned();
        comparison.metrics[0].metric = evil.to_owned();
        comparison.metrics[0].unit = evil.to_owned();
    }
    for run in &mut result.runs {
        run.setting = evil.to_owned();
        run.clients[0].first_fault = Some(evil.to_owned());
        run.clients[0].faults = 1;
        run.held_secs.insert(evil.to_owned(), vec![1.0; 4]);
        let trace = run.trace.as_mut().unwrap();
        trace.path = evil.to_owned();
        trace.indicators[0].name = evil.to_owned();
        trace.indicators[0].unit = evil.to_owned();
    }
    for rules in &mut result.rules {
        rules.name = evil.to_owned();
        rules.setting = evil.to_owned();
    }
    let mut unreadable = result.rules[0].clone();
    unreadable.text = evil.to_owned();
    result.rules.push(unreadable);
    let search = result.search.as_mut().unwrap();
    for text in [&mut search.method, &mut search.objective, &mut search.score_unit] {
        *text = evil.to_owned();
    }
    search.budget = evil.to_owned();
    search.found = Some(evil.to_owned());
    search.trials.push(TrialRecord { kind: evil.to_owned(), ..TrialRecord::default() });
    let sections = sections::sections(&result);
    let page = page::page(&result, &sections);
    assert!(!page.contains("<script") && !page.contains("<svg onload"));
    for figure in sections.iter().flat_map(|section| &section.figures) {
        let drawing = page::standalone(figure);
        assert!(!drawing.contains("<script") && !drawing.contains("<svg onload"));
        assert!(figure.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    }
}

#[test]
fn the_page_asks_no_network() {
    let page = page_of(&sample::searched());
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "//", "url(", "@import", "<link", "<script", " src="] {
        let found = outside.find(word).map(|at| &outside[at.saturating_sub(30)..at + 10]);
        assert!(found.is_none(), "{word}: {found:?}");
    }
}

/// Thirty-two clients for a minute, four settings, traces as long as they get.
#[test]
fn a_large_result_makes_a_page_that_still_mails() {
    let mut result = sample::compared();
    let mut run = result.runs[0].clone();
    let seconds = 60;
    run.clients = vec![run.clients[0].clone(); 32];
    for (number, client) in run.clients.iter_mut().enumerate() {
        client.read_bytes = (0..seconds).map(|at| (at * 7_919 + number as u64) * 999).collect();
        client.write_bytes = client.read_bytes.clone();
    }
    for held in run.held_secs.values_mut() {
        *held = (0..seconds).map(|at| at as f64 / 3.0).collect();
    }
    let trace = run.trace.as_mut().unwrap();
    let points = afflux_core::measure::MAX_POINTS;
    let wave = |step: usize| (0..points).map(move |at| (at * step % 997) as f64 / 7.0);
    trace.at_secs = (0..points).map(|at| at as f64 * 60.0 / points as f64).collect();
    trace.indicators.iter_mut().for_each(|column| column.values = wave(31).collect());
    (trace.window, trace.gap_ms) = (wave(17).collect(), wave(13).collect());
    trace.in_flight = wave(5).map(|value| value as u32).collect();
    result.plan.length_secs = seconds as f64;
    result.runs.clear();
    let comparison = result.comparisons[0].clone();
    result.comparisons = vec![comparison; 4];
    for comparison in 0..4 {
        for (pair, baseline) in
            [(0, true), (0, false), (1, true), (1, false), (2, true), (2, false)]
        {
            run.place = Some(RunPlace { comparison, pair, baseline });
            result.runs.push(run.clone());
        }
    }
    let page = page_of(&result).len();
    assert!(page < 2_000_000, "{page} bytes");
}

#[test]
fn tables_hold_what_is_drawn() {
    let result = sample::searched();
    let tables = tables::all(&result);
    let lines = |wanted: &str| {
        let (_, text) = tables.iter().find(|(name, _)| *name == wanted).unwrap();
        String::from_utf8(text.clone()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("clients").len(), 1 + 6 * 3 * 4);
    assert_eq!(lines("search").len(), 1 + 90);
    assert_eq!(lines("rules")[0], RULES_HEAD);
    assert!(lines("rules")[1].ends_with("33000000,,3011,45000000,8000000,3200"));
    assert!(
        lines("path")[0].ends_with("ack_ewma_ms,send_ewma_ms,pt_ratio,window,gap_ms,in_flight")
    );
    assert_eq!(lines("changes")[3].rsplit(',').next(), Some("no difference seen"));
    assert!(!tables.iter().any(|(name, _)| *name == "survey"), "nothing was tried");
}

const RULES_HEAD: &str = "setting,rules,for,rule,ack_ewma_low,ack_ewma_high,send_ewma_low,\
    send_ewma_high,pt_ratio_low,pt_ratio_high,m,b,gap_ns,gap_of_ack_ewma,hits,ack_ewma_mean,\
    send_ewma_mean,pt_ratio_mean";
