//! The job of a run: in whose name its requests share windows on this machine.

use std::io::Write;

use afflux_core::setting::Setting;
use afflux_node::clock;
use afflux_node::shared::{self, AttachError, Full, Segment, Shared};

use crate::failure::Failure;

/// A job whose setting is in force in controllers that programs share.
#[derive(Debug)]
pub(crate) struct Joined {
    shared: Shared,
    tenant: u32,
    /// Whose controllers they are.
    pub(crate) segment: Segment,
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

/// Whose a job is. Users of one machine do not meet by accident, whatever they call their jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// This user's.
    User,
    /// All users', who have agreed on its name.
    All,
}

/// The full name of the job that is `asked` for; else of that of the batch system that started this
/// run (Slurm, PBS, LSF), whose ranks then share windows; else of one of this run alone.
pub(crate) fn name(asked: Option<&str>, of: Of) -> String {
    let of_batch = || {
        ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"].into_iter().find_map(|variable| {
            let number = std::env::var(variable).ok().filter(|number| !number.is_empty())?;
            Some(format!("{variable} {number}"))
        })
    };
    let own = || format!("run {}-{}", std::process::id(), clock::calendar_secs());
    let name = asked.map(str::to_owned).or_else(of_batch).unwrap_or_else(own);
    match of {
        Of::User => format!("{name} of user {}", rustix::process::geteuid().as_raw()),
        Of::All => format!("{name} of all users"),
    }
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

/// Tells the controllers of the node, or where it has none those of the user, how the requests of
/// `job` are treated. None where neither can be had: each process then has controllers of its own,
/// which read the setting themselves.
pub(crate) fn join(
    job: &str,
    setting: &Setting,
    talk: &mut dyn Write,
) -> Result<Option<Joined>, Failure> {
    for (segment, instead) in [
        (Segment::Node, "the controllers of this user are used"),
        (Segment::User, "each process is regulated by itself"),
    ] {
        let why = match attach(segment) {
            Ok(shared) => match put_in_force(shared, segment, job, setting, talk)? {
                Ok(joined) => return Ok(Some(joined)),
                Err(full) => full.to_string(),
            },
            Err(AttachError::NotKept) => continue,
            Err(error) => error.to_string(),
        };
        writeln!(talk, "afflux: {why}; {instead}")?;
    }
    Ok(None)
}

fn attach(segment: Segment) -> Result<Shared, AttachError> {
    match (Shared::of(segment), segment.path()) {
        // What the last program of an older version left behind is in nobody's way.
        (Err(AttachError::Version { .. }), Some(path))
            if segment == Segment::User && shared::remove_if_unused(&path) =>
        {
            Shared::of(segment)
        }
        (attached, _) => attached,
    }
}

/// Makes the setting that of the job, unless there is no room for one more.
fn put_in_force(
    shared: Shared,
    segment: Segment,
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
    Ok(Ok(Joined { shared, tenant, segment }))
}
