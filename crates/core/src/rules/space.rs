//! Boxes in indicator space: cutting them into pieces and putting pieces together.

use super::{Region, UNBOUNDED};
use crate::indicator::{COUNT, INDICATORS, Signals};

/// Whether an integer point lies inside; a lower bound of [`UNBOUNDED`] leaves none.
pub(super) fn is_empty(region: &Region) -> bool {
    (0..COUNT).any(|axis| region.high[axis] <= region.low[axis])
}

/// Whether all of `inner` lies inside `outer`.
pub(super) fn covers(outer: &Region, inner: &Region) -> bool {
    (0..COUNT)
        .all(|axis| outer.low[axis] <= inner.low[axis] && inner.high[axis] <= outer.high[axis])
}

/// The parts of `region` below and from `at` on; `at` lies strictly inside.
pub(super) fn halves(region: &Region, axis: usize, at: u64) -> [Region; 2] {
    let (mut below, mut above) = (*region, *region);
    below.high[axis] = at;
    above.low[axis] = at;
    [below, above]
}

/// Disjoint boxes that make up `region` without `hole`.
pub(super) fn subtract(region: &Region, hole: &Region) -> Vec<Region> {
    let Some(shared) = region.intersection(hole) else {
        return vec![*region];
    };
    let mut rest = *region;
    let mut pieces = Vec::new();
    for axis in 0..COUNT {
        if rest.low[axis] < shared.low[axis] {
            let [below, above] = halves(&rest, axis, shared.low[axis]);
            pieces.push(below);
            rest = above;
        }
        if shared.high[axis] < rest.high[axis] {
            let [below, above] = halves(&rest, axis, shared.high[axis]);
            pieces.push(above);
            rest = below;
        }
    }
    pieces
}

/// The box that two boxes make up together, when they differ in one axis only and abut there.
pub(super) fn union(a: &Region, b: &Region) -> Option<Region> {
    let mut differing = (0..COUNT).filter(|&i| a.low[i] != b.low[i] || a.high[i] != b.high[i]);
    let axis = differing.next()?;
    if differing.next().is_some() {
        return None;
    }
    let mut joined = *a;
    if a.high[axis] == b.low[axis] {
        joined.high[axis] = b.high[axis];
    } else if b.high[axis] == a.low[axis] {
        joined.low[axis] = b.low[axis];
    } else {
        return None;
    }
    Some(joined)
}

/// Joins boxes to fewer, as long as two of them make up a box; the boxes are disjoint.
pub(super) fn join_all(boxes: &mut Vec<Region>) {
    let mut first = 0;
    while first < boxes.len() {
        let partner = (0..boxes.len())
            .filter(|&second| second != first)
            .find_map(|second| Some((second, union(&boxes[first], &boxes[second])?)));
        let Some((second, joined)) = partner else {
            first += 1;
            continue;
        };
        // A grown box may now fit one that was passed over, so the scan restarts at the front.
        boxes[first.min(second)] = joined;
        boxes.remove(first.max(second));
        first = 0;
    }
}

/// A state inside `region`: its lower corner, raised to what the indicators can take where that
/// still lies inside.
pub(super) fn example(region: &Region) -> Signals {
    std::array::from_fn(|axis| {
        let raised = region.low[axis].max(INDICATORS[axis].floor);
        let inside = raised < region.high[axis] || region.high[axis] == UNBOUNDED;
        if inside { raised } else { region.low[axis] }
    })
}

/// Where to cut a cell so that few of the boxes in it are cut and the rest fall evenly.
///
/// A cut that passes between boxes is always taken before one that goes through some: a space made
/// by repeated splitting is then taken apart along its own splits, with no box seen twice. Returns
/// none when no box has a bound strictly inside the cell.
pub(super) fn best_cut(cell: &Region, boxes: &[Region], members: &[u32]) -> Option<(usize, u64)> {
    let mut best: Option<((bool, usize), usize, u64)> = None;
    for axis in 0..COUNT {
        let inside = |at: &u64| cell.low[axis] < *at && *at < cell.high[axis];
        let mut lows: Vec<u64> = members.iter().map(|&m| boxes[m as usize].low[axis]).collect();
        let mut highs: Vec<u64> = members.iter().map(|&m| boxes[m as usize].high[axis]).collect();
        lows.sort_unstable();
        highs.sort_unstable();
        let mut candidates: Vec<u64> = lows.iter().chain(&highs).copied().filter(inside).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let (mut ended, mut begun) = (0, 0);
        for at in candidates {
            while ended < highs.len() && highs[ended] <= at {
                ended += 1;
            }
            while begun < lows.len() && lows[begun] < at {
                begun += 1;
            }
            let (below, above) = (begun, members.len() - ended);
            let crossing = below + above - members.len();
            let cost = (crossing > 0, below.max(above) + 3 * crossing);
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, axis, at));
            }
        }
    }
    best.map(|(_, axis, at)| (axis, at))
}

#[cfg(test)]
pub(super) mod testing {
    //! Random partitions, for the property tests of this module's neighbours.

    use super::*;
    use crate::rules::{Action, Gap, Hits, Rule, RuleSet};
    use crate::units::Span;
    use proptest::prelude::*;

    /// A bound such as people and searches write them, or any at all.
    fn bound() -> impl Strategy<Value = u64> {
        prop_oneof![
            (0_u64..100).prop_map(|ms| ms * 1_000_000),
            0_u64..10_000,
            Just(1),
            Just(u64::MAX - 1),
            any::<u64>()
        ]
    }

    /// Cuts the box that `pick` selects, at `at` if that lies inside.
    fn cut(boxes: &mut Vec<Region>, pick: usize, axis: usize, at: u64) {
        let index = pick % boxes.len();
        if boxes[index].low[axis] < at && at < boxes[index].high[axis] {
            let parts = halves(&boxes[index], axis, at);
            boxes.splice(index..=index, parts);
        }
    }

    /// A finite number of any size, or one such as people write.
    pub(crate) fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-300_i32..300).prop_map(|n| f64::from(n) / 100.0),
            any::<f64>().prop_filter("finite", |n| n.is_finite())
        ]
    }

    fn gap() -> impl Strategy<Value = Gap> {
        prop_oneof![
            Just(Gap::NONE),
            any::<u64>().prop_map(|n| Gap::Time(Span::from_nanos(n))),
            (0_u64..70_000).prop_map(|n| Gap::Time(Span::from_micros(n))),
            number().prop_map(|n| Gap::OfAck(n.abs()))
        ]
    }

    /// Any action that can be written down.
    pub(crate) fn action() -> impl Strategy<Value = Action> {
        (proptest::option::of(number()), number(), gap()).prop_map(|(multiply, add, gap)| Action {
            multiply,
            add,
            gap,
        })
    }

    fn hits() -> impl Strategy<Value = Hits> {
        prop_oneof![
            Just(Hits::default()),
            (any::<u64>(), any::<Signals>()).prop_map(|(count, means)| Hits { count, means })
        ]
    }

    /// A partition made by up to `cuts` random cuts, its rules in any order.
    pub(crate) fn partition(cuts: usize) -> impl Strategy<Value = RuleSet> {
        let cut_list = prop::collection::vec((any::<usize>(), 0..COUNT, bound()), 0..=cuts);
        let boxes = cut_list.prop_map(|list| {
            let mut boxes = vec![Region::ALL];
            list.into_iter().for_each(|(pick, axis, at)| cut(&mut boxes, pick, axis, at));
            boxes
        });
        let whole = (boxes.prop_shuffle(), 1_u32..1_000, 1.0_f64..1e9);
        whole.prop_flat_map(|(boxes, window_changes_per_s, window_max)| {
            prop::collection::vec((action(), hits()), boxes.len()).prop_map(move |parts| {
                let rule = |(&region, (action, hits))| Rule { region, action, hits };
                let rules = boxes.iter().zip(parts).map(rule).collect();
                RuleSet { rules, window_changes_per_s, window_max }
            })
        })
    }

    /// A partition that mostly no sequence of whole cuts can make: neighbours of a finer one joined
    /// wherever few random actions happen to agree.
    pub(crate) fn rejoined(cuts: usize) -> impl Strategy<Value = RuleSet> {
        let actions = prop::collection::vec(0_u8..3, cuts + 1);
        (partition(cuts), actions).prop_map(|(mut set, actions)| {
            for (rule, add) in set.rules.iter_mut().zip(actions) {
                rule.action = Action { add: f64::from(add), ..Action::NONE };
                rule.hits = Hits::default();
            }
            set.window_max = 256.0;
            crate::rules::simplify(&set).set
        })
    }

    /// States at and around the bounds of `set`, and the ends of the space.
    pub(crate) fn corners(set: &RuleSet) -> Vec<Signals> {
        let mut states = vec![[0; COUNT], [u64::MAX; COUNT]];
        for rule in &set.rules {
            let Region { low, high } = rule.region;
            states.push(low);
            states.push(high);
            states.push(high.map(|bound| bound.saturating_sub(1)));
            states.push(std::array::from_fn(|axis| if axis == 0 { high[0] } else { low[axis] }));
        }
        states
    }

    /// How many rules hold `state`; a partition has one for each.
    pub(crate) fn holders(set: &RuleSet, state: &Signals) -> usize {
        set.rules.iter().filter(|rule| rule.region.contains(state)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_box_less_a_hole_and_the_hole_make_up_the_box() {
        let hole = Region { low: [10 * MS, 0, 2_000], high: [20 * MS, 5 * MS, UNBOUNDED] };
        let mut pieces = subtract(&Region::ALL, &hole);
        assert_eq!(pieces.len(), 4);
        for (index, piece) in pieces.iter().enumerate() {
            assert!(piece.intersection(&hole).is_none());
            assert!(pieces[..index].iter().all(|other| other.intersection(piece).is_none()));
        }
        pieces.push(hole);
        join_all(&mut pieces);
        assert_eq!(pieces, [Region::ALL]);
    }

    #[test]
    fn boxes_that_touch_at_an_edge_do_not_join() {
        let [left, right] = halves(&Region::ALL, 0, 5);
        let [_, upper_right] = halves(&right, 1, 5);
        assert_eq!(union(&left, &right), Some(Region::ALL));
        assert_eq!(union(&left, &upper_right), None);
        assert_eq!(union(&left, &left), None);
    }

    #[test]
    fn an_example_is_a_state_that_indicators_can_take_if_there_is_one() {
        let low = Region { low: [3, 4, 0], high: [5, 6, 1_500] };
        assert_eq!(example(&low), [3, 4, 1_000]);
        let unreachable = Region { low: [3, 4, 0], high: [5, 6, 900] };
        assert_eq!(example(&unreachable), [3, 4, 0]);
    }
}
