//! Reports: what a command measured, as a file, a page, plots and their data.
//!
//! A command makes a [`ResultFile`], and a [`ResultFolder`] writes it with all that is made from
//! it. The same result file always gives the same bytes.

mod figures;
mod folder;
mod machine;
mod page;
mod record;
#[cfg(test)]
mod sample;
pub(crate) mod schema;
mod sections;
mod svg;
mod tables;
#[cfg(test)]
mod tests;
mod words;
mod worlds;

pub(crate) use folder::ResultFolder;
pub(crate) use schema::ResultFile;
