//! A real Ceph cluster for tests, by `bench/ceph/cluster.sh`; it ends with the test, however that
//! ends.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use afflux_store::engine::rados::{RadosEngine, RadosStore};
use tempfile::TempDir;

/// A running cluster, with a shell inside of it.
pub(crate) struct Cluster {
    // What ends the shell, and so the cluster, when this process ends.
    shell: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    script: Child,
    dir: TempDir,
}

impl Cluster {
    /// Starts one; says what is missing if there cannot be one here.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/ceph/cluster.sh");
        let mut child = Command::new(script)
            .args(options)
            .arg("--dir")
            .arg(dir.path().join("cluster"))
            .args(["--", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let cluster = Self { shell: Mutex::new((stdin, stdout)), script: child, dir };
        if cluster.ask("echo").is_some() {
            return Some(cluster);
        }
        let said = cluster.end();
        assert!(said.contains("missing:") || said.contains("may not"), "no cluster: {said}");
        println!("SKIPPED: {said}");
        None
    }

    /// What a command of the shell printed; none when the cluster is not there.
    fn ask(&self, command: &str) -> Option<String> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let (stdin, stdout) = &mut *shell;
        writeln!(stdin, "{{\n{command}\n}} 2>&1\necho\necho \"ended $?\"").ok()?;
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.starts_with("ended ") {
                return Some(said.trim().to_owned());
            }
            said += &line;
        }
    }

    /// Runs a command inside, with the cluster's daemons as its neighbours.
    pub(crate) fn run(&self, command: &str) -> String {
        self.ask(command).unwrap()
    }

    /// Sends a signal to the daemon whose command line begins so.
    pub(crate) fn signal(&self, signal: &str, daemon: &str) {
        let said = self.run(&format!("pkill -{signal} --full '^{daemon}'; echo signalled"));
        assert_eq!(said, "signalled");
    }

    /// Starts a daemon again as it was started.
    pub(crate) fn start_again(&self, program: &str, id: &str) {
        let address = self.run("sed -n 's/^mon host = v2:\\(.*\\):3300/\\1/p' $CEPH_CONF");
        let at = if program == "ceph-mon" {
            format!("--public-addrv '[v2:{address}:3300]'")
        } else {
            format!("--public-addr {address} --cluster-addr {address}")
        };
        self.run(&format!(
            "while pgrep --full '^{program} .*--id {id} ' >/dev/null; do sleep 0.02; done; \
             {program} -f --id {id} {at} >>$CLUSTER/log/again 2>&1 </dev/null &"
        ));
    }

    /// Its `ceph.conf`.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.dir.path().join("cluster/ceph.conf")
    }

    /// All its servers.
    pub(crate) fn store(&self) -> RadosStore {
        RadosStore { configuration: Some(self.configuration()), ..RadosStore::default() }
    }

    /// A client of all its servers.
    pub(crate) fn connect(&self) -> RadosEngine {
        RadosEngine::connect(&self.store()).unwrap()
    }

    fn end(self) -> String {
        drop(self.shell);
        let ended = self.script.wait_with_output().unwrap();
        String::from_utf8_lossy(&ended.stderr).trim().to_owned()
    }
}
