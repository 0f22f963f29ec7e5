//! The lookup that runs on every reply: from a state to its rule by a walk down a flat tree.

use super::lint::{self, LintError, Severity};
use super::space::{best_cut, covers, halves};
use super::{Region, RuleSet};
use crate::indicator::Signals;

/// A rule set made ready for lookups; immutable, so that threads and processes can share it.
///
/// ```
/// use afflux_core::rules::{Compiled, RuleFile};
/// use afflux_core::class::Class;
///
/// let text = "afflux rules 1
///     for all:
///       pt_ratio < 2 -> window + 1
///       pt_ratio >= 2 -> window * 0.5";
/// let file = RuleFile::checked(text).unwrap();
/// let compiled = Compiled::new(file.set(Class::Read).unwrap()).unwrap();
/// assert_eq!(compiled.lookup(&[0, 0, 1_999]), 0);
/// assert_eq!(compiled.lookup(&[0, 0, 2_000]), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    root: Link,
    nodes: Vec<Node>,
}

/// One comparison; sixteen bytes, so that four share a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// Signals from here on take the second link.
    at: u64,
    links: [Link; 2],
}

/// Either a rule, or a node together with the axis that the node compares.
///
/// The axis rides on the link since the node then needs no more than sixteen bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link(u32);

impl Link {
    const LEAF: u32 = 1 << 31;
    const AXIS_SHIFT: u32 = 28;
    const INDEX: u32 = (1 << Self::AXIS_SHIFT) - 1;

    fn rule(index: usize) -> Self {
        Self(Self::LEAF | index as u32)
    }

    fn node(index: usize, axis: usize) -> Self {
        Self((axis as u32) << Self::AXIS_SHIFT | index as u32)
    }

    const fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }

    const fn index(self) -> usize {
        (self.0 & Self::INDEX) as usize
    }

    const fn axis(self) -> usize {
        ((self.0 & !Self::LEAF) >> Self::AXIS_SHIFT) as usize
    }
}

// The axis has three bits of its link.
const _: () = assert!(crate::indicator::COUNT <= 8);

/// The most cells that a space is taken apart into, which is the most that a link can number.
const CELLS_MAX: usize = Link::INDEX as usize;

impl Compiled {
    /// Prepares `set` for lookups.
    ///
    /// # Errors
    /// The findings that are errors: a set that is no partition has no answer for some states.
    pub fn new(set: &RuleSet) -> Result<Self, LintError> {
        let mut findings = lint::set(set);
        findings.retain(|finding| finding.severity == Severity::Error);
        if !findings.is_empty() {
            return Err(LintError { findings });
        }
        let regions: Vec<Region> = set.rules.iter().map(|rule| rule.region).collect();
        let built = take_apart(&regions, CELLS_MAX);
        if !built.gaps.is_empty() || built.unfinished {
            return Err(LintError { findings: vec![lint::too_large(set.rules.len())] });
        }
        Ok(Self { root: built.root, nodes: built.nodes })
    }

    /// The index of the rule whose region holds `signals`.
    #[inline]
    pub fn lookup(&self, signals: &Signals) -> usize {
        let mut link = self.root;
        while !link.is_leaf() {
            let node = &self.nodes[link.index()];
            link = node.links[usize::from(signals[link.axis()] >= node.at)];
        }
        link.index()
    }

    /// The link to the root, and the nodes as two words each, for [`walk`].
    pub(crate) fn words(&self) -> (u64, impl Iterator<Item = u64>) {
        let links = |[less, rest]: [Link; 2]| u64::from(less.0) | u64::from(rest.0) << 32;
        let nodes = self.nodes.iter().flat_map(move |node| [node.at, links(node.links)]);
        (u64::from(self.root.0), nodes)
    }

    /// How many comparisons the tree holds; a lookup makes a few of them.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The most comparisons that a lookup can take.
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self.root, 0)];
        while let Some((link, depth)) = open.pop() {
            if link.is_leaf() {
                deepest = deepest.max(depth);
            } else {
                open.extend(self.nodes[link.index()].links.map(|link| (link, depth + 1)));
            }
        }
        deepest
    }
}

/// The lookup in the words of [`Compiled::words`], which `word` reads by their index. Whatever they
/// are, it ends and never leaves the `nodes` nodes; the rule that it names may then be any.
#[inline]
pub(crate) fn walk(
    root: u64,
    nodes: usize,
    word: impl Fn(usize) -> u64,
    signals: &Signals,
) -> usize {
    let mut link = Link(root as u32);
    for _ in 0..=nodes {
        if link.is_leaf() || link.index() >= nodes {
            break;
        }
        let [at, links] = [word(2 * link.index()), word(2 * link.index() + 1)];
        let signal = signals.get(link.axis()).copied().unwrap_or(0);
        link = Link(if signal >= at { (links >> 32) as u32 } else { links as u32 });
    }
    link.index()
}

/// A space taken apart: the tree, and the cells that no box covers.
pub(super) struct Apart {
    root: Link,
    nodes: Vec<Node>,
    /// Cells that no box covers.
    pub(super) gaps: Vec<Region>,
    /// Whether the limit on cells was reached before the whole space was seen.
    pub(super) unfinished: bool,
}

/// A cell still to be taken apart, with the boxes that reach into it.
struct Open {
    cell: Region,
    members: Vec<u32>,
    parent: Option<(usize, usize)>,
}

/// Cuts the space into cells until each lies in one box or in none.
///
/// Empty boxes must not be among `boxes`. A cell goes to the first box, in order, that covers it.
pub(super) fn take_apart(boxes: &[Region], cells_max: usize) -> Apart {
    let mut apart =
        Apart { root: Link::rule(0), nodes: Vec::new(), gaps: Vec::new(), unfinished: false };
    let members = (0..boxes.len() as u32).collect();
    let mut work = vec![Open { cell: Region::ALL, members, parent: None }];
    while let Some(Open { cell, members, parent }) = work.pop() {
        let covering = members.iter().find(|&&m| covers(&boxes[m as usize], &cell));
        let link = if let Some(&member) = covering {
            Link::rule(member as usize)
        } else if let Some((axis, at)) = best_cut(&cell, boxes, &members) {
            if apart.nodes.len() >= cells_max {
                apart.unfinished = true;
                return apart;
            }
            let index = apart.nodes.len();
            apart.nodes.push(Node { at, links: [Link::rule(0); 2] });
            for (side, cell) in halves(&cell, axis, at).into_iter().enumerate() {
                let reaches = |m: &u32| boxes[*m as usize].intersection(&cell).is_some();
                let members = members.iter().copied().filter(reaches).collect();
                work.push(Open { cell, members, parent: Some((index, side)) });
            }
            Link::node(index, axis)
        } else {
            apart.gaps.push(cell);
            Link::rule(0)
        };
        match parent {
            None => apart.root = link,
            Some((index, side)) => apart.nodes[index].links[side] = link,
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::super::space::testing::{corners, partition, rejoined};
    use super::*;
    use crate::rules::{Action, split};
    use proptest::prelude::*;

    fn linear(set: &RuleSet, state: &Signals) -> Option<usize> {
        set.rules.iter().position(|rule| rule.region.contains(state))
    }

    fn valid(mut set: RuleSet) -> RuleSet {
        set.window_max = 256.0;
        set.rules.iter_mut().for_each(|rule| rule.action = Action::NONE);
        set
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_the_scan(
            set in partition(40).prop_map(valid),
            points in prop::collection::vec(any::<Signals>(), 32),
        ) {
            let compiled = Compiled::new(&set).unwrap();
            for state in points.into_iter().chain(corners(&set)) {
                prop_assert_eq!(Some(compiled.lookup(&state)), linear(&set, &state));
            }
            // Each cut that made the partition is one comparison: nothing is cut twice.
            prop_assert_eq!(compiled.node_count(), set.rules.len() - 1);
        }
    }

    proptest! {
        #[test]
        fn boxes_that_had_to_be_cut_are_found_as_well(
            set in rejoined(60),
            points in prop::collection::vec(any::<Signals>(), 32),
        ) {
            let compiled = Compiled::new(&set).unwrap();
            for state in points.into_iter().chain(corners(&set)) {
                prop_assert_eq!(Some(compiled.lookup(&state)), linear(&set, &state));
            }
            prop_assert!(compiled.node_count() < 3 * set.rules.len(), "{}", compiled.node_count());
        }
    }

    #[test]
    fn a_split_set_stays_shallow() {
        let mut set = RuleSet::uniform(Action::NONE);
        for index in [0, 3, 9, 20] {
            set.rules[index].hits.means = [40_000_000 + index as u64, 39_000_000, 3_000];
            set = split(&set, index).unwrap();
        }
        assert_eq!(set.rules.len(), 29);
        let compiled = Compiled::new(&set).unwrap();
        assert_eq!(compiled.node_count(), 28);
        assert!(compiled.depth() <= 12, "{}", compiled.depth());
    }

    #[test]
    fn a_pinwheel_has_no_clean_cut_and_still_compiles() {
        // Four boxes around a fifth: every straight cut goes through one of them.
        let ms = 1_000_000;
        let boxes = [([0, 0], [2, 1]), ([2, 0], [3, 2]), ([1, 2], [3, 3]), ([0, 1], [1, 3])];
        let mut set = RuleSet::uniform(Action::NONE);
        let whole = set.rules.remove(0);
        for (low, high) in boxes.into_iter().chain([([1, 1], [2, 2])]) {
            let mut rule = whole;
            for axis in 0..2 {
                rule.region.low[axis] = low[axis] * ms;
                rule.region.high[axis] = if high[axis] == 3 { u64::MAX } else { high[axis] * ms };
            }
            set.rules.push(rule);
        }
        let compiled = Compiled::new(&set).unwrap();
        for state in corners(&set) {
            assert_eq!(Some(compiled.lookup(&state)), linear(&set, &state));
        }
        assert!(compiled.node_count() <= 6, "{}", compiled.node_count());
    }

    #[test]
    fn a_node_takes_sixteen_bytes() {
        assert_eq!(size_of::<Node>(), 16);
    }
}
