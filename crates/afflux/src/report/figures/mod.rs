//! The plots: one file for each kind.

pub(super) mod clients;
pub(super) mod course;
pub(super) mod forest;
pub(super) mod holds;
pub(super) mod path;
pub(super) mod plane;
pub(super) mod published;
pub(super) mod spread;
pub(super) mod swept;
pub(super) mod world;

use maud::Markup;

/// A plot.
pub(super) struct Figure {
    /// Its name as a file, without the ending.
    pub(super) name: String,
    /// What stands above it.
    pub(super) title: String,
    /// Its side, where two are compared.
    pub(super) side: Option<Side>,
    /// Its drawing.
    pub(super) svg: Markup,
}

/// Which side of a comparison a plot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The baseline, or what stands alone.
    Before,
    /// The setting that is compared with it.
    After,
}

impl Side {
    /// Its class in the style, and its word in names of files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// Classes of the style that tell up to eight things apart.
pub(super) const COLOURS: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];

/// The greatest of some values; zero of none.
pub(super) fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max)
}
