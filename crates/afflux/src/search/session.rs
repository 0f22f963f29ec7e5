//! A search from its arguments to the files that it leaves.

use std::io::Write;
use std::path::Path;

use afflux_core::objective::Objective;
use afflux_core::rules::RuleFile;
use afflux_core::target::Target;
use afflux_core::workload::Workload;

use super::budget::Budget;
use super::journal::{Head, Journal};
use super::live::Live;
use super::{Driver, Found, record};
use crate::failure::Failure;
use crate::report::ResultFolder;

/// What is searched, and where its files are.
pub(crate) struct Session<'a> {
    pub(crate) head: &'a Head,
    pub(crate) workload: &'a Workload,
    pub(crate) objective: Objective,
    pub(crate) budget: Budget,
    pub(crate) dir: &'a Path,
}

impl Session<'_> {
    /// Opens the journal, or begins it; says so when there is something to go on with.
    pub(crate) fn open(&self, talk: &mut dyn Write) -> Result<Journal, Failure> {
        let journal = Journal::open(self.dir, self.head)?;
        let earlier = journal.entries.len();
        if earlier > 0 || journal.torn_bytes > 0 {
            let dir = self.dir.display();
            writeln!(talk, "afflux: going on with the search in {dir}, {earlier} runs are done")?;
        }
        Ok(journal)
    }

    /// Searches, and leaves rules, result and page in the directory.
    pub(crate) fn run(
        self,
        journal: Journal,
        target: &mut dyn Target,
        talk: &mut dyn Write,
    ) -> Result<Found, Failure> {
        let Self { head, workload, objective, budget, dir } = self;
        let live = Live::new()?;
        let target_name = target.name();
        let driver = Driver { head, journal, target, workload, objective, budget, live: &live };
        let found = driver.run();
        live.finish();
        let found = found?;
        keep(dir, head, &target_name, &found, talk)?;
        let folder = ResultFolder::at(dir);
        folder.write(&record::of(head, &target_name, workload, budget, &found)?)?;
        writeln!(talk, "afflux: the page is {}", folder.page_path().display())?;
        Ok(found)
    }
}

/// Keeps the rules that were found, with where they come from.
fn keep(
    dir: &Path,
    head: &Head,
    target: &str,
    found: &Found,
    talk: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(file) = found.best.candidate.rule_file() else { return Ok(()) };
    let gain = |comparison: usize| {
        let metric = found.comparisons.get(comparison).and_then(|c| c.metrics.first());
        metric.map(|compared| compared.change_percent.in_percent()).unwrap_or_default()
    };
    let provenance = [
        ("workload", head.workload.clone()),
        ("clients", head.clients.to_string()),
        ("target", target.to_owned()),
        ("method", head.method.clone()),
        ("objective", head.objective.clone()),
        ("seed", head.seed.to_string()),
        ("score", found.best.score.to_string()),
        ("throughput-against-none", gain(0)),
        ("best-fixed", found.fixed.candidate.label()),
        ("throughput-against-best-fixed", gain(1)),
        ("program", format!("afflux {}", head.program)),
    ];
    let provenance = provenance.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let file = RuleFile { name: Some(format!("{}-found", head.workload)), provenance, ..file };
    let path = dir.join("found.rules");
    std::fs::write(&path, file.to_string())
        .map_err(|error| Failure::broken(format!("cannot write {}: {error}", path.display())))?;
    writeln!(talk, "afflux: the rules are in {}", path.display())?;
    Ok(())
}
