//! How many service decisions a second the device models make, in closed loops at full queues.

use std::hint::black_box;

use afflux_core::device::{Device, DeviceRequest, DeviceSpec};
use afflux_core::rng::Rng;
use afflux_core::units::Time;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Requests served in one iteration.
const BATCH: u64 = 10_000;

/// Keeps `depth` random requests of 64 KiB outstanding until [`BATCH`] more are served.
fn serve(device: &mut dyn Device, rng: &mut Rng, depth: usize, now: &mut Time) {
    for id in 0..BATCH {
        while device.pending() < depth {
            let offset_bytes = rng.below(7_000_000) << 16;
            let request =
                DeviceRequest { id, write: id % 4 == 0, offset_bytes, length_bytes: 1 << 16 };
            device.submit(*now, request);
        }
        *now = device.next_done().expect("requests are outstanding");
        black_box(device.poll(*now));
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("device");
    group.throughput(Throughput::Elements(BATCH)).sample_size(20);
    for (spec, depth) in [
        ("hdd", 1),
        ("hdd", 32),
        ("hdd", 64),
        ("hdd", 256),
        ("hdd:drive=clook", 32),
        ("hdd:drive=fifo", 32),
        ("hdd:elevator=fifo,drive=fifo,depth=1", 32),
        ("ssd", 32),
        ("mem", 32),
    ] {
        let mut device = spec.parse::<DeviceSpec>().expect("a spec from the table").build(1);
        let (mut rng, mut now) = (Rng::new(1), Time::ZERO);
        group.bench_function(format!("{spec} at {depth}"), |bencher| {
            bencher.iter(|| serve(device.as_mut(), &mut rng, depth, &mut now));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
