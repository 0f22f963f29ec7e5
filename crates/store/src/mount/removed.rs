//! Names of files that were removed while somebody had them open.
//!
//! No path leads to such a name, since it begins with a slash and no part of a path is empty. It
//! says which mount keeps the file, so that what a mount left that was killed can be told from what
//! others still use.

use afflux_node::shared::identity;

/// What all of these names begin with.
pub(super) const PLACE: &str = "/removed/";

/// Stands for what the system does not tell.
const UNKNOWN: &str = "-";

/// A mount: the process that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    machine: String,
    /// The machine's start.
    boot: String,
    /// The name space of the process's number.
    space: String,
    process: u64,
}

/// Whether it is such a name.
pub(super) fn is_removed(name: &str) -> bool {
    name.starts_with(PLACE)
}

impl Owner {
    /// This process.
    pub(super) fn own() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).ok();
        let space = std::fs::read_link("/proc/self/ns/pid").ok();
        Self {
            machine: word(read("/etc/machine-id")),
            boot: word(read("/proc/sys/kernel/random/boot_id")),
            space: word(space.map(|space| space.to_string_lossy().into_owned())),
            process: identity::own(),
        }
    }

    /// What the names of its files begin with.
    pub(super) fn prefix(&self) -> String {
        let Self { machine, boot, space, process } = self;
        format!("{PLACE}{machine}/{boot}/{space}/{process:016x}/")
    }

    /// The mount that keeps the file of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PLACE)?.split('/');
        let mut next = || parts.next().map(str::to_owned);
        let (machine, boot, space) = (next()?, next()?, next()?);
        let process = u64::from_str_radix(&next()?, 16).ok()?;
        Some(Self { machine, boot, space, process })
    }

    /// Whether it has certainly ended, for who is on the machine `here`.
    pub(super) fn has_ended(&self, here: &Self) -> bool {
        if [&self.boot, &here.boot].iter().any(|boot| *boot == UNKNOWN) {
            return false;
        }
        if self.boot != here.boot {
            return self.machine == here.machine && self.machine != UNKNOWN;
        }
        self.space == here.space && !identity::is_alive(self.process)
    }
}

/// What the system told, as a part of a name.
fn word(told: Option<String>) -> String {
    let told = told.unwrap_or_default();
    let plain: String = told.chars().filter(|char| char.is_ascii_alphanumeric()).take(40).collect();
    if plain.is_empty() { UNKNOWN.to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::MAX_NAME_BYTES;

    #[test]
    fn only_what_is_certainly_dead_has_ended() {
        let own = Owner::own();
        let name = format!("{}{}", own.prefix(), u64::MAX);
        assert!(name.len() <= MAX_NAME_BYTES && is_removed(&name), "{name}");
        assert_eq!(Owner::of(&name), Some(own.clone()));
        assert!(!own.has_ended(&own), "this one lives");
        let here = Owner { machine: "m".into(), boot: "b".into(), ..own };
        let text = |text: &str| text.to_owned();
        // No process has a number so large.
        let dead = Owner { process: (1 << 22) - 1, ..here.clone() };
        assert!(dead.has_ended(&here));
        assert!(!Owner { space: text("elsewhere"), ..dead.clone() }.has_ended(&here));
        assert!(Owner { boot: text("before"), ..here.clone() }.has_ended(&here));
        for other in [
            Owner { machine: text("other"), boot: text("before"), ..dead.clone() },
            Owner { boot: text(UNKNOWN), ..dead.clone() },
        ] {
            assert!(!other.has_ended(&here), "{other:?}");
        }
        let nameless = Owner { machine: text(UNKNOWN), ..here };
        assert!(!Owner { boot: text("before"), ..nameless.clone() }.has_ended(&nameless));
        assert_eq!(Owner::of("/removed/a/b"), None);
        assert_eq!(Owner::of("removed/a/b/c/1/2"), None);
    }
}
