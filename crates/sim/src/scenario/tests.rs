//! What scenarios say, and what is said about those that are wrong.

use super::*;

const GOOD: &str = r#"
afflux-scenario = 1
name = "good"
about = "two applications on eight servers"

[network]
client_rate = "10Gbit/s"
buffer = "64KiB"

[servers]
count = 8
device = "hdd:elevator=deadline-strict"
bulk = true

[clients]
timeout = "30s"

[[application]]
workload = "seq-write"
clients = 16
bytes = "32MiB"

[[application]]
name = "second"
start = "5s"
[application.workload]
preset = "random-read"
clients = 3
files = { size = "16 MiB" }

[[fault]]
at = "2s"
what = "die"
which = 3
for = "10s"

[[fit]]
name = "alone"
metric = "total_mb_s"
value = 421
unit = "MB/s"
source = "ASCAR, Table IV"
set = ["application.clients=1"]
"#;

#[test]
fn a_good_scenario_is_read() {
    let scenario = Scenario::parse(GOOD).unwrap();
    assert_eq!(scenario.network.client_rate, 1_250_000_000);
    assert_eq!(scenario.network.server_rate, 125_000_000);
    assert_eq!((scenario.network.buffer, scenario.network.train()), (Some(65_536), 1_500));
    assert_eq!(scenario.servers.device.to_string(), "hdd:elevator=deadline-strict");
    let [first, second] = scenario.applications.as_slice() else { panic!() };
    assert_eq!((first.workload.clients, first.bytes), (16, Some(32 << 20)));
    assert_eq!((second.name.as_str(), second.start), ("second", Span::from_secs(5)));
    assert_eq!((second.workload.clients, second.workload.files.size), (3, 16 << 20));
    assert_eq!(scenario.client_count(), 19);
    assert_eq!(scenario.faults[0].what, FaultKind::Die);
    assert_eq!(scenario.fitted[0].set, ["application.clients=1"]);
    assert_eq!(Scenario::parse(GOOD).unwrap(), scenario);
}

/// Each fault is told with its place and what would be right.
#[test]
fn faults_name_place_and_remedy() {
    for (right, wrong, says) in [
        ("count = 8", "count = 0", "line 11, column 9: `0` cannot be the value of `count`"),
        ("count = 8", "coont = 8", "did you mean `count`? [servers] has: count, threads"),
        ("[servers]", "[server]", "unknown key `server` in a scenario: did you mean `servers`?"),
        ("10Gbit/s", "0Gbit/s", "at a rate of 0 nothing would ever arrive"),
        ("10Gbit/s", "10Gbit", "write it as \"1Gbit/s\""),
        ("64KiB", "100B", "holds less than one segment"),
        ("64KiB", "64kb", "a unit of size"),
        ("deadline-strict", "cfq", "deadline, deadline-strict, fifo"),
        ("\"seq-write\"", "\"seq-wrote\"", "did you mean `seq-write`?"),
        ("size = \"16 MiB\"", "size = \"1 KiB\"", "in the workload"),
        ("timeout = \"30s\"", "timeout = \"never\"", "give clients a timeout"),
        ("which = 3", "which = 8", "numbered from 0"),
        (
            "what = \"die\"",
            "what = \"sleep\"",
            "slow-disk, client-die, names-stall or names-die (left",
        ),
        ("[[fault]]", "[fault]", "write [[fault]] before each"),
        ("afflux-scenario = 1", "afflux-scenario = 2", "reads version 1"),
        ("bulk = true", "bulk = ", "line 13"),
    ] {
        let text = GOOD.replace(right, wrong);
        assert_ne!(text, GOOD, "{right}");
        let error = Scenario::parse(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{wrong}: {error}");
    }
    let none = Scenario::parse("afflux-scenario = 1").unwrap_err().to_string();
    assert!(none.contains("write workload = "), "{none}");
}

#[test]
fn overrides_go_through_the_same_tables() {
    let scenario = Scenario::default()
        .with(&["servers.count=2", "network.client_rate=100Mbit/s", "workload=random-read"])
        .unwrap()
        .with(&["application1.bytes=1MiB", "policy.setting=fixed:4", "clients.in_flight=3"])
        .unwrap();
    assert_eq!((scenario.servers.count, scenario.network.client_rate), (2, 12_500_000));
    assert_eq!(scenario.applications[0].workload.name, "random-read");
    assert_eq!(scenario.applications[0].bytes, Some(1 << 20));
    for (text, says) in [
        ("servers.count=0", "not from 1"),
        ("servers.cuont=1", "did you mean `count`?"),
        ("server.count=1", "did you mean `servers`?"),
        ("servers.count", "write section.key=value"),
        ("count=1", "as in servers.count=8"),
        ("application2.bytes=1MiB", "there is no application 2"),
        ("workload=none", "there are: seq-write"),
        ("application.servers=9", "there are 4"),
    ] {
        let error = Scenario::default().with(&[text]).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

const MODELS: &str = r#"
afflux-scenario = 1
name = "models"
workload = "mine"

[workloads.mine]
preset = "seq-read"
clients = 2

[[free]]
key = "servers.threads"
values = ["4", "8"]

[[model]]
name = "a"
set = ["servers.threads=4", "clients.dirty=1MiB"]

[[model]]
name = "b"
set = ["servers.threads=8", "clients.dirty=2MiB"]
"#;

#[test]
fn the_first_model_is_in_force_and_another_takes_its_place() {
    let scenario = Scenario::parse(MODELS).unwrap();
    assert_eq!((scenario.servers.threads, scenario.clients.dirty), (4, 1 << 20));
    assert_eq!((scenario.applications[0].name.as_str(), scenario.client_count()), ("mine", 2));
    let other = scenario.clone().with_model("b").unwrap();
    assert_eq!((other.servers.threads, other.clients.dirty), (8, 2 << 20));
    let mut again = other.with_model("a").unwrap();
    assert_eq!(std::mem::take(&mut again.origin.changed), ["model=b", "model=a"]);
    assert_eq!(again, scenario);
}

#[test]
fn workloads_and_applications_are_overridden_by_name_and_number() {
    let scenario = Scenario::parse(MODELS).unwrap();
    let scenario = scenario.with(&["applications=3", "application2.workload=seq-write"]).unwrap();
    let names = scenario.applications.iter().map(|one| one.workload.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["mine", "seq-write", "mine"]);
    let one = scenario.with(&["applications=1"]).unwrap();
    assert_eq!(one.applications.len(), 1);
    for (text, says) in [
        ("workload=min", "did you mean `mine`?"),
        ("application4.workload=mine", "there is no application 4"),
        ("applications=0", "not from 1"),
        ("model=c", "there is no model `c`; there are: a, b"),
    ] {
        let error = one.clone().with(&[text]).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn models_take_tried_values_and_the_same_keys() {
    for (right, wrong) in [
        ("set = [\"servers.threads=8\", ", "set = [\"servers.threads=9\", "),
        ("set = [\"servers.threads=8\", ", "set = ["),
        ("clients.dirty=2MiB", "clients.read_ahead=2MiB"),
    ] {
        let text = MODELS.replace(right, wrong);
        assert_ne!(text, MODELS, "{right}");
        let error = Scenario::parse(&text).unwrap_err().to_string();
        assert!(error.contains("model `b`") && error.contains("[[free]]"), "{wrong}: {error}");
    }
    let number = "[workloads]\nmine = 3\n[workloads.other]\npreset";
    let table = MODELS.replace("[workloads.mine]\npreset", number);
    let error = Scenario::parse(&table).unwrap_err().to_string();
    assert!(error.contains("in [workloads.mine]"), "{error}");
}
