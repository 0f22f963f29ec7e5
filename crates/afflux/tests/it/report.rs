//! Results in a directory, and the page that shows them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn afflux(args: &[&str]) -> std::process::Output {
    Command::new(assert_cmd::cargo::cargo_bin!("afflux")).args(args).output().unwrap()
}

/// Runs to exit 0 and gives stderr.
fn done(args: &[&str]) -> String {
    let output = afflux(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {talk}");
    talk
}

/// Runs to exit 1 with an empty stdout and gives stderr.
fn refused(args: &[&str]) -> String {
    let output = afflux(args);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {talk}");
    assert!(output.stdout.is_empty(), "{args:?} wrote data");
    talk
}

const QUICK: [&str; 6] = ["--on", "null:10ms", "--length", "2s", "--settle", "50ms"];

/// A workload whose names want to be more than names.
fn hostile(dir: &Path) -> String {
    let path = dir.join("hostile.toml");
    let text = include_str!("small.toml");
    let hostile = text.replace("\"small\"", "'<script>alert(\"x\")</script>'");
    assert!(hostile != text);
    fs::write(&path, hostile).unwrap();
    path.display().to_string()
}

fn listing(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files.extend(listing(&entry)),
            false => files.push((entry.clone(), fs::read(&entry).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn a_comparison_leaves_everything_behind_and_it_can_be_made_again() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("deep/result");
    let out = dir.to_str().unwrap();
    let workload = hostile(root.path());
    let compare = ["bench", &workload, "--compare", "shipped:two-step", "--pairs", "2"];
    let talk = done(&[&compare[..], &QUICK, &["--out", out]].concat());
    assert!(talk.contains("report.html"), "{talk}");

    let result: Value =
        serde_json::from_slice(&fs::read(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!(result["afflux_result"], 1);
    assert_eq!(result["program"]["command"][1], "bench");
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let traces: Vec<&Value> = runs.iter().map(|run| &run["trace"]).collect();
    let traces: Vec<_> = traces.into_iter().filter(|trace| trace.is_object()).collect();
    assert_eq!(traces.len(), 2, "the pair that is shown");
    assert_eq!(traces[0]["path"], traces[1]["path"], "like stands beside like");
    assert!(result["rules"][0]["text"].as_str().unwrap().contains("; hits "));
    // What is compared is what the runs say.
    let totals = |baseline: bool| {
        let of = |run: &&Value| run["place"]["baseline"] == baseline;
        let total = |run: &Value| run["summary"]["total_mb_s"].as_f64().unwrap();
        runs.iter().filter(of).map(total).sum::<f64>() / 2.0
    };
    let throughput = &result["comparisons"][0]["metrics"][0];
    assert!((throughput["baseline"].as_f64().unwrap() - totals(true)).abs() < 1e-9);
    assert!((throughput["setting"].as_f64().unwrap() - totals(false)).abs() < 1e-9);

    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(") && !page.contains("<script"));
    let first = listing(&dir);
    assert!(first.len() >= 15, "{first:?}");
    done(&["report", out]);
    assert!(listing(&dir) == first, "the same result gives the same bytes");
    // An earlier result is replaced by the next, which has less to show.
    done(&[&["bench", "seq-read"][..], &QUICK, &["--out", out]].concat());
    assert!(!dir.join("plots/1-changes.svg").exists());
}

#[test]
fn a_survey_keeps_what_was_tried_and_its_rules() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().to_str().unwrap();
    let quick = ["--on", "null:10ms", "--length", "1s", "--settle", "20ms", "--out", out];
    let survey = ["bench", "random-read", "--survey", "--pairs", "2", "--clients", "2", "--json"];
    let output = afflux(&[&survey[..], &quick].concat());
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value =
        serde_json::from_slice(&fs::read(root.path().join("result.json")).unwrap()).unwrap();
    let names = |list: &Value| {
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["setting"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&told["tried"]), names(&kept["survey"]));
    assert_eq!(names(&told["confirmed"]), names(&kept["comparisons"]));
    let page = fs::read_to_string(root.path().join("report.html")).unwrap();
    assert!(page.contains("What was tried") && page.contains("this only proposes"));
}

#[test]
fn a_stored_example_of_a_search_is_shown() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("result.json"), include_str!("report/search.json")).unwrap();
    let output = afflux(&["report", root.path().to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let page = fs::read_to_string(told["page"].as_str().unwrap()).unwrap();
    for part in ["Course of the search", "best fixed setting", "fixed:16", "The rules of"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(root.path().join("plots/search.svg").exists());
    assert!(root.path().join("data/search.csv").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    assert!(refused(&["report", dir]).contains("--out DIR"));
    fs::write(root.path().join("thesis.tex"), "mine").unwrap();
    // A run of an hour, which would not end in time if it began.
    let long = ["bench", "seq-read", "--on", "null", "--length", "3600s", "--out", dir];
    assert!(refused(&long).contains("thesis.tex"));
    fs::write(root.path().join("result.json"), "{\"afflux_result\": 7}").unwrap();
    assert!(refused(&long).contains("version 7"));
    fs::write(root.path().join("result.json"), "{\"afflux_result\": 1,").unwrap();
    assert!(refused(&["report", dir]).contains("damaged"));
    let file = root.path().join("thesis.tex");
    let output = afflux(&["bench", "seq-read", "--on", "null", "--out", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

/// The browser, by any of its names.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).find(|at| at.exists())
}

/// Calls the browser on a page; it is ended when it does not end by itself.
fn render(browser: &Path, page: &Path, how: &[&str]) -> Vec<u8> {
    let profile = tempfile::tempdir().unwrap();
    let dump = profile.path().join("said");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(how)
        .arg(format!("file://{}", page.display()))
        .stdout(fs::File::create(&dump).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the browser did not end within a minute: {how:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::read(&dump).unwrap()
}

/// Width and height of a PNG.
fn size_of(picture: &Path) -> (u32, u32) {
    let bytes = fs::read(picture).unwrap();
    assert_eq!(&bytes[1..4], b"PNG");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (word(16), word(20))
}

/// What a browser makes of the page of a real run: nothing is wider than the screen, no script is
/// run, and pictures are left behind for people to look at.
#[test]
fn a_browser_shows_the_page_of_a_real_run() {
    let Some(browser) = browser() else {
        // The stream itself: what the macros print of a test that passes is kept from sight.
        let said = "SKIPPED: no browser to show the page in; install one: apt-get install chromium";
        writeln!(std::io::stderr(), "{said}").unwrap();
        return;
    };
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-test");
    let _ = fs::remove_dir_all(&kept);
    let args = ["bench", "random-rw-shared", "--compare", "shipped:paced", "--pairs", "2"];
    done(&[&args[..], &QUICK, &["--out", kept.to_str().unwrap()]].concat());
    let page = kept.join("report.html");
    for (name, width) in [("wide", 1280), ("phone", 500)] {
        let picture = kept.join(format!("{name}.png"));
        let shot = format!("--screenshot={}", picture.display());
        render(&browser, &page, &[&shot, &format!("--window-size={width},4000")]);
        assert_eq!(size_of(&picture).0, width);
    }
    // A page that measures itself, since the report runs no script of its own.
    let probe = kept.join("probe.html");
    let text = fs::read_to_string(&page).unwrap();
    let measure = "<script>addEventListener('load',()=>{document.title=['at',\
        document.documentElement.scrollWidth,innerWidth,document.querySelectorAll('svg').length,\
        document.querySelectorAll('script').length].join(' ')})</script></body>";
    fs::write(&probe, text.replace("</body>", measure)).unwrap();
    for width in [500, 1280] {
        let how = ["--dump-dom", &format!("--window-size={width},1000")];
        let dom = String::from_utf8(render(&browser, &probe, &how)).unwrap();
        let told = dom.split("<title>at ").nth(1).unwrap_or_else(|| panic!("{dom:.300}"));
        let told = told.split("</title>").next().unwrap();
        let told: Vec<u32> = told.split(' ').map(|word| word.parse().unwrap()).collect();
        assert!(told[0] <= told[1], "{} px wide on a screen of {}", told[0], told[1]);
        assert!(told[2] >= 8, "{} plots", told[2]);
        assert_eq!(told[3], 1, "the probe's own script and no other");
    }
    fs::remove_file(&probe).unwrap();
    let printed = kept.join("printed.pdf");
    render(&browser, &page, &[&format!("--print-to-pdf={}", printed.display())]);
    assert_eq!(&fs::read(&printed).unwrap()[..5], b"%PDF-");
}
