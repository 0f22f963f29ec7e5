//! Incast in the simulator beside Incast with real TCP.
//!
//! `incast.tsv` was measured with `bench/incast/measure.py` on Linux 6.18 (`--rate 50 --burst 3028
//! --secs 8`, means of up to two runs): links of 50 Mbit/s, a port of `buffer` bytes, `depth`
//! pieces of `piece` bytes from each of `servers`, `window` asked for at once. Both profiles find
//! losses by RACK, as this kernel seems to do whatever it is told; "modern" has tail loss probes,
//! "legacy" has none.

use crate::common::{run, speed};

const MEASURED: &str = include_str!("incast.tsv");

/// Links carry 1448 of 1514 bytes; a server of that bench takes some 200 us to wake and answer.
const BED: &str = r#"
[network]
client_rate = "47.8Mbit/s"
server_rate = "47.8Mbit/s"
segment = "1448B"
header = "4B"
latency = "20us"
[servers]
device = "mem"
overhead = "200us"
[run]
settle = "0s"
length = "20s"
[workload]
clients = 1
"#;

struct Measured {
    line: &'static str,
    recovery: &'static str,
    port_bytes: u64,
    piece_kib: u64,
    depth: u64,
    servers: u64,
    control: String,
    mbit_s: f64,
}

fn measured() -> Vec<Measured> {
    let lines = MEASURED.lines().skip(1).map(|line| {
        let fields: Vec<_> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        Measured {
            line,
            recovery: if fields[0] == "modern" { "rack-tlp" } else { "rack" },
            port_bytes: number(1) * 1448 / 1514,
            piece_kib: number(2) >> 10,
            depth: number(3),
            servers: number(4),
            control: match fields[5] {
                "all" => "none".to_owned(),
                window => format!("none+fan-in={window}"),
            },
            mbit_s: fields[6].parse().unwrap(),
        }
    });
    lines.collect()
}

/// Mbit/s, as the mean over three seeds.
fn simulated(one: &Measured) -> f64 {
    let piece = one.piece_kib;
    let round = piece * one.depth * one.servers;
    let scenario = format!(
        "{BED}max_request = \"{piece} KiB\"\n\
         files = {{ each = 1, size = \"{} KiB\", stripe_unit = \"{piece} KiB\" }}\n\
         stream = [{{ threads = 1, steps = [{{ do = \"read\", size = \"{round} KiB\" }}] }}]",
        round * 100
    );
    let overrides = [
        format!("servers.count={}", one.servers),
        format!("network.buffer={}B", one.port_bytes),
        format!("network.recovery={}", one.recovery),
    ];
    let of = |seed| 8.0 * speed(&run(&scenario, &overrides, &one.control, seed));
    (of(1) + of(2) + of(3)) / 3.0
}

/// A loaded machine repeats such a measurement within 20 % at best. Where a port overflows by one
/// or two segments, at the very end of a round, whether the last is lost makes a factor of two.
#[test]
fn goodput_is_that_of_real_tcp() {
    let mut near = 0;
    let all = measured();
    for one in &all {
        let simulated = simulated(one);
        let times = simulated / one.mbit_s;
        println!("{} {simulated:.1} {times:.2}", one.line);
        assert!((0.45..2.2).contains(&times), "{}: {simulated}", one.line);
        near += usize::from((0.75..1.25).contains(&times));
    }
    assert!(near * 4 >= all.len() * 3, "{near} of {} within 25 %", all.len());
}

/// Where the next piece follows each that has come, losses are noticed by those after them: no
/// limit on what is asked for at once does harm, nor is one needed.
#[test]
fn pieces_that_follow_each_other_do_not_collapse() {
    for one in measured().iter().filter(|one| one.depth == 4) {
        let simulated = simulated(one);
        assert!(simulated > 0.9 * 47.8, "{}: {simulated}", one.line);
    }
}
