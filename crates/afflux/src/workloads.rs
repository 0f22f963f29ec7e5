//! Where a workload named on the command line comes from.

use afflux_core::workload::{PRESETS, Workload, preset};

use crate::failure::Failure;

/// The preset of that name, or the workload file at that path.
pub(crate) fn load(name: &str) -> Result<Workload, Failure> {
    Ok(load_with_text(name)?.0)
}

/// As [`load`], with the text of its file.
pub(crate) fn load_with_text(name: &str) -> Result<(Workload, String), Failure> {
    if let Some(preset) = preset(name) {
        return Ok((preset.workload(), preset.text.to_owned()));
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        Failure::input(format!(
            "`{name}` is no preset, and as a file it cannot be read: {error}\n\
             hint: the presets are {}",
            known.join(", ")
        ))
    })?;
    let workload = Workload::parse(&text);
    Ok((workload.map_err(|error| Failure::input(format!("{name}: {error}")))?, text))
}
