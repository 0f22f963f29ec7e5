//! What the page and its data tell of simulated worlds.

use maud::{Markup, html};

use super::figures::{Figure, published, spread, swept, world};
use super::schema::ResultFile;
use super::sections::Section;
use super::tables::Table;
use super::words::{count, percent, quantity, sentence};
use crate::tables::number;
use crate::worlds::published::{Beside, Use};
use crate::worlds::record::{SweepRecord, WorldRecord};

/// Rows that the page shows of a sweep; the CSV has all.
const ROWS: usize = 200;

/// The sections of a world or a sweep; none of any other result.
pub(super) fn sections(result: &ResultFile) -> Vec<Section> {
    let mut sections = Vec::new();
    if let Some(sweep) = &result.sweep {
        sections.push(of_sweep(sweep));
        sections.extend(beside(sweep.published.iter().map(|one| &one.beside)));
    }
    if let Some(world) = &result.world {
        sections.extend(beside(world.published.iter()));
        sections.push(Section {
            title: "The course of the world".to_owned(),
            lead: html! {
                "Step by step, from the first moment on; what lies before the dotted line does not "
                "count. Requests in a server wait or are in service; they are told as the mean "
                "over the servers and of the fullest one."
            },
            figures: world::plots(&world.series),
            ..Section::default()
        });
        sections.push(distributions(result, world));
        sections.push(counted(world));
    }
    sections
}

fn distributions(result: &ResultFile, world: &WorldRecord) -> Section {
    let clients = client_means(result);
    let figure = |name: &str, title: &str, svg: Markup| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        side: None,
        svg,
    };
    Section {
        title: "Distributions".to_owned(),
        lead: html! {
            "How long replies took, and how evenly the clients fared: the steeper, the more alike."
            " All times that occurred are in " code { "data/process-times-cumulative.csv" } "."
            @if world.merged > 1 { " Clients are added up in groups of " (world.merged) "." }
        },
        figures: vec![
            figure("process-times", "Process times", spread::process_times(&world.process_times)),
            figure("client-throughput", "Throughput of the clients", spread::clients(&clients)),
        ],
        ..Section::default()
    }
}

/// Mean throughput of each client, or group of clients, in MB/s.
fn client_means(result: &ResultFile) -> Vec<f64> {
    let mean = |bytes: Vec<u64>| bytes.iter().sum::<u64>() as f64 / 1e6 / bytes.len().max(1) as f64;
    let clients = result.runs.iter().flat_map(|run| &run.clients);
    clients.map(|client| mean(client.bytes())).collect()
}

/// Applications and counts.
fn counted(world: &WorldRecord) -> Section {
    let secs = |secs: Option<f64>| secs.map_or("–".to_owned(), |secs| quantity(secs, "s"));
    let after = html! {
        @if world.applications.len() > 1 {
            div class="scroll" { table {
                thead { tr {
                    th { "application" } th { "clients" } th { "started" } th { "ended" }
                    th { "moved" }
                } }
                tbody {
                    @for one in &world.applications {
                        tr {
                            td { (one.name) } td { (one.clients) } td { (secs(one.started_secs)) }
                            td { (secs(one.ended_secs)) }
                            td { (quantity(one.bytes as f64 / 1e6, "MB")) }
                        }
                    }
                }
            } }
        }
        div class="scroll" { table {
            thead { tr { th { "in the whole run, settling included" } th { "count" } } }
            tbody {
                @for (what, count) in &world.counts { tr { td { (what) } td { (count) } } }
            }
        } }
    };
    Section { title: "What happened".to_owned(), after, ..Section::default() }
}

/// Published figures beside simulated ones.
fn beside<'a>(figures: impl Iterator<Item = &'a Beside>) -> Option<Section> {
    let figures: Vec<Beside> = figures.cloned().collect();
    if figures.is_empty() {
        return None;
    }
    let predictions = figures.iter().filter(|one| one.use_ == Use::Prediction);
    let near = |one: &&Beside| one.difference_percent.is_some_and(|d| d.abs() <= 10.0);
    let (good, all) = (predictions.clone().filter(near).count(), predictions.count() as u64);
    let dash = || "–".to_owned();
    let after = html! {
        div class="scroll" { table {
            thead { tr {
                th { "figure" } th { "published" } th { "simulated" } th { "difference" }
                th { "all models" }
                th class="left" { "use" } th class="left" { "under" } th class="left" { "source" }
            } }
            tbody {
                @for one in &figures {
                    tr {
                        td { (one.name) }
                        td { (quantity(one.published, &one.unit)) }
                        td { (one.simulated.map_or_else(dash, number)) }
                        td { (one.difference_percent.map_or_else(dash, percent)) }
                        td { (one.range.map_or_else(dash, |[least, most]| {
                            format!("{} to {}", number(least), number(most))
                        })) }
                        td class="left" { (one.use_.words()) }
                        td class="left" { (one.set.join(" ")) }
                        td class="left" { (one.source) }
                    }
                }
            }
        } }
    };
    Some(Section {
        title: "Published and simulated".to_owned(),
        lead: html! {
            "What served to fit the scenario proves nothing; the predictions do. Of "
            (count(all, "prediction")) ", " (good) " came out within 10 %, the shaded range."
        },
        figures: vec![Figure {
            name: "published".to_owned(),
            title: "Simulated against published".to_owned(),
            side: None,
            svg: published::plot(&figures),
        }],
        after,
        ..Section::default()
    })
}

fn of_sweep(sweep: &SweepRecord) -> Section {
    let figure = |name: &String| {
        Some(Figure {
            name: format!("sweep-{name}"),
            title: sentence(sweep.about(name)),
            side: None,
            svg: swept::plot(sweep, name)?,
        })
    };
    let points = sweep.points();
    let shown = |name: &str, point: &[usize]| match sweep.spread(name, point) {
        None => "–".to_owned(),
        Some(spread) if sweep.seeds == 1 => number(spread.mean),
        Some(spread) => format!("{} ± {}", number(spread.mean), number(spread.deviation)),
    };
    let after = html! {
        div class="scroll" { table {
            thead { tr {
                @for axis in &sweep.axes { th class="left" { (axis.key) } }
                @for name in &sweep.shown { th { (name) } }
            } }
            tbody {
                @for point in points.iter().take(ROWS) {
                    tr {
                        @for (axis, &at) in sweep.axes.iter().zip(*point) {
                            td class="left" { (axis.values[at]) }
                        }
                        @for name in &sweep.shown { td { (shown(name, point)) } }
                    }
                }
            }
        } }
        @if points.len() > ROWS {
            p class="lead" {
                "Shown are the first " (ROWS) " of " (points.len()) " points; "
                code { "data/sweep.csv" } " has all."
            }
        }
    };
    Section {
        title: "Over the sweep".to_owned(),
        lead: html! {
            "Each point is a world of its own"
            @if sweep.seeds > 1 {
                ", run with " (sweep.seeds) " seeds: drawn are their mean, and the range from the "
                "least to the greatest"
            }
            "."
        },
        figures: sweep.shown.iter().filter_map(figure).collect(),
        after,
        ..Section::default()
    }
}

/// What a sweep ran, in one line.
pub(super) fn headline(result: &ResultFile, sweep: &SweepRecord) -> Markup {
    let keys: Vec<&str> = sweep.axes.iter().map(|axis| axis.key.as_str()).collect();
    html! {
        h1 { (count(sweep.rows.len() as u64, "world")) " of " (result.workload.name) }
        p class="sub" {
            @if keys.is_empty() { "The same scenario" } @else { "Over " b { (keys.join(", ")) } }
            ", " (count(sweep.seeds.into(), "seed")) " each. Simulated: what holds in a model "
            "holds elsewhere as far as the model does."
        }
    }
}

/// Name and rows of every table of a world or a sweep.
pub(super) fn tables(result: &ResultFile) -> Vec<(&'static str, Table)> {
    let mut tables = Vec::new();
    let mut figures: Vec<&Beside> = Vec::new();
    if let Some(sweep) = &result.sweep {
        tables.push(("sweep", sweep_table(sweep)));
        figures.extend(sweep.published.iter().map(|one| &one.beside));
    }
    if let Some(world) = &result.world {
        tables.push(("series", series_table(world)));
        tables.push(("process-times", times_table(world)));
        tables.push(("process-times-cumulative", cumulative_table(world)));
        tables.push(("client-throughput", throughput_table(&client_means(result))));
        figures.extend(&world.published);
    }
    tables.push(("published", published_table(&figures)));
    tables
}

fn real(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn sweep_table(sweep: &SweepRecord) -> Table {
    let keys = sweep.axes.iter().map(|axis| axis.key.as_str()).chain(["seed"]);
    let names: Vec<&str> = keys.chain(sweep.numbers.iter().map(|one| one.name.as_str())).collect();
    let mut table = Table::new(&names);
    for row in &sweep.rows {
        let values = sweep.axes.iter().zip(&row.point).map(|(axis, &at)| axis.values[at].clone());
        let values = values.chain([row.seed.to_string()]);
        table.write(values.chain(row.values.iter().map(|value| real(*value))).collect());
    }
    table
}

fn series_table(world: &WorldRecord) -> Table {
    let series = &world.series;
    let applications = &series.throughput;
    let names =
        ["at_secs", "queued_mean", "queued_most", "process_ms", "process_most_ms", "window"];
    let names = names.into_iter().chain(["in_flight"]).map(str::to_owned);
    let ways = applications.iter().flat_map(|one| {
        ["read_mb_s", "write_mb_s"].map(|way| format!("{}.{way}", one.application))
    });
    let names: Vec<String> = names.chain(ways).collect();
    let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for step in 0..series.queued.len() {
        let at_secs = (step + 1) as f64 * series.step_secs;
        let row = [
            at_secs.to_string(),
            series.queued[step].to_string(),
            series.queued_most[step].to_string(),
            series.process_ms[step].to_string(),
            series.process_most_ms[step].to_string(),
            series.window[step].to_string(),
            series.in_flight[step].to_string(),
        ];
        let moved = applications
            .iter()
            .flat_map(|one| [one.read_mb_s[step].to_string(), one.write_mb_s[step].to_string()]);
        table.write(row.into_iter().chain(moved).collect());
    }
    table
}

fn times_table(world: &WorldRecord) -> Table {
    let mut table = Table::new(&["class", "part", "at_most_ms"]);
    for times in &world.process_times {
        for (part, ms) in times.parts.iter().zip(&times.ms) {
            table.write(vec![times.class.clone(), part.to_string(), ms.to_string()]);
        }
    }
    table
}

fn cumulative_table(world: &WorldRecord) -> Table {
    let mut table = Table::new(&["class", "at_most_ms", "replies", "part"]);
    for times in &world.process_times {
        for (ms, replies) in &times.cumulative {
            let part = *replies as f64 / times.replies as f64;
            let class = times.class.clone();
            table.write(vec![class, ms.to_string(), replies.to_string(), part.to_string()]);
        }
    }
    table
}

/// Clients from the one that got least to the one that got most.
fn throughput_table(mb_s: &[f64]) -> Table {
    let mut clients: Vec<(usize, f64)> = mb_s.iter().copied().enumerate().collect();
    clients.sort_by(|left, right| left.1.total_cmp(&right.1));
    let mut table = Table::new(&["client", "at_most_mb_s", "part"]);
    for (at, (client, mb_s)) in clients.iter().enumerate() {
        let part = (at + 1) as f64 / clients.len() as f64;
        table.write(vec![client.to_string(), mb_s.to_string(), part.to_string()]);
    }
    table
}

fn published_table(figures: &[&Beside]) -> Table {
    let names = ["figure", "metric", "use", "unit", "published", "simulated", "difference_percent"];
    let names: Vec<_> = names.into_iter().chain(["least", "most", "set", "source"]).collect();
    let mut table = Table::new(&names);
    for one in figures {
        table.write(vec![
            one.name.clone(),
            one.metric.clone(),
            one.use_.words().to_owned(),
            one.unit.clone(),
            one.published.to_string(),
            real(one.simulated),
            real(one.difference_percent),
            real(one.range.map(|[least, _]| least)),
            real(one.range.map(|[_, most]| most)),
            one.set.join(" "),
            one.source.clone(),
        ]);
    }
    table
}
