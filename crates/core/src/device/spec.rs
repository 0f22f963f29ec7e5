//! The registry of device models, and the text in which users name one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Device, disk, memory, ssd};

/// The device models, the default first.
pub static DEVICES: &[DeviceEntry] = &[disk::ENTRY, ssd::ENTRY, memory::ENTRY];

/// One known device model.
pub struct DeviceEntry {
    /// What users call it.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// What may follow the name.
    pub options: &'static [OptionAbout],
    /// Reads what follows the name and its colon.
    pub read: fn(&str) -> Result<Arc<dyn DeviceModel>, DeviceSpecError>,
}

/// One option of a device model, for help and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionAbout {
    /// What stands before the `=`.
    pub name: &'static str,
    /// One line for help, the default in brackets.
    pub about: &'static str,
}

/// A model with its options set, from which devices are made. Displayed, it gives the options that
/// [`DeviceEntry::read`] reads.
pub trait DeviceModel: fmt::Debug + fmt::Display + Send + Sync {
    /// A fresh, idle device. The seed sets what differs between two of a kind.
    fn build(&self, seed: u64) -> Box<dyn Device>;

    /// Bytes that it holds.
    fn capacity_bytes(&self) -> u64;
}

/// A device model as users write it: `hdd`, `hdd:elevator=fifo,depth=1`, `ssd`, `mem`.
#[derive(Clone)]
pub struct DeviceSpec {
    name: &'static str,
    model: Arc<dyn DeviceModel>,
}

impl DeviceSpec {
    /// A fresh, idle device. The seed sets what differs between two of a kind, such as how the
    /// platters stand.
    pub fn build(&self, seed: u64) -> Box<dyn Device> {
        self.model.build(seed)
    }

    /// Bytes that the device holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    /// The model's name in [`DEVICES`].
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl Default for DeviceSpec {
    fn default() -> Self {
        disk::DiskOptions::default().into()
    }
}

impl From<disk::DiskOptions> for DeviceSpec {
    fn from(options: disk::DiskOptions) -> Self {
        Self { name: disk::ENTRY.name, model: Arc::new(options) }
    }
}

impl FromStr for DeviceSpec {
    type Err = DeviceSpecError;

    fn from_str(text: &str) -> Result<Self, DeviceSpecError> {
        let text = text.trim();
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let entry = DEVICES.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let known: Vec<_> = DEVICES.iter().map(|entry| entry.name).collect();
            DeviceSpecError::Device { name: name.to_owned(), known: known.join(", ") }
        })?;
        Ok(Self { name: entry.name, model: (entry.read)(options)? })
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.model.to_string();
        let colon = if options.is_empty() { "" } else { ":" };
        f.pad(&format!("{}{colon}{options}", self.name))
    }
}

impl fmt::Debug for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSpec({self})")
    }
}

impl PartialEq for DeviceSpec {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// A device that could not be read from its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceSpecError {
    /// No model has this name.
    #[error("there is no device `{name}`: use one of {known}")]
    Device {
        /// What was read.
        name: String,
        /// The models that there are.
        known: String,
    },
    /// A piece of the options is not `name=value`.
    #[error("`{text}` is no option: write name=value, several with commas between them")]
    Shape {
        /// What was read.
        text: String,
    },
    /// The model has no such option.
    #[error("`{device}` has no option `{option}`: {known}")]
    Option {
        /// The model.
        device: String,
        /// What was read.
        option: String,
        /// What it has.
        known: String,
    },
    /// An option stands there twice.
    #[error("option `{option}` is given twice: keep one of them")]
    Twice {
        /// Its name.
        option: String,
    },
    /// The value of an option cannot be.
    #[error("`{value}` cannot be the value of `{option}`: give {expected}")]
    Value {
        /// Its name.
        option: String,
        /// What was read.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// Cuts `a=1,b=2` at commas and equal signs; every name is one of `known`, and none stands twice.
pub(super) fn pairs<'a>(
    device: &str,
    known: &'static [OptionAbout],
    text: &'a str,
) -> Result<Vec<(&'static str, &'a str)>, DeviceSpecError> {
    let mut pairs: Vec<(&'static str, &'a str)> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        let shape = || DeviceSpecError::Shape { text: piece.to_owned() };
        let (name, value) = piece.split_once('=').ok_or_else(shape)?;
        let (name, value) = (name.trim(), value.trim());
        let option = known.iter().find(|option| option.name == name).ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|option| option.name).collect();
            DeviceSpecError::Option {
                device: device.to_owned(),
                option: name.to_owned(),
                known: if names.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("use one of {}", names.join(", "))
                },
            }
        })?;
        if pairs.iter().any(|(other, _)| *other == option.name) {
            return Err(DeviceSpecError::Twice { option: name.to_owned() });
        }
        pairs.push((option.name, value));
    }
    Ok(pairs)
}

/// Reads one value, which must satisfy `holds`.
pub(super) fn value<T: FromStr>(
    option: &str,
    text: &str,
    expected: &str,
    holds: impl Fn(&T) -> bool,
) -> Result<T, DeviceSpecError> {
    text.parse().ok().filter(holds).ok_or_else(|| DeviceSpecError::Value {
        option: option.to_owned(),
        value: text.to_owned(),
        expected: expected.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::DeviceRequest;
    use crate::units::{Span, Time};

    #[test]
    fn what_is_displayed_reads_back() {
        for text in ["hdd", "ssd", "mem", "hdd:elevator=fifo,depth=1", "ssd:channels=4"] {
            let spec: DeviceSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
        let same: DeviceSpec = " hdd: depth = 32 , batch=16".parse().unwrap();
        assert_eq!(same, DeviceSpec::default());
    }

    #[test]
    fn errors_tell_the_remedy() {
        for (text, remedy) in [
            ("hd", "hdd, ssd, mem"),
            ("", "hdd, ssd, mem"),
            ("hdd:deep=3", "nr_requests"),
            ("hdd:depth", "name=value"),
            ("hdd:depth=1,", "name=value"),
            ("hdd:depth=1,depth=2", "twice"),
            ("mem:x=1", "it has none"),
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn every_model_is_built_from_its_bare_name() {
        for entry in DEVICES {
            let spec: DeviceSpec = entry.name.parse().unwrap();
            assert_eq!(spec.to_string(), entry.name);
            assert!(spec.capacity_bytes() > 0);
            assert_eq!(spec.build(0).pending(), 0);
        }
    }

    const SPECS: &[&str] = &[
        "hdd",
        "hdd:elevator=deadline-strict",
        "hdd:elevator=fifo,depth=1",
        "hdd:elevator=clook,depth=1,nr_requests=8",
        "hdd:elevator=sptf,drive=fifo",
        "hdd:drive=clook,passes=4",
        "hdd:anticipate=6ms",
        "hdd:elevator=fifo,drive=fifo,depth=1,anticipate=20ms",
        "ssd",
        "mem",
    ];

    /// Submits requests at their times; polls at each submission when `punctual`, or only at the
    /// end.
    fn run(
        spec: &str,
        requests: &[(u64, u64, u64, bool)],
        punctual: bool,
    ) -> Vec<(u64, Time, Span)> {
        let mut device = spec.parse::<DeviceSpec>().unwrap().build(3);
        let mut done = Vec::new();
        let mut now = Time::ZERO;
        for (id, &(gap, place, length, write)) in requests.iter().enumerate() {
            let arrival = now + Span::from_micros(gap);
            while punctual && let Some(at) = device.next_done().filter(|at| *at <= arrival) {
                let finished = device.poll(at).expect("next_done promised it");
                assert_eq!(finished.at, at);
                done.push(finished);
            }
            now = arrival;
            let (id, offset_bytes, length_bytes) = (id as u64, place << 12, length << 12);
            device.submit(now, DeviceRequest { id, write, offset_bytes, length_bytes });
        }
        while let Some(finished) = device.poll(Time::from_nanos(1 << 60)) {
            done.push(finished);
        }
        assert_eq!((device.pending(), device.next_done()), (0, None));
        done.into_iter().map(|done| (done.id, done.at, done.access)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Every request comes back once, after it was submitted, in order of completion, and the
        /// same whether the driver polls late or on time.
        #[test]
        fn late_polls_change_nothing(
            which in 0..SPECS.len(),
            requests in prop::collection::vec(
                (0_u64..30_000, 0_u64..122_000_000, 0_u64..300, any::<bool>()), 0..150),
        ) {
            let late = run(SPECS[which], &requests, false);
            prop_assert_eq!(&late, &run(SPECS[which], &requests, true));
            prop_assert!(late.is_sorted_by_key(|(_, at, _)| *at));
            let mut ids: Vec<_> = late.iter().map(|(id, _, _)| *id).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
            let mut arrival = Time::ZERO;
            let mut arrivals = Vec::new();
            for (gap, ..) in &requests {
                arrival += Span::from_micros(*gap);
                arrivals.push(arrival);
            }
            for (id, at, access) in late {
                prop_assert!(at >= arrivals[id as usize] + access);
            }
        }

        /// Polls at random times see only what is finished, and pending counts what is not
        /// returned.
        #[test]
        fn polls_never_run_ahead(
            which in 0..SPECS.len(),
            steps in prop::collection::vec(
                (0_u64..40_000, any::<bool>(), 0_u64..122_000_000), 1..200),
        ) {
            let mut device = SPECS[which].parse::<DeviceSpec>().unwrap().build(9);
            let (mut now, mut open) = (Time::ZERO, 0_usize);
            for (id, &(gap, submit, place)) in steps.iter().enumerate() {
                now += Span::from_micros(gap);
                if submit {
                    device.submit(now, DeviceRequest {
                        id: id as u64,
                        write: id % 3 == 0,
                        offset_bytes: place << 12,
                        length_bytes: 8192,
                    });
                    open += 1;
                } else if let Some(done) = device.poll(now) {
                    prop_assert!(done.at <= now);
                    open -= 1;
                } else {
                    prop_assert!(device.next_done().is_none_or(|at| at > now));
                }
                prop_assert_eq!(device.pending(), open);
            }
        }
    }
}
