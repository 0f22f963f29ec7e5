//! Shares: how a server's credits are divided between tenants.
//!
//! Not from the paper, which divides them evenly between clients. A tenant's part of the queue is
//! its weight by the weights of those tenants that have active clients, so that whoever is alone
//! gets all: shares limit nothing but contention. A cap does limit, contention or not.
//!
//! Weights divide what may be at the server and, by [`FairQueue`](super::queue::FairQueue), the
//! turns at its threads. Behind those a disk that sorts serves whom it likes, so that a server
//! should have fewer threads than requests that it lets in.

use super::CreditsError;

/// Weights and caps of tenants. Tenants are numbered from 1; all others are one more, of weight 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Weights of tenants 1, 2, ...; empty where there are no shares.
    pub weights: Vec<u32>,
    /// Most bytes a second of tenants 1, 2, ...
    pub caps: Vec<Option<u64>>,
}

/// Least and most bytes a second of a cap: a request a second, and more than any server does.
const CAPS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 50;

impl Shares {
    /// Reads `3:1` and `50MB/s:none`; `none` alone means that there are none.
    pub(super) fn parse(weights: &str, caps: &str) -> Result<Self, CreditsError> {
        let list = |text: &str| match text {
            "none" => Vec::new(),
            _ => text.split(':').map(str::to_owned).collect(),
        };
        let weights = list(weights).iter().map(|text| weight(text)).collect::<Result<_, _>>()?;
        let caps = list(caps).iter().map(|text| cap(text)).collect::<Result<_, _>>()?;
        Ok(Self { weights, caps })
    }

    /// Groups that the ledger tells apart: tenants 1, 2, ... and, first, all others.
    pub fn groups(&self) -> usize {
        self.weights.len().max(self.caps.len()) + 1
    }

    /// The group of a tenant.
    pub fn group(&self, tenant: u32) -> usize {
        let tenant = tenant as usize;
        if tenant < self.groups() { tenant } else { 0 }
    }

    /// The weight of a group.
    pub fn weight(&self, group: usize) -> u32 {
        let at = group.checked_sub(1);
        at.and_then(|at| self.weights.get(at)).copied().unwrap_or(1)
    }

    /// Most bytes a second of a group.
    pub fn cap(&self, group: usize) -> Option<u64> {
        let at = group.checked_sub(1)?;
        self.caps.get(at).copied().flatten()
    }

    /// Whether nothing is divided or capped.
    pub fn is_empty(&self) -> bool {
        self.groups() == 1
    }
}

fn weight(text: &str) -> Result<u32, CreditsError> {
    match text.parse::<u32>() {
        Ok(weight @ 1..=10_000) => Ok(weight),
        _ => Err(CreditsError::contradiction(
            format!("the weight `{text}` is no whole number from 1 to 10000"),
            "a tenant of weight zero would never be served: leave it out for weight 1, or cap it",
        )),
    }
}

fn cap(text: &str) -> Result<Option<u64>, CreditsError> {
    if text == "none" {
        return Ok(None);
    }
    match crate::units::parse_bytes(text.strip_suffix("/s").unwrap_or(text)) {
        Ok(bytes) if CAPS.contains(&bytes) => Ok(Some(bytes)),
        _ => Err(CreditsError::contradiction(
            format!("the cap `{text}` is no rate from 1KiB/s"),
            "write one such as 50MB/s, or none for a tenant without a cap",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_are_not_named_are_one_group() {
        let shares = Shares::parse("3:1", "none:none:50MB/s").unwrap();
        assert_eq!(shares.groups(), 4);
        assert_eq!([0, 1, 2, 3, 4, 99].map(|tenant| shares.group(tenant)), [0, 1, 2, 3, 0, 0]);
        assert_eq!([0, 1, 2, 3].map(|group| shares.weight(group)), [1, 3, 1, 1]);
        assert_eq!((shares.cap(1), shares.cap(3)), (None, Some(50_000_000)));
        assert!(Shares::parse("none", "none").unwrap().is_empty());
    }

    #[test]
    fn weights_and_caps_of_zero_are_refused() {
        assert!(Shares::parse("3:0", "none").unwrap_err().to_string().contains("leave it out"));
        assert!(Shares::parse("3:x", "none").is_err());
        let error = Shares::parse("none", "0MB/s").unwrap_err().to_string();
        assert!(error.contains("50MB/s"), "{error}");
    }
}
