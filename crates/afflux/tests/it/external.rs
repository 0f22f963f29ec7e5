//! Search methods that are programs: good ones, bad ones, and what is left of them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use afflux_core::search::external::{Said, heard};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A directory with a workload, a search, and a program that is a script for the shell.
struct Place(tempfile::TempDir);

impl Place {
    fn new(script: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.at("small.toml"), include_str!("small.toml")).unwrap();
        place.write(script);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes `script` the program. It begins in this directory, and leaves its number there.
    fn write(&self, script: &str) {
        let script = format!("cd '{}'\necho $$ >> pids\n{script}\n", self.0.path().display());
        std::fs::write(self.at("program.sh"), script).unwrap();
    }

    /// A search whose method is the program, after `parameters`.
    fn search(&self, parameters: &str, budget: &str) -> Command {
        let method = format!("external:{parameters}sh '{}'", self.at("program.sh").display());
        self.search_by(&method, budget)
    }

    fn search_by(&self, method: &str, budget: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("afflux"));
        command.arg("search").arg(self.at("small.toml")).arg("--out").arg(self.at("out"));
        command.args(["--on", "null:2ms", "--settle", "10ms", "--length", "1s", "--pairs", "2"]);
        // Alone, so that a trial is one run and the tests are short.
        command.arg("--unpaired");
        command.args(["--json", "--budget", budget, "--method", method]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The lines of a file; none while it is not there.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.at(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The trials of the method that the journal has.
    fn trials(&self) -> Vec<Value> {
        let lines = self.lines("out/search.jsonl");
        let entries = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["stage"] == "search").collect()
    }

    /// Waits until all processes that left their number are gone.
    fn is_deserted(&self) {
        let pids = self.lines("pids");
        assert!(!pids.is_empty(), "no process left its number");
        for pid in pids {
            wait_until(&format!("process {pid} is gone"), || !is_alive(&pid));
        }
    }
}

/// Whether a process runs; one that has ended and that nobody has asked about does not.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes down what it hears, one file for each life; has a child; ends after two trials.
const GOOD: &str = r#"
    sleep 300 &
    echo $! >> pids
    n=0
    while read -r line; do
      echo "$line" >> heard.$$
      case $line in
        '{"tell"'*) n=$((n + 1)) ;;
        '{"ask"'*)
          if [ $n -lt 2 ]; then echo "{\"trials\":[{\"id\":\"t$n\",\"window\":$((n + 3)).5}]}"
          else echo '{"finished":"enough is enough"}'
          fi ;;
      esac
    done
    echo "left in peace" >> ends
"#;

/// Dies after its first trial.
const MORTAL: &str = r#"
    read -r hello
    read -r ask
    echo '{"trials":[{"id":"t0","window":3.5}]}'
    read -r tell
    echo "$hello$ask$tell" > heard.first
    echo it is over >&2
    exit 7
"#;

#[test]
fn a_conversation_goes_on_through_deaths_on_both_sides() {
    let place = Place::new(MORTAL);
    let output = place.search("", "12runs").output().unwrap();
    let said = talk(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["exit code 7", "\n  | it is over", "The same command goes on"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(place.trials().len(), 1);

    // A better program goes on, until its search is killed in the midst of a trial.
    place.write(GOOD);
    let mut child = place.search("", "12runs").spawn().unwrap();
    let heard = |life: usize| place.lines(&format!("heard.{}", place.lines("pids")[life]));
    wait_until("it was asked", || place.lines("pids").len() > 2 && heard(1).len() > 2);
    kill(&mut child, Signal::KILL);
    place.is_deserted();
    // With more time than before, as one may have after an answer that came too late.
    let output = place.search("timeout=2min,", "12runs").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    place.is_deserted();

    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["ended"], "the search program has finished: enough is enough");
    let trials = place.trials();
    let ids: Vec<_> = trials.iter().map(|trial| trial["written"]["id"].clone()).collect();
    assert_eq!(ids, ["t0", "t1"]);
    let lives = place.lines("pids");
    assert_eq!(lives.len(), 5, "a program and its child in two lives, and one before");
    let (second, third) = (heard(1), heard(3));
    assert!(second[0].contains(r#""earlier":1"#) && third[0].contains(r#""earlier":1"#));
    let tell = place.lines("heard.first").join("");
    assert!(tell.ends_with(&second[1]), "{tell}\n{}", second[1]);
    assert_eq!(second[1], third[1], "a tell of an earlier life is the same to the last digit");
    assert_eq!(third.len(), 5, "hello, tell, ask, tell, ask: {third:?}");
    assert!(third[3].contains(r#""number":1"#) && third[3].contains(r#""window":4.5"#));
    // Both the killed search and the one that ended let the program leave by itself.
    assert_eq!(place.lines("ends").len(), 2);
}

fn kill(child: &mut Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
    child.wait().unwrap();
}

/// A program that answers the first ask with `answer`, and later ones, too.
fn answers(answer: &str) -> String {
    format!("while read -r line; do case $line in '{{\"ask\"'*) {answer} ;; esac; done")
}

#[test]
fn a_bad_program_ends_the_search_with_a_clear_word() {
    let one = r#"echo '{"trials":[{"id":1,"window":4}]}'"#;
    let cases = [
        ("", "echo no luck today >&2; exit 3".to_owned(), "exit code 3", 0),
        ("timeout=1s,", answers("trap '' TERM; sleep 60; sleep 60"), "not answer within 1s", 0),
        ("", answers("echo 'good morning'"), "good morning, which is no answer", 0),
        ("", answers("head -c 1200000 /dev/zero"), "a line has at most 1048576", 0),
        ("", answers(one), "a second trial 1", 1),
        ("", answers(&format!("{one}; {one}")), "unasked", 0),
        // The shell that runs the command would else hold the output, too.
        ("exec ", answers("exec >&-; sleep 60"), "closed its output", 0),
        (
            "batch=2,",
            answers(r#"echo '{"trials":[{"id":1,"b":1},{"id":2,"b":1},{"id":3,"b":2}]}'"#),
            "3 trials where 1 to 2 were asked for",
            0,
        ),
        (
            "",
            answers(r#"echo '{"trials":[{"id":1,"window":4000}]}'"#),
            "`window` of 4000 is not from 1 to 256",
            0,
        ),
    ];
    // All at the same time, since they wait more than they work.
    let cases = cases.map(|(parameters, script, says, trials)| {
        let place = Place::new(&script);
        let child = place.search(parameters, "10runs").spawn().unwrap();
        (place, child, says, trials)
    });
    for (place, child, says, trials) in cases {
        let output = child.wait_with_output().unwrap();
        let said = talk(&output);
        assert_eq!(output.status.code(), Some(2), "{says}: {said}");
        assert!(said.contains(says) && said.contains("All trials are kept"), "{says}: {said}");
        assert!(output.stdout.is_empty(), "it has nothing to show");
        // A trial whose tell found the program at fault is kept all the same.
        let kept = place.trials().len();
        assert!(kept == trials || (says == "unasked" && kept == 1), "{says}: {kept}");
        place.is_deserted();
    }
}

#[test]
fn a_command_that_is_none_is_wrong_input() {
    let place = Place::new("");
    for (method, budget, says) in [
        ("external", "10runs", "needs a command"),
        ("external:timout=1s,true", "10runs", "it takes batch, timeout, faults"),
        ("external:no-such-program", "8runs", "mend the command after `external:`"),
    ] {
        let output = place.search_by(method, budget).output().unwrap();
        let said = talk(&output);
        assert_eq!(output.status.code(), Some(1), "{method}: {said}");
        assert!(said.contains(says), "{method}: {said}");
    }
}

#[test]
fn ctrl_c_ends_a_search_that_waits_for_an_answer() {
    let place = Place::new(&answers("echo asked >> asks; sleep 60"));
    let child = place.search("", "8runs").spawn().unwrap();
    wait_until("it was asked", || !place.lines("asks").is_empty());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("interrupted; the same command goes on"), "{}", talk(&output));
    place.is_deserted();
}

#[test]
fn the_program_to_begin_with_answers_the_written_conversation() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/search");
    let path = folder.join("conversation.jsonl");
    let written = std::fs::read_to_string(&path).unwrap();
    let hello: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
    let spoken = Said::Hello { seed: 7, earlier: 1 }.line();
    assert_eq!(hello, serde_json::from_str::<Value>(&spoken).unwrap(), "it is out of date");
    let conversation = std::fs::File::open(path).unwrap();
    let program = folder.join("random_search.py");
    let mut run = Command::new("python3");
    run.arg(program).args(["--trials", "4"]).stdin(conversation);
    let output = match run.output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED: python3: {error}; install it with: apt-get install python3");
            return;
        }
    };
    assert!(output.status.success(), "{}", talk(&output));
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids = |answer: usize| -> Vec<u64> {
        let trials = answers[answer]["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["id"].as_u64().unwrap()).collect()
    };
    // The trial of an earlier life had the name 0.
    assert_eq!((answers.len(), ids(0), ids(1)), (2, vec![1], vec![2, 3]));
    for (answer, asked) in answers.iter().zip([1, 2]) {
        let heard = heard(&answer.to_string(), asked);
        assert!(heard.is_ok(), "{heard:?}");
    }
}
