//! The workloads that come with Afflux. [`PRESETS`] is the registry: one file, one line each.

use super::Workload;

/// A workload that comes with Afflux.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All presets, in the order in which they are listed.
pub static PRESETS: &[Preset] = &[
    Preset { name: "seq-write", text: include_str!("../../workloads/seq-write.toml") },
    Preset { name: "seq-read", text: include_str!("../../workloads/seq-read.toml") },
    Preset { name: "random-write", text: include_str!("../../workloads/random-write.toml") },
    Preset { name: "random-read", text: include_str!("../../workloads/random-read.toml") },
    Preset {
        name: "random-rw-shared",
        text: include_str!("../../workloads/random-rw-shared.toml"),
    },
    Preset { name: "mix-10-1", text: include_str!("../../workloads/mix-10-1.toml") },
    Preset { name: "fileserver", text: include_str!("../../workloads/fileserver.toml") },
    Preset { name: "small-reads", text: include_str!("../../workloads/small-reads.toml") },
    Preset { name: "checkpoint", text: include_str!("../../workloads/checkpoint.toml") },
    Preset { name: "crowd", text: include_str!("../../workloads/crowd.toml") },
];

/// The preset named `name`.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The workload; presets are checked by the tests, so this has no error.
    pub fn workload(&self) -> Workload {
        Workload::parse(self.text).expect("presets are valid, as the tests below see to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_carries_its_name() {
        for preset in PRESETS {
            let workload = preset.workload();
            assert_eq!(workload.name, preset.name);
            assert!(!workload.about.is_empty());
            assert!(workload.footprint_bytes() <= 1 << 30, "{} keeps over 1 GiB", preset.name);
        }
    }
}
