//! Fits the free parameters of a scenario: runs its `[[fit]]` figures at every point of the grid
//! that its `[[free]]` tables span, and prints the points, the best first. Only published baselines
//! are looked at, never a gain.
//!
//! ```text
//! cargo run --release -p afflux-sim --example fit -- scenarios/ascar.toml
//! ```

#![allow(clippy::disallowed_methods, reason = "an example reads its scenario from a file")]
#![allow(clippy::disallowed_macros, reason = "an example prints its results")]

use std::error::Error;

use afflux_sim::Scenario;
use afflux_sim::published::{difference, simulated};

/// Seeds over which a figure is the mean.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Points that are printed.
const SHOWN: usize = 25;

/// One point of the grid.
struct Point {
    set: Vec<String>,
    /// Difference of each figure, as a fraction.
    differences: Vec<f64>,
}

impl Point {
    /// Root of the mean square of the differences.
    fn error(&self) -> f64 {
        let squares: f64 = self.differences.iter().map(|one| one * one).sum();
        (squares / self.differences.len() as f64).sqrt()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a scenario, as in scenarios/ascar.toml")?;
    let scenario = Scenario::parse(&std::fs::read_to_string(&path)?)?;
    let mut points = Vec::new();
    for set in grid(&scenario) {
        let model = scenario.clone().with(&set)?;
        let differences = model
            .fitted
            .iter()
            .map(|figure| simulated(&model, figure, &SEEDS).map(|value| difference(figure, value)));
        let point = Point { differences: differences.collect::<Result<_, _>>()?, set };
        eprintln!("{:6.2} %  {}", point.error() * 100.0, point.set.join(" "));
        points.push(point);
    }
    points.sort_by(|left, right| left.error().total_cmp(&right.error()));
    let names: Vec<_> = scenario.fitted.iter().map(|figure| figure.name.as_str()).collect();
    println!("{} points; error | {} | parameters", points.len(), names.join(" | "));
    for point in points.iter().take(SHOWN) {
        let each: Vec<_> =
            point.differences.iter().map(|one| format!("{:+.1} %", one * 100.0)).collect();
        println!("{:.2} % | {} | {}", point.error() * 100.0, each.join(" | "), point.set.join(" "));
    }
    Ok(())
}

/// Every combination of the values of the free parameters.
fn grid(scenario: &Scenario) -> Vec<Vec<String>> {
    scenario.free.iter().fold(vec![Vec::new()], |points, free| {
        let with = |point: &Vec<String>, value: &String| {
            let mut longer = point.clone();
            longer.push(format!("{}={value}", free.key));
            longer
        };
        points
            .iter()
            .flat_map(|point| free.values.iter().map(move |value| with(point, value)))
            .collect()
    })
}
