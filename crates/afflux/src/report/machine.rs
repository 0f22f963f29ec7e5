//! Facts about the machine, as the kernel tells them.

use std::fs;

use super::schema::Machine;

/// This machine; what the kernel does not tell is left empty.
pub(super) fn this_machine() -> Machine {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let processor = value_of(&read("/proc/cpuinfo"), "model name");
    let memory = value_of(&read("/proc/meminfo"), "MemTotal");
    let kib: u64 = memory.trim_end_matches("kB").trim().parse().unwrap_or(0);
    Machine { cores, processor, memory_bytes: kib * 1_024, kernel }
}

/// The value of the first line `key: value`.
fn value_of(text: &str, key: &str) -> String {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(name, _)| name.trim() == key);
    values.next().map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells() {
        let machine = this_machine();
        assert!(machine.cores > 0 && !machine.kernel.is_empty() && machine.memory_bytes > 0);
        assert_eq!(value_of("a b\t: c: d\n", "a b"), "c: d");
        assert_eq!(value_of("a: b", "c"), "");
    }
}
