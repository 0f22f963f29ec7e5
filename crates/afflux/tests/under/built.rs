//! What tests and benchmarks of the library need built: the library itself, and C programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, beside the `afflux` that is tested. Cargo does not build it for tests of another
/// package, so it is asked to.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_afflux")).parent().unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "afflux-preload", "--target-dir"]);
        cargo.arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the library could not be built");
        folder.join("libafflux.so")
    })
}

/// `afflux run` with these arguments, and no report among those of this user.
pub(crate) fn afflux_run(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
    command.env("AFFLUX_LIBRARY", library()).env("XDG_STATE_HOME", "/nonexistent");
    command.arg("run").args(arguments);
    command
}

/// Compiles a C program into `dir`. The compiler is part of what building Afflux needs.
pub(crate) fn compile(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-w", "-o"]).arg(&program).arg(&file);
    assert!(compiler.status().unwrap().success(), "{name}.c does not compile");
    program
}
