//! The servers behind pools: which OSDs keep one, and what they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use afflux_librados::{Cluster, Failed};
use serde_json::{Value, json};

use crate::engine::ServerStatistics;
use crate::sync::lock;

/// The OSDs of some pools, and the longest queues that were seen at them.
#[derive(Debug, Default)]
pub(super) struct Osds {
    longest: Mutex<BTreeMap<String, u64>>,
}

impl Osds {
    /// What the OSDs of `pools` counted, summed for each pool. They count what all clients ask of
    /// them, for this pool and for others.
    pub(super) fn statistics(
        &self,
        cluster: &Cluster,
        pools: &[(&str, i64)],
    ) -> Result<Vec<ServerStatistics>, Failed> {
        let map = cluster.ask_monitors(&json!({"prefix": "osd dump", "format": "json"}))?;
        let crush = cluster.ask_monitors(&json!({"prefix": "osd crush dump", "format": "json"}))?;
        pools
            .iter()
            .map(|(name, id)| {
                let mut sum = ServerStatistics {
                    server: (*name).to_owned(),
                    stored_bytes: None,
                    ..ServerStatistics::default()
                };
                for osd in osds_of(&map, &crush, *id) {
                    add(&mut sum, &cluster.ask_osd(osd, &json!({"prefix": "perf dump"}))?);
                }
                let mut longest = lock(&self.longest);
                let most = longest.entry(sum.server.clone()).or_default();
                *most = sum.queue_depth.max(*most);
                sum.queue_depth_max = *most;
                Ok(sum)
            })
            .collect()
    }
}

fn add(sum: &mut ServerStatistics, counters: &Value) {
    let osd = &counters["osd"];
    let count = |name: &str| osd[name].as_u64().unwrap_or_default();
    let seconds = |name: &str| osd[name]["sum"].as_f64().unwrap_or_default();
    sum.requests += count("op");
    sum.read_bytes += count("op_out_bytes");
    sum.written_bytes += count("op_in_bytes");
    let there = &counters["throttle-osd_client_messages"]["val"];
    // The throttle counts this very question too.
    sum.queue_depth += there.as_u64().unwrap_or_default().saturating_sub(1);
    sum.waited_secs += seconds("op_before_dequeue_op_lat");
    sum.answered_secs += seconds("op_latency");
}

/// The OSDs that a pool's placement rule may choose, by the dumps of the maps.
fn osds_of(map: &Value, crush: &Value, pool: i64) -> BTreeSet<i32> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let with = |all: &Value, key: &str, id: i64| {
        list(all).into_iter().find(|one| one[key].as_i64() == Some(id)).unwrap_or_default()
    };
    let rule = with(&map["pools"], "pool", pool)["crush_rule"].as_i64().unwrap_or(-1);
    let steps = list(&with(&crush["rules"], "rule_id", rule)["steps"]);
    let takes = steps.iter().filter(|step| step["op"] == "take");
    let mut open: Vec<i64> = takes.filter_map(|step| step["item"].as_i64()).collect();
    let mut osds = BTreeSet::new();
    let mut seen = BTreeSet::new();
    while let Some(item) = open.pop() {
        // Buckets have negative numbers; a map with a ring in it must not be walked for ever.
        if !seen.insert(item) {
            continue;
        }
        if let Ok(osd @ 0..) = i32::try_from(item) {
            osds.insert(osd);
        }
        let bucket = with(&crush["buckets"], "id", item);
        open.extend(list(&bucket["items"]).iter().filter_map(|item| item["id"].as_i64()));
    }
    osds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_osds_of_a_pool_are_those_below_what_its_rule_takes() {
        let map = json!({"pools": [{"pool": 3, "crush_rule": 1}, {"pool": 4, "crush_rule": 0}]});
        let crush = json!({
            "rules": [
                {"rule_id": 0, "steps": [{"op": "take", "item": -1}, {"op": "emit"}]},
                {"rule_id": 1, "steps": [{"op": "take", "item": -3}, {"op": "emit"}]},
            ],
            "buckets": [
                {"id": -1, "items": [{"id": -2}, {"id": -3}, {"id": -1}]},
                {"id": -2, "items": [{"id": 0}, {"id": 1}]},
                {"id": -3, "items": [{"id": 2}]},
            ],
        });
        assert_eq!(osds_of(&map, &crush, 3), BTreeSet::from([2]));
        assert_eq!(osds_of(&map, &crush, 4), BTreeSet::from([0, 1, 2]));
        assert_eq!(osds_of(&map, &crush, 5), BTreeSet::new());
    }

    #[test]
    fn counters_are_summed() {
        let counters = json!({
            "osd": {"op": 3, "op_in_bytes": 5000, "op_out_bytes": 70,
                    "op_latency": {"avgcount": 3, "sum": 1.5},
                    "op_before_dequeue_op_lat": {"sum": 0.25}},
            "throttle-osd_client_messages": {"val": 4},
        });
        let mut sum = ServerStatistics::default();
        add(&mut sum, &counters);
        add(&mut sum, &counters);
        assert_eq!((sum.requests, sum.written_bytes, sum.read_bytes), (6, 10_000, 140));
        assert_eq!((sum.queue_depth, sum.waited_secs, sum.answered_secs), (6, 0.5, 3.0));
    }
}
