//! Objectives under names. [`PRESETS`] is the registry: one entry each.
//!
//! The forms are those of ASCAR, section III-E; equation 1 is `steady`. Their constants are
//! examples where the paper gives none: write the text with another one to weigh differently.

/// An objective under a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// As it is written, alone, in place of an expression.
    pub name: &'static str,
    /// The expression that it stands for.
    pub text: &'static str,
    /// One line for help.
    pub about: &'static str,
}

/// All presets, in the order of the help.
pub static PRESETS: &[Preset] = &[
    Preset { name: "tp", text: "tp", about: "throughput, whatever it varies (max TP)" },
    Preset {
        // Table IV has baselines of up to 9%; 0.2 leaves room for what a trial of seconds adds.
        name: "tp-if-steady",
        text: "if(cv < 0.2, tp, 0)",
        about: "throughput as long as it varies little, else nothing (k0 = 0.2)",
    },
    Preset {
        name: "steady",
        text: "tp - 1 * var",
        about: "throughput less its deviation (equation 1, alpha = 1)",
    },
    Preset {
        name: "proportional",
        text: "geometric",
        about: "alpha-fairness over the clients, alpha = 1: a gain in percent counts the same",
    },
    Preset {
        name: "alpha-fair",
        text: "harmonic",
        about: "alpha-fairness over the clients, alpha = 2: the slow count more",
    },
    Preset {
        name: "max-min",
        text: "least",
        about: "alpha-fairness over the clients, alpha without bound: only the slowest counts",
    },
    Preset {
        name: "utility",
        text: "pow(tp, 1 - 0.5) / (1 - 0.5)",
        about: "the same utility of the mean, alpha = 0.5; it ranks like tp",
    },
    Preset {
        name: "inverse-var",
        text: "(1 - 0.5) * tp + 0.5 / var",
        about: "throughput and the inverse of its deviation, a = 0.5",
    },
    Preset {
        name: "power",
        text: "1 * pow(tp, 0.5) - 1 * var",
        about: "a power of the throughput less its deviation, a = b = 1, alpha = 0.5",
    },
    Preset {
        name: "log-tp",
        text: "1 * log(tp, 2) - 1 * var",
        about: "logarithm of the throughput less its deviation, a = b = 1, base 2",
    },
    Preset { name: "quick", text: "-p99", about: "the 99th percentile as low as possible" },
    Preset {
        name: "tp-if-quick",
        text: "if(p99 < 100, tp, 0)",
        about: "throughput as long as the 99th percentile is under 100 ms",
    },
    Preset {
        name: "balanced",
        text: "tp - 1 * var - 0.2 * p99",
        about: "throughput less its deviation and a part of the 99th percentile",
    },
];

/// The preset of that name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
