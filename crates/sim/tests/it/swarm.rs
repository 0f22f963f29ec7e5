//! Random worlds: whatever a scenario says, the invariants hold and the same seed gives the same
//! bytes. A failure prints the seed and the scenario; `AFFLUX_SIM_SEED=N` runs that one alone.

use std::fmt::Write;

use afflux_core::rng::Rng;
use afflux_core::setting::Setting;
use afflux_core::target::Unwatched;
use afflux_sim::{Outcome, Scenario, Simulation};

const WORLDS: u64 = 300;

/// Writes a random scenario.
struct Author {
    rng: Rng,
    text: String,
}

impl Author {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn chance(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    fn line(&mut self, key: &str, values: &[&str]) {
        // Half of the keys keep their default, so that every world has a character of its own.
        if self.chance(2) {
            let value = self.one(values);
            let _ = writeln!(self.text, "{key} = {value}");
        }
    }

    fn section(&mut self, name: &str) {
        let _ = writeln!(self.text, "[{name}]");
    }

    fn network(&mut self) {
        self.section("network");
        self.line("client_rate", &["\"1Gbit/s\"", "\"100Mbit/s\"", "\"10Gbit/s\""]);
        self.line("server_rate", &["\"1Gbit/s\"", "\"10Gbit/s\""]);
        self.line("latency", &["\"1us\"", "\"200us\"", "\"3ms\""]);
        self.line("header", &["\"64B\"", "\"1KiB\""]);
        if self.chance(4) {
            self.text.push_str("segment = \"9000B\"\n");
            self.line("buffer", &["\"32KiB\"", "\"256KiB\"", "\"9000B\""]);
            self.line("rto", &["\"10ms\"", "\"200ms\""]);
        }
    }

    fn servers(&mut self) {
        self.section("servers");
        self.text.push_str("count = 3\n");
        self.line("threads", &["1", "2", "16"]);
        let devices = [
            "\"mem\"",
            "\"ssd\"",
            "\"hdd:elevator=deadline-strict\"",
            "\"hdd:elevator=sptf-strict,depth=1\"",
            "\"hdd:elevator=fifo,depth=1\"",
        ];
        self.line("device", &devices);
        self.line("spindles", &["2", "5"]);
        self.line("chunk", &["\"64KiB\"", "\"1MiB\""]);
        self.line("placement", &["\"arrival\"", "\"even\""]);
        self.line("bulk", &["true"]);
        self.line("overhead", &["\"0us\"", "\"1ms\""]);
        self.line("memory", &["\"1MiB\"", "\"8MiB\""]);
        self.line("cache", &["\"1MiB\"", "\"1GiB\""]);
        self.line("write_back", &["\"1MiB\"", "\"16MiB\""]);
    }

    fn clients(&mut self, dies: bool) {
        self.section("clients");
        self.line("in_flight", &["1", "3"]);
        self.line("fan_in", &["1", "4"]);
        self.line("dirty", &["\"1MiB\"", "\"8MiB\""]);
        self.line("read_ahead", &["\"1MiB\"", "\"40MiB\""]);
        self.line("cache", &["\"3MiB\"", "\"1GiB\""]);
        self.line("stagger", &["\"0ms\"", "\"2s\""]);
        self.line("retries", &["0", "1", "50"]);
        if dies || self.chance(3) {
            let timeout = self.one(&["\"200ms\"", "\"1s\"", "\"5s\""]);
            let _ = writeln!(self.text, "timeout = {timeout}");
        }
    }

    fn applications(&mut self) {
        for number in 0..1 + self.rng.below(2) {
            self.section("[application]");
            let _ = writeln!(self.text, "name = \"a{number}\"");
            self.line("start", &["\"500ms\"", "\"2s\""]);
            self.line("bytes", &["\"3MiB\"", "\"20MiB\""]);
            self.line("first_server", &["1"]);
            self.line("servers", &["1", "2"]);
            self.section("application.workload");
            let preset = self.one(&[
                "seq-write",
                "seq-read",
                "random-rw-shared",
                "mix-10-1",
                "fileserver",
                "checkpoint",
                "small-reads",
            ]);
            let _ = writeln!(self.text, "preset = \"{preset}\"");
            self.line("clients", &["1", "2", "7"]);
            self.line("max_request", &["\"100KiB\"", "\"1MiB\""]);
            self.section("application.workload.files");
            self.line("stripe_unit", &["\"64KiB\"", "\"300kB\""]);
            self.line("stripe_count", &["1", "2"]);
        }
    }

    fn fault(&mut self, what: &str) {
        self.section("[fault]");
        let _ = writeln!(self.text, "what = \"{what}\"");
        self.line("at", &["\"300ms\"", "\"2s\""]);
        if !what.starts_with("names") {
            self.line("which", &["0", if what == "client-die" { "0" } else { "2" }]);
        }
        self.line("for", &["\"100ms\"", "\"2500ms\"", "\"ever\""]);
        self.line("factor", &["3", "0.5"]);
    }

    fn scenario(seed: u64) -> String {
        let text = format!("afflux-scenario = 1\nname = \"swarm {seed}\"\n");
        let mut author = Self { rng: Rng::new(seed), text };
        let kinds = [
            "stall",
            "die",
            "slow-link",
            "slow-disk",
            "client-die",
            "client-die",
            "names-stall",
            "names-die",
        ];
        let faults: Vec<_> = (0..author.rng.below(4)).map(|_| author.one(&kinds)).collect();
        author.network();
        author.servers();
        // Who waits for what never comes needs a time-out.
        author.clients(faults.iter().any(|what| what.ends_with("die") || what.ends_with("stall")));
        author.section("metadata");
        author.line("threads", &["1"]);
        author.section("locks");
        author.line("scope", &["\"file\"", "\"object\""]);
        author.line("shared_reads", &["true"]);
        author.line("handover", &["\"0ms\"", "\"20ms\""]);
        author.line("batch", &["4", "\"unlimited\""]);
        author.section("run");
        author.text.push_str("settle = \"1s\"\nlength = \"3s\"\n");
        author.line("series", &["\"100ms\""]);
        author.line("merge", &["2"]);
        author.applications();
        faults.iter().for_each(|what| author.fault(what));
        author.text
    }
}

/// What a random world showed. Its audit is part of every run in a build like this one.
fn outcome(text: &str, seed: u64) -> Outcome {
    let controls = ["none", "fixed:2,gap=5ms", "aimd", "gradient", "fixed:4+turn=50ms+fan-in=3"];
    let control = controls[seed as usize % controls.len()];
    let setting = Setting::parse(control, &|name| Err(name.to_owned())).unwrap();
    let scenario = Scenario::parse(text).unwrap();
    Simulation::new(&scenario, &setting, seed).unwrap().run(&Unwatched).unwrap()
}

#[test]
fn random_worlds_keep_the_invariants() {
    let asked = std::env::var("AFFLUX_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = asked.map_or((0..WORLDS).collect(), |seed| vec![seed]);
    let mut replies = 0;
    for seed in seeds {
        let text = Author::scenario(seed);
        let run = std::panic::catch_unwind(|| {
            let first = outcome(&text, seed);
            if seed % 8 == 0 {
                let again = outcome(&text, seed);
                let [first, again] =
                    [&first, &again].map(|one| serde_json::to_string(one).unwrap());
                assert!(first == again, "the same seed gave other bytes");
            }
            first.totals.replies
        });
        match run {
            Ok(count) => replies += count,
            Err(panic) => {
                println!("AFFLUX_SIM_SEED={seed} fails with this scenario:\n{text}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(replies > 1_000, "worlds in which nothing happens show nothing: {replies}");
}
