//! The directory of a result: what may become one, and how it is read and written.
//!
//! `result.json` is the result; everything beside it (`report.html`, `plots/`, `data/`) is made
//! from it and can be made again.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::schema::{ResultFile, VERSION};
use super::{page, sections, tables};
use crate::failure::Failure;

/// The file that makes a directory one of ours.
const RESULT: &str = "result.json";

/// A directory of a result.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    path: PathBuf,
}

/// Why a result cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// There is no result.
    #[error("there is no {RESULT} in {}: name a directory that `afflux bench ... --out DIR` wrote",
        .dir.display())]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// A later version wrote it.
    #[error("{} has version {found} of the format, and this program reads up to {VERSION}: use \
        the version of afflux that wrote it, or a later one", .file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The version that it has.
        found: u64,
    },
    /// It is no result, or not all of one.
    #[error("{} is damaged: {what}: bring it back from a copy, or measure again with `--out` and \
        another directory", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong, with its place.
        what: String,
    },
    /// The directory belongs to somebody else.
    #[error("{} holds something else ({found}, for one) and no {RESULT}: name a directory that \
        is new or empty, or has an earlier result", .dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Something in it.
        found: String,
    },
    /// The system does not let us.
    #[error("cannot {doing} {}: {cause}", .path.display())]
    System {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::System { .. } => Self::broken(error),
            _ => Self::input(error),
        }
    }
}

impl ResultFolder {
    /// The directory at `path`, whatever is in it.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// A directory to write a result into: a new or empty one, or one that has a result already,
    /// which stays until the next is written. Call it before measuring, so that hours of work do
    /// not end in a refusal.
    ///
    /// # Errors
    /// The directory holds something else, or a result that is damaged or of a later version; or it
    /// cannot be written.
    pub(crate) fn claim(path: &Path) -> Result<Self, ReportError> {
        let folder = Self::at(path);
        fs::create_dir_all(path).map_err(|cause| system("make the directory", path, cause))?;
        match folder.read() {
            Ok(_) => {}
            Err(ReportError::Missing { .. }) => folder.refuse_strangers()?,
            Err(error) => return Err(error),
        }
        let trial = tempfile::NamedTempFile::new_in(path);
        trial.map_err(|cause| system("write into", path, cause))?;
        Ok(folder)
    }

    /// The page.
    pub(crate) fn page_path(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The result in it.
    ///
    /// # Errors
    /// It is missing, damaged, of a later version, or cannot be read.
    pub(crate) fn read(&self) -> Result<ResultFile, ReportError> {
        let file = self.path.join(RESULT);
        let bytes = fs::read(&file).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::NotFound => ReportError::Missing { dir: self.path.clone() },
            _ => system("read", &file, cause),
        })?;
        parse(&bytes).map_err(|fault| match fault {
            Fault::Newer(found) => ReportError::Newer { file, found },
            Fault::Damaged(what) => ReportError::Damaged { file, what },
        })
    }

    /// Writes the result, and all that is made from it.
    ///
    /// # Errors
    /// A file cannot be written; the earlier result is then still whole.
    pub(crate) fn write(&self, result: &ResultFile) -> Result<(), ReportError> {
        let mut text = serde_json::to_vec(result)
            .map_err(|error| system("write", &self.path.join(RESULT), error.into()))?;
        text.push(b'\n');
        self.put(RESULT, &text)?;
        self.render(result)
    }

    /// Writes all that is made from the result: the page, the plots, and their data.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn render(&self, result: &ResultFile) -> Result<(), ReportError> {
        let sections = sections::sections(result);
        self.sweep("plots", "svg")?;
        self.sweep("data", "csv")?;
        for figure in sections.iter().flat_map(|section| &section.figures) {
            let text = page::standalone(figure);
            self.put(&format!("plots/{}.svg", figure.name), text.as_bytes())?;
        }
        for (name, text) in tables::all(result) {
            self.put(&format!("data/{name}.csv"), &text)?;
        }
        self.put("report.html", page::page(result, &sections).as_bytes())
    }

    /// Empties a folder of ours, so that nothing of an earlier result stays; other files do.
    fn sweep(&self, name: &str, ending: &str) -> Result<(), ReportError> {
        let folder = self.path.join(name);
        fs::create_dir_all(&folder)
            .map_err(|cause| system("make the directory", &folder, cause))?;
        let entries = fs::read_dir(&folder).map_err(|cause| system("look into", &folder, cause))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension().is_some_and(|found| found == ending) {
                fs::remove_file(&path).map_err(|cause| system("remove", &path, cause))?;
            }
        }
        Ok(())
    }

    /// Writes a file so that at any time the old or the new one is there, whole.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), ReportError> {
        let path = self.path.join(name);
        let failed = |cause| system("write", &path, cause);
        let folder = path.parent().unwrap_or(&self.path);
        // Private until it is complete, then as readable as any file that was just created.
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn refuse_strangers(&self) -> Result<(), ReportError> {
        let entries = fs::read_dir(&self.path);
        let mut entries = entries.map_err(|cause| system("look into", &self.path, cause))?;
        match entries.next() {
            None => Ok(()),
            Some(entry) => {
                let name = entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
                let found = name.map_err(|cause| system("look into", &self.path, cause))?;
                Err(ReportError::Foreign { dir: self.path.clone(), found })
            }
        }
    }
}

fn system(doing: &'static str, path: &Path, cause: std::io::Error) -> ReportError {
    ReportError::System { doing, path: path.to_owned(), cause }
}

/// What is wrong with a file's bytes.
#[derive(Debug, PartialEq)]
enum Fault {
    Newer(u64),
    Damaged(String),
}

fn parse(bytes: &[u8]) -> Result<ResultFile, Fault> {
    // The version first: what a later format changed would else look like damage.
    #[derive(serde::Deserialize)]
    struct Head {
        afflux_result: u64,
    }
    let damaged = |error: serde_json::Error| Fault::Damaged(error.to_string());
    let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
    match head.afflux_result {
        0 => Err(Fault::Damaged("there is no version 0 of the format".to_owned())),
        found if found > u64::from(VERSION) => Err(Fault::Newer(found)),
        _ => serde_json::from_slice(bytes).map_err(damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_result_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ResultFolder::claim(dir.path()).unwrap();
        for result in [sample::compared(), sample::searched(), sample::single()] {
            folder.write(&result).unwrap();
            assert!(folder.read().unwrap() == result);
            ResultFolder::claim(dir.path()).unwrap();
        }
    }

    #[test]
    fn the_same_result_gives_the_same_bytes_and_nothing_stale() {
        let contents = |dir: &Path| {
            let list = |folder: &Path| {
                let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
                entries.filter(|path| path.is_file()).collect::<Vec<_>>()
            };
            let mut files: Vec<(String, Vec<u8>)> = [dir, &dir.join("plots"), &dir.join("data")]
                .into_iter()
                .flat_map(list)
                .map(|path| {
                    let name = path.strip_prefix(dir).unwrap().display().to_string();
                    (name, fs::read(path).unwrap())
                })
                .collect();
            files.sort();
            files
        };
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ResultFolder::at(first.path()).write(&sample::compared()).unwrap();
        let folder = ResultFolder::at(second.path());
        folder.write(&sample::searched()).unwrap();
        folder.write(&sample::compared()).unwrap();
        folder.render(&folder.read().unwrap()).unwrap();
        assert!(contents(first.path()) == contents(second.path()));
        assert!(contents(first.path()).len() > 10);
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ResultFolder::at(dir.path());
        let said = |error: ReportError| error.to_string();
        assert!(said(folder.read().unwrap_err()).contains("--out DIR"));
        fs::write(dir.path().join("thesis.tex"), "mine").unwrap();
        let refused = ResultFolder::claim(dir.path()).unwrap_err();
        assert!(matches!(refused, ReportError::Foreign { .. }));
        assert!(said(refused).contains("thesis.tex"));
        let file = dir.path().join(RESULT);
        fs::write(&file, r#"{"afflux_result": 99, "unheard": "of"}"#).unwrap();
        let newer = ResultFolder::claim(dir.path()).unwrap_err();
        assert!(matches!(newer, ReportError::Newer { found: 99, .. }), "{newer}");
        let whole = serde_json::to_string(&sample::compared()).unwrap();
        for text in ["", "[]", "{}", "{\"afflux_result\": 0}", &whole[..whole.len() / 2]] {
            fs::write(&file, text).unwrap();
            let error = folder.read().unwrap_err();
            assert!(matches!(error, ReportError::Damaged { .. }), "{text:.40}: {error}");
            assert!(said(error).contains("line 1") || text.contains('0'));
        }
        fs::create_dir(dir.path().join("locked")).unwrap();
        let error = ResultFolder::claim(&file).unwrap_err();
        assert!(matches!(error, ReportError::System { .. }), "{error}");
    }
}
