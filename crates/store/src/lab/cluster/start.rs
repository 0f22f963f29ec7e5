//! Starting the processes of a lab, all or none.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use afflux_core::credits::Options as CreditOptions;

use super::process::ProcessMark;
use super::serve::{ServeOrder, ServeWord};
use super::state::{FILE, LabState, ServerState, StateError, VERSION};
use super::{ClusterError, ClusterOptions, LOCK, lock_dir, remove_files};

const READY_WITHIN: Duration = Duration::from_secs(30);
const TAIL_BYTES: usize = 2000;
const MOST_SERVERS: u32 = 256;

/// Starts the servers; on an error none of them is left, nor any file that was not there before.
pub(super) fn start(
    options: &ClusterOptions,
    detached: bool,
) -> Result<(LabState, Vec<Child>), ClusterError> {
    check(options)?;
    let dir = &options.dir;
    let failed = |what| move |source| ClusterError::Dir { what, path: dir.clone(), source };
    let made = !dir.exists();
    std::fs::create_dir_all(dir).map_err(failed("make"))?;
    let prepared = prepare(options);
    let (mut state, fresh, _lock) = prepared.inspect_err(|_| {
        if made {
            // Only an empty directory goes.
            let _ = std::fs::remove_file(dir.join(LOCK));
            let _ = std::fs::remove_dir(dir);
        }
    })?;
    let mut children = Vec::new();
    let started = state.save(dir).map_err(ClusterError::from).and_then(|()| {
        start_all(options, detached, &mut state, &mut children)?;
        Ok(state.save(dir)?)
    });
    if let Err(error) = started {
        for child in &mut children {
            // One that ended by itself cannot be killed, but must be waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
        if fresh {
            remove_files(dir, &state);
            if !made {
                // The directory was the user's before.
                let _ = std::fs::create_dir(dir);
            }
        } else {
            for server in &mut state.servers {
                (server.port, server.process) = (None, None);
            }
            let _ = state.save(dir);
        }
        return Err(error);
    }
    Ok((state, children))
}

fn check(options: &ClusterOptions) -> Result<(), ClusterError> {
    let credits = options.credits.as_deref().map(str::parse::<CreditOptions>).transpose();
    let wrong = if let Err(error) = credits {
        error.to_string()
    } else if options.servers == 0 || options.servers > MOST_SERVERS {
        format!("{} servers: a lab has 1 to {MOST_SERVERS}", options.servers)
    } else if options.threads == 0 || options.threads > 4096 {
        format!("{} service threads: a server has 1 to 4096", options.threads)
    } else if options.capacity_bytes == Some(0) {
        "a capacity of zero: leave --capacity out, or give some bytes".to_owned()
    } else if options.port.is_some_and(|port| port.checked_add(options.servers as u16).is_none()) {
        "the ports would go beyond 65535: choose a smaller --port".to_owned()
    } else {
        return Ok(());
    };
    Err(ClusterError::Wrong(wrong))
}

/// Finds out what is in the directory: the state to start from, and whether it is a new lab.
fn prepare(options: &ClusterOptions) -> Result<(LabState, bool, File), ClusterError> {
    let dir = &options.dir;
    let failed = |what| move |source| ClusterError::Dir { what, path: dir.clone(), source };
    if !dir.join(FILE).exists() {
        let entries = std::fs::read_dir(dir).map_err(failed("list"))?;
        let foreign = entries.filter_map(Result::ok).any(|entry| entry.file_name() != LOCK);
        if foreign {
            return Err(ClusterError::NotEmpty(dir.clone()));
        }
    }
    let lock = lock_dir(dir)?;
    let fresh = fresh_state(options);
    let earlier = match LabState::load(dir) {
        Ok(earlier) => earlier,
        Err(StateError::NoLab(_)) => return Ok((fresh, true, lock)),
        Err(error) => return Err(error.into()),
    };
    if earlier.is_running() {
        return Err(ClusterError::Running(dir.clone()));
    }
    let shape = |state: &LabState| {
        let servers = state.storage_servers();
        format!("--servers {servers} --device {}", state.device)
    };
    let (there, asked) = (shape(&earlier), shape(&fresh));
    if there != asked {
        return Err(ClusterError::Shape { dir: dir.clone(), there, asked });
    }
    // What was in memory is gone, so the names of it must go too.
    if !options.device.keeps() {
        for server in &earlier.servers {
            let _ = std::fs::remove_dir_all(dir.join(&server.dir));
        }
    }
    Ok((LabState { id: earlier.id, ..fresh }, false, lock))
}

fn fresh_state(options: &ClusterOptions) -> LabState {
    let server = |name: String, dir: String| ServerState {
        log: PathBuf::from("log").join(format!("{dir}.log")),
        dir: PathBuf::from(dir),
        name,
        port: None,
        process: None,
    };
    let storage =
        (0..options.servers).map(|i| server(format!("storage {i}"), format!("storage.{i}")));
    let metadata = server("metadata".to_owned(), "metadata".to_owned());
    let random = std::hash::RandomState::new().build_hasher().finish();
    LabState {
        version: VERSION,
        id: format!("{random:016x}"),
        device: options.device.to_string(),
        capacity_bytes: options.capacity_bytes,
        threads: options.threads,
        credits: options.credits.clone(),
        servers: storage.chain(std::iter::once(metadata)).collect(),
    }
}

fn start_all(
    options: &ClusterOptions,
    detached: bool,
    state: &mut LabState,
    children: &mut Vec<Child>,
) -> Result<(), ClusterError> {
    let dir = std::path::absolute(&options.dir).map_err(|source| ClusterError::Dir {
        what: "find",
        path: options.dir.clone(),
        source,
    })?;
    let (sender, receiver) = mpsc::channel();
    for index in 0..state.servers.len() {
        let order = order(options, state, &dir, index, detached);
        let mut child = spawn(options, &state.servers[index], &dir, &order)?;
        if let Some(output) = child.stdout.take() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut line = String::new();
                let _ = BufReader::new(output).read_line(&mut line);
                // Nobody listens any more when another server failed first.
                let _ = sender.send((index, line));
            });
        }
        children.push(child);
    }
    for _ in 0..state.servers.len() {
        let (index, line) = receiver.recv_timeout(READY_WITHIN).map_err(|_| {
            let silent = state.servers.iter().find(|server| server.port.is_none());
            let name = silent.map_or_else(|| "a server".to_owned(), |server| server.name.clone());
            let log = silent.map(|server| tail(&dir.join(&server.log))).unwrap_or_default();
            let why = format!("it says nothing for {} s", READY_WITHIN.as_secs());
            ClusterError::Server { server: name, why, log }
        })?;
        let server = &mut state.servers[index];
        match serde_json::from_str(&line) {
            Ok(ServeWord::Ready(port)) => {
                server.port = Some(port);
                server.process = ProcessMark::of(children[index].id());
            }
            Ok(ServeWord::Taken(why)) => {
                return Err(ClusterError::Port { server: server.name.clone(), why });
            }
            Ok(ServeWord::Failed(why)) => {
                let (server, log) = (server.name.clone(), String::new());
                return Err(ClusterError::Server { server, why, log });
            }
            Err(_) => {
                let log = tail(&dir.join(&server.log));
                let ended = children[index].wait();
                let why = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(ClusterError::Server { server: server.name.clone(), why, log });
            }
        }
    }
    Ok(())
}

fn order(
    options: &ClusterOptions,
    state: &LabState,
    dir: &Path,
    index: usize,
    detached: bool,
) -> ServeOrder {
    let servers = options.servers;
    let is_storage = (index as u32) < servers;
    ServeOrder {
        lab: state.id.clone(),
        storage: is_storage.then_some(index as u32),
        servers,
        dir: dir.join(&state.servers[index].dir),
        device: state.device.clone(),
        capacity_bytes: options.capacity_bytes,
        // The catalog is one journal behind one lock: more threads would only wait.
        threads: if is_storage { options.threads } else { options.threads.min(4) },
        credits: state.credits.clone().filter(|_| is_storage),
        port: options.port.map_or(0, |port| port + index as u16),
        detached,
    }
}

fn spawn(
    options: &ClusterOptions,
    server: &ServerState,
    dir: &Path,
    order: &ServeOrder,
) -> Result<Child, ClusterError> {
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| ClusterError::Dir { what, path, source }
    };
    let log = dir.join(&server.log);
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).map_err(failed("make", parent))?;
    }
    let log_file =
        OpenOptions::new().create(true).append(true).open(&log).map_err(failed("write", &log))?;
    let text = serde_json::to_string(order).map_err(|error| ClusterError::Server {
        server: server.name.clone(),
        why: error.to_string(),
        log: String::new(),
    })?;
    let mut command = Command::new(&options.executable);
    command.args(&options.arguments).arg(text);
    command.stdout(Stdio::piped()).stderr(log_file);
    command.stdin(if order.detached { Stdio::null() } else { Stdio::piped() });
    if !order.detached {
        // Ctrl-C is for whoever uses the lab, who then ends it in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    command.spawn().map_err(|source| {
        let hint = if source.kind() == ErrorKind::NotFound { " (is it installed?)" } else { "" };
        let why = format!("cannot run {}{hint}: {source}", options.executable.display());
        ClusterError::Server { server: server.name.clone(), why, log: String::new() }
    })
}

/// The end of a log, for a message.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(TAIL_BYTES);
    String::from_utf8_lossy(&text[from..]).trim_end().to_owned()
}
