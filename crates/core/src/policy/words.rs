//! Policies as words: how one lies in memory that processes share, and runs from there.
//!
//! The memory may change or be scribbled over while it is read. Any words are therefore some
//! policy, if not a useful one; the controller clamps what it says, as it does with every policy.

use super::by_rules::{NAME, RulesIn};
use super::{PARAMETERS, POLICIES, Policy, fixed, name_word};

/// Words that can be read one by one.
pub trait Words: Sync {
    /// The word at `index`; zero beyond the last.
    fn word(&self, index: usize) -> u64;
}

impl Words for [u64] {
    fn word(&self, index: usize) -> u64 {
        self.get(index).copied().unwrap_or(0)
    }
}

/// Makes the policy of `words`, as [`Policy::words`] gave them, and returns what `tell` tells of
/// it. A name that is unknown means no regulation. Allocates nothing.
///
/// ```
/// use afflux_core::policy;
/// let words = policy::parse("fixed:4,gap=0.9ack").unwrap().words();
/// assert_eq!(policy::with(&words[..], |policy| policy.name()), "fixed:4,gap=0.9ack");
/// ```
#[inline]
pub fn with<W: Words + ?Sized, R>(words: &W, tell: impl FnOnce(&dyn Policy) -> R) -> R {
    let name = words.word(0);
    if name == NAME {
        return tell(&RulesIn(&words));
    }
    let entry = NAMES.iter().position(|known| *known == name).and_then(|at| POLICIES.get(at));
    let Some(entry) = entry else { return tell(&fixed::Unregulated) };
    let parameters: [u64; PARAMETERS] = std::array::from_fn(|index| words.word(index + 1));
    let (mut tell, mut told) = (Some(tell), None);
    (entry.read)(&parameters, &mut |policy| {
        told = tell.take().map(|tell| tell(policy));
    });
    match (told, tell) {
        (Some(told), _) => told,
        (None, Some(tell)) => tell(&fixed::Unregulated),
        (None, None) => unreachable!("whoever took the question answered it"),
    }
}

/// The names of [`POLICIES`] as words, made once by the compiler.
static NAMES: [u64; POLICIES.len()] = {
    let (mut names, mut at) = ([0; POLICIES.len()], 0);
    while at < names.len() {
        names[at] = name_word(POLICIES[at].name);
        at += 1;
    }
    names
};

impl<W: Words + ?Sized> Words for &W {
    fn word(&self, index: usize) -> u64 {
        (**self).word(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::class::Class;
    use crate::indicator::Signals;
    use crate::policy::by_rules::ByRules;
    use crate::policy::{Decision, Seen, parse};
    use crate::rules::{RuleFile, SHIPPED};
    use crate::units::{Span, Time};

    fn seen(signals: &Signals, window: f64) -> Seen<'_> {
        Seen {
            now: Time::from_nanos(77),
            signals,
            window,
            process_time: Span::from_micros(900),
            least_process_time: Span::from_micros(300),
            limited: true,
        }
    }

    /// Both say the same, reply after reply.
    fn agree(policy: &dyn Policy, states: &[(Signals, f64)]) {
        let words = policy.words();
        let (mut own, mut read) = ([0; 2], [0; 2]);
        for (signals, window) in states {
            let seen = seen(signals, *window);
            let said = with(&words[..], |policy| policy.on_reply(&mut read, &seen));
            assert_eq!((said, read), (policy.on_reply(&mut own, &seen), own));
        }
        with(&words[..], |other| {
            assert_eq!(other.start(), policy.start());
            assert_eq!(other.window_interval(), policy.window_interval());
            assert_eq!(other.words(), words);
        });
    }

    #[test]
    fn names_differ_as_words() {
        let mut names: Vec<u64> = POLICIES.iter().map(|entry| name_word(entry.name)).collect();
        names.push(NAME);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POLICIES.len() + 1);
        assert_eq!(with(&[7][..], |policy| policy.start()), Decision::KEEP);
    }

    proptest! {
        #[test]
        fn policies_read_back_decide_alike(
            states in prop::collection::vec((any::<Signals>(), 0.0..300.0), 1..40),
        ) {
            for text in ["none", "fixed:3.5,gap=7ms", "fixed:2,gap=0.8ack", "aimd:3", "gradient"] {
                agree(parse(text).unwrap().as_ref(), &states);
            }
            for (name, text) in SHIPPED {
                let file = RuleFile::checked(text).unwrap();
                for class in Class::ALL {
                    if let Some(set) = file.set(class) {
                        agree(&ByRules::new(name, set).unwrap(), &states);
                    }
                }
            }
        }

        /// Somebody scribbled: whatever is said, it is said without a panic and without delay.
        #[test]
        fn any_words_are_some_policy(
            mut words in prop::collection::vec(any::<u64>(), 0..60),
            small in prop::collection::vec(0_u64..40, 6),
            states in prop::collection::vec((any::<Signals>(), 0.0..300.0), 1..10),
        ) {
            for rules in [false, true] {
                if rules && words.len() > small.len() {
                    words[..small.len()].copy_from_slice(&small);
                    words[0] = NAME;
                }
                for (signals, window) in &states {
                    with(&words[..], |policy| {
                        policy.on_reply(&mut [0; 2], &seen(signals, *window));
                        policy.window_interval();
                    });
                }
            }
        }
    }
}
