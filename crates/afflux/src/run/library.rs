//! The library that is put under programs: where it is, and how a program is told to load it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The file's name.
const NAME: &str = "libafflux.so";

/// The variable that names it, where it is not beside the program.
pub(crate) const VARIABLE: &str = "AFFLUX_LIBRARY";

/// Finds the library: where the variable says, else beside the program, else in `../lib`.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            std::path::absolute(&path).map_err(Failure::broken)
        } else {
            Err(Failure::input(format!("{VARIABLE} names {}, which is no file", path.display())))
        };
    }
    let program = std::env::current_exe()
        .and_then(|program| program.canonicalize())
        .map_err(|error| Failure::broken(format!("cannot find this program's file: {error}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places =
        [folder.join(NAME), folder.join("../lib").join(NAME), folder.join("deps").join(NAME)];
    let found = places.iter().find(|place| place.is_file());
    found.cloned().ok_or_else(|| {
        Failure::input(format!(
            "there is no {NAME} in {} or ../lib: build it with `make`, or name it in {VARIABLE}",
            folder.display()
        ))
    })
}

/// `LD_PRELOAD` for a child: the library behind those that are there already. The loader takes
/// spaces and colons as separators, so that a path that contains one cannot be named.
pub(crate) fn preload(library: &Path, before: Option<&OsStr>) -> Result<OsString, Failure> {
    let text = library.as_os_str().as_encoded_bytes();
    if text.contains(&b' ') || text.contains(&b':') {
        return Err(Failure::input(format!(
            "the loader cannot be told of {}: its path has a space or a colon; copy it elsewhere \
             and name it in {VARIABLE}",
            library.display()
        )));
    }
    let mut all = before.filter(|before| !before.is_empty()).map_or(OsString::new(), |before| {
        let mut before = before.to_owned();
        before.push(":");
        before
    });
    all.push(library);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_loaded_behind_others() {
        let library = Path::new("/l/libafflux.so");
        assert_eq!(preload(library, None).unwrap(), "/l/libafflux.so");
        assert_eq!(preload(library, Some(OsStr::new(""))).unwrap(), "/l/libafflux.so");
        let behind = preload(library, Some(OsStr::new("/a.so /b.so"))).unwrap();
        assert_eq!(behind, "/a.so /b.so:/l/libafflux.so");
        assert!(preload(Path::new("/my lib/libafflux.so"), None).is_err());
    }
}
