//! Where a workload named on the command line comes from.

use afflux_core::workload::{PRESETS, Workload, preset};

use crate::failure::Failure;

/// The preset of that name, or the workload file at that path.
pub(crate) fn load(name: &str) -> Result<Workload, Failure> {
    if let Some(preset) = preset(name) {
        return Ok(preset.workload());
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        Failure::input(format!(
            "`{name}` is no preset, and as a file it cannot be read: {error}\n\
             hint: the presets are {}",
            known.join(", ")
        ))
    })?;
    Workload::parse(&text).map_err(|error| Failure::input(format!("{name}: {error}")))
}
