//! Advice on timeouts: after how long a client may give up without doing harm.
//!
//! Source: the credits paper, equations (5) and (6): with credits that vary by one, the latency
//! varies by `ΔL = C / IOPS`, which is the part `P = ΔL / L_max` of the bound; a timeout is
//! `λ * L_max + L_net` with `λ >= 1 + P`.

use super::rate::BusyRate;
use crate::units::Span;

/// The paper's λ of section IV.
pub const LAMBDA: f64 = 1.5;
/// The paper's `L_net`.
pub const NETWORK: Span = Span::from_secs(5);

/// What a client should wait for, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// `ΔL`: how far latencies go beyond the bound when credits vary by one.
    pub deviation: Span,
    /// `P`: the same as a part of the bound.
    pub part: f64,
    /// λ: what was asked for, or `1 + P` where that is more.
    pub lambda: f64,
    /// `T_timeout`.
    pub timeout: Span,
}

/// The timeout of the clients of a server of `rate` with `active` clients under `latency_max`,
/// where `lambda` is wanted and the network adds at most `network`. `None` before there is a rate.
///
/// ```
/// use afflux_core::credits::{rate::BusyRate, timeout::advise};
/// use afflux_core::units::Span;
/// let mut rate = BusyRate::new(Span::from_secs(5));
/// rate.busy(Span::from_millis(10));
/// rate.done();
/// // 100 requests a second, 1,024 clients, a bound of 60 s: the paper's case.
/// let advice = advise(&rate, 1_024, Span::from_secs(60), 1.5, Span::from_secs(5)).unwrap();
/// assert_eq!(advice.deviation, Span::from_millis(10_240));
/// assert_eq!(advice.timeout, Span::from_secs(95));
/// // With half the bound, the paper's λ is not enough for it.
/// let advice = advise(&rate, 1_024, Span::from_secs(15), 1.5, Span::from_secs(5)).unwrap();
/// assert!((advice.lambda - 1.682_666).abs() < 1e-6);
/// assert_eq!(advice.timeout, Span::from_millis(30_240));
/// ```
pub fn advise(
    rate: &BusyRate,
    active: u32,
    latency_max: Span,
    lambda: f64,
    network: Span,
) -> Option<Advice> {
    let deviation = rate.time_for(u64::from(active))?;
    let part = deviation.as_nanos() as f64 / latency_max.as_nanos().max(1) as f64;
    let lambda = if lambda >= 1.0 + part { lambda } else { 1.0 + part };
    let waited = latency_max.mul_f64(lambda).as_nanos().saturating_add(network.as_nanos());
    Some(Advice { deviation, part, lambda, timeout: Span::from_nanos(waited) })
}
