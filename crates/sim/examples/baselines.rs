//! Prints the published figures of scenarios beside what the simulator gives, as Markdown, for each
//! of their models. Scenarios without models have no figures.
//!
//! ```text
//! cargo run --release -p afflux-sim --example baselines -- scenarios/*.toml
//! ```

#![allow(clippy::disallowed_methods, reason = "an example reads its scenario from a file")]
#![allow(clippy::disallowed_macros, reason = "an example prints its results")]

use std::error::Error;

use afflux_sim::Scenario;
use afflux_sim::published::{difference, simulated};
use afflux_sim::scenario::Figure;

/// Seeds over which a figure is the mean.
const SEEDS: [u64; 3] = [1, 2, 3];

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let scenario = Scenario::parse(&std::fs::read_to_string(&path)?)?;
        if !scenario.models.is_empty() {
            table(&scenario)?;
        }
    }
    Ok(())
}

fn table(scenario: &Scenario) -> Result<(), Box<dyn Error>> {
    let models: Vec<_> = scenario.models.iter().map(|model| model.name.as_str()).collect();
    let head: Vec<_> = models.iter().map(|name| format!("model {name} | difference")).collect();
    println!("### {}\n\n| figure | use | published | {} |", scenario.name, head.join(" | "));
    println!("|---|---|---:|{}", "---:|---:|".repeat(models.len()));
    for (kind, figures) in [("fit", &scenario.fitted), ("prediction", &scenario.published)] {
        for figure in figures {
            println!("{}", row(scenario, kind, figure, &models)?);
        }
    }
    println!();
    Ok(())
}

fn row(
    scenario: &Scenario,
    kind: &str,
    figure: &Figure,
    models: &[&str],
) -> Result<String, Box<dyn Error>> {
    let Figure { name, value, unit, .. } = figure;
    let mut row = format!("| {name} | {kind} | {value} {unit} |");
    for model in models {
        let value = simulated(&scenario.clone().with_model(model)?, figure, &SEEDS)?;
        let digits = if figure.value < 10.0 { 2 } else { 0 };
        let apart = difference(figure, value) * 100.0;
        row += &format!(" {value:.digits$} | {apart:+.0} % |");
    }
    Ok(row)
}
