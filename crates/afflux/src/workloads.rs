//! Where a workload named on the command line comes from.

use afflux_core::workload::{PRESETS, Workload, preset};

use crate::failure::Failure;
use crate::target;

/// What stands for the workload of a command under the library, which does what it does: a name for
/// reports, and the number of clients.
const COMMAND: &str = "\
# A command under the library, which does what it does; only the number of clients counts here.
afflux-workload = 1
name = \"command\"
about = \"the command after --on\"
clients = 1
files = { each = 1, size = \"1 MiB\" }
stream = [{ threads = 1, steps = [{ do = \"stat\" }] }]
";

/// What stands for the workload of a replay, which makes the requests of its trace.
const REPLAY: &str = "\
# The requests of a trace; only the number of clients counts here.
afflux-workload = 1
name = \"replay\"
about = \"the requests of a trace\"
clients = 1
files = { each = 1, size = \"1 MiB\" }
stream = [{ threads = 1, steps = [{ do = \"stat\" }] }]
";

/// What stands for the workload of a replay of so many clients.
pub(crate) fn replay(clients: u32) -> Result<Workload, Failure> {
    let mut workload = Workload::parse(REPLAY).map_err(Failure::broken)?;
    workload.clients = clients;
    Ok(workload)
}

/// What runs on the target `on`, with its text: a command that is the target itself, else what is
/// named; nothing when nothing is.
pub(crate) fn chosen(name: Option<&str>, on: &str) -> Result<Option<(Workload, String)>, Failure> {
    match (target::command(on), name) {
        (None, name) => name.map(load_with_text).transpose(),
        (Some(_), Some(name)) => Err(Failure::input(format!(
            "`{on}` is a workload and a target in one: leave `{name}` out"
        ))),
        (Some(_), None) => {
            let workload = Workload::parse(COMMAND).map_err(Failure::broken)?;
            Ok(Some((workload, COMMAND.to_owned())))
        }
    }
}

/// The preset of that name, or the workload file at that path, with the text of its file.
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
