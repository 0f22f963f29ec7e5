//! The job of a run: in whose name its requests share windows on this machine.

use std::io::Write;

use afflux_core::setting::Setting;
use afflux_node::clock;
use afflux_node::shared::{self, AttachError, Full, Shared};

use crate::failure::Failure;

/// A job whose setting is in force in the node's controllers.
#[derive(Debug)]
pub(crate) struct Joined {
    shared: Shared,
    tenant: u32,
}

impl Joined {
    /// Starts all controllers of the job anew, under `setting`.
    pub(crate) fn restart(&self, setting: &Setting) -> Result<(), Full> {
        self.shared.set(self.tenant, setting, &setting.label, true).map(drop)
    }

    /// Says that the job is not over, though its programs may be busy with something else, and
    /// gives back what dead programs held: those that wait may not be allowed to look for them.
    pub(crate) fn keep(&self) {
        self.shared.keep(self.tenant);
        self.shared.sweep();
    }
}

/// The job that is `asked` for; else that of the batch system that started this run (Slurm, PBS,
/// LSF), whose ranks then share windows; else one of this run alone.
pub(crate) fn name(asked: Option<&str>) -> String {
    let of_batch = || {
        ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"].into_iter().find_map(|variable| {
            let number = std::env::var(variable).ok().filter(|number| !number.is_empty())?;
            Some(format!("{variable} {number}"))
        })
    };
    let own = || format!("run {}-{}", std::process::id(), clock::calendar_secs());
    asked.map(str::to_owned).or_else(of_batch).unwrap_or_else(own)
}

/// Whether programs can keep to a setting: not to limits for clients that know of each other.
pub(crate) fn check(setting: &Setting) -> Result<(), Failure> {
    let limit = match (setting.turn_slot, setting.tenants) {
        (Some(_), _) => "turn",
        (None, Some(_)) => "tenants",
        (None, None) => return Ok(()),
    };
    Err(Failure::input(format!(
        "`{}`: programs under the library know of no other clients, so that `{limit}=` means \
         nothing to them: leave it out",
        setting.label
    )))
}

/// Tells the node's controllers how the requests of `job` are treated. None where they cannot be
/// had: each process then has controllers of its own, which read the setting themselves.
pub(crate) fn join(
    job: &str,
    setting: &Setting,
    talk: &mut dyn Write,
) -> Result<Option<Joined>, Failure> {
    let path = shared::default_path();
    let attached = match Shared::attach(&path) {
        // What the last program of an older version left behind is in nobody's way.
        Err(AttachError::Version { .. }) if shared::remove_if_unused(&path) => {
            Shared::attach(&path)
        }
        attached => attached,
    };
    let joined = match attached {
        Ok(shared) => put_in_force(shared, job, setting, talk)?.map_err(|full| full.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match joined {
        Ok(joined) => Ok(Some(joined)),
        Err(error) => {
            writeln!(talk, "afflux: {error}; each process is regulated by itself")?;
            Ok(None)
        }
    }
}

/// Makes the setting that of the job, unless there is no room for one more.
fn put_in_force(
    shared: Shared,
    job: &str,
    setting: &Setting,
    talk: &mut dyn Write,
) -> Result<Result<Joined, Full>, Failure> {
    let tenant = match shared.tenant(job) {
        Ok(tenant) => tenant,
        Err(full) => return Ok(Err(full)),
    };
    let before = shared.setting_of(tenant).filter(|(generation, ..)| *generation > 0);
    let is_new = before.is_none();
    // Of several ranks, the first one sets what all of them want.
    if before.as_ref().is_none_or(|(.., text)| *text != setting.label) {
        if let Some((.., text)) = before {
            let now = &setting.label;
            writeln!(talk, "afflux: {now} is in force for job {job} now, in place of {text}")?;
        }
        if let Err(full) = shared.set(tenant, setting, &setting.label, is_new) {
            return Ok(Err(full));
        }
    }
    Ok(Ok(Joined { shared, tenant }))
}
