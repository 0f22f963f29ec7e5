//! Flows: byte streams through ports whose buffers have an end.
//!
//! One flow leads from a node to another, as one TCP connection does. Its bytes go in segments; as
//! many are under way as its [`Sender`] allows. A segment that finds a port's buffer full is lost.
//! Each that arrives is acknowledged, after the latency of the way back; acknowledgements take no
//! place on links and are not lost.
//!
//! A segment comes to the switch up to the time of its own passage later than its link alone would
//! have it. Without that, drops fall on the same flow for ever: the phase effects of Floyd and
//! Jacobson ("On traffic phase effects in packet-switched gateways", 1991), with their remedy.
//!
//! Many senders that answer at once into a shallow buffer lose whole windows, wait for their
//! time-outs, and collapse together: Incast.

use std::collections::VecDeque;

use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};

use super::Node;
use super::buffers::Buffers;
use super::sender::{Rules, Segment, Sender};
use crate::events::Event;
use crate::request::Slab;
use crate::scenario::Network as Keys;
use crate::world::World;

/// All flows, and the segments that are under way.
#[derive(Debug)]
pub(crate) struct Flows {
    rules: Rules,
    buffers: Buffers,
    servers: u32,
    each: Vec<Flow>,
    segments: Slab<(u32, Segment)>,
    chance: Rng,
}

/// One direction between a client and a server. Positions count bytes from the flow's beginning.
#[derive(Clone, Debug)]
struct Flow {
    /// Ends of the messages that did not arrive yet, and what their arrival is.
    messages: VecDeque<(u64, Event)>,
    sender: Sender,
    /// When the latest of its segments comes to the switch: they stay in order.
    at_switch: Time,
    /// What has arrived without a gap.
    received: u64,
    /// Stretches that have arrived beyond a gap, in order and apart.
    beyond: Vec<(u64, u64)>,
    /// The next event that was put in for the sender's timer.
    alarm: Time,
}

impl Flows {
    pub(super) fn new(network: &Keys, clients: u32, servers: u32, seed: u64) -> Self {
        let rules = Rules::new(network);
        let flow = Flow {
            messages: VecDeque::new(),
            sender: Sender::new(&rules),
            at_switch: Time::ZERO,
            received: 0,
            beyond: Vec::new(),
            alarm: Time::NEVER,
        };
        let count = clients as usize * servers as usize * 2;
        let each = vec![flow; count];
        let buffers = Buffers::new(network);
        let chance = Rng::new(seed).fork("wires");
        Self { rules, buffers, servers, each, segments: Slab::default(), chance }
    }

    fn index(&self, from: Node, to: Node) -> u32 {
        match (from, to) {
            (Node::Client(client), Node::Server(server)) => (client * self.servers + server) * 2,
            (Node::Server(server), Node::Client(client)) => {
                (client * self.servers + server) * 2 + 1
            }
            _ => 0,
        }
    }

    fn ends(&self, flow: u32) -> (Node, Node) {
        let pair = flow / 2;
        let (client, server) =
            (Node::Client(pair / self.servers), Node::Server(pair % self.servers));
        if flow.is_multiple_of(2) { (client, server) } else { (server, client) }
    }
}

impl Flow {
    /// Takes a stretch that has arrived.
    fn arrive(&mut self, start: u64, end: u64) {
        if start > self.received {
            let at = self.beyond.partition_point(|(other, _)| *other < start);
            self.beyond.insert(at, (start, end));
        } else {
            self.received = self.received.max(end);
        }
        while let Some(&(start, end)) = self.beyond.first()
            && start <= self.received
        {
            self.received = self.received.max(end);
            self.beyond.remove(0);
        }
    }
}

impl World {
    /// Sends a message with `data_bytes` besides its header; `event` happens when its last byte has
    /// arrived.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        from: Node,
        to: Node,
        data_bytes: u64,
        event: Event,
    ) {
        let Some(flows) = &mut self.network.flows else {
            let arrives = self.network.send(now, from, to, data_bytes);
            self.events.push(arrives, event);
            return;
        };
        let index = flows.index(from, to);
        let flow = &mut flows.each[index as usize];
        let end = flow.sender.write(now, self.network.header_bytes + data_bytes, &flows.rules);
        flow.messages.push_back((end, event));
        self.pour(now, index);
    }

    /// Sends what a flow may send, and has its timer looked at when it is due.
    fn pour(&mut self, now: Time, index: u32) {
        while let Some(flows) = &mut self.network.flows {
            let flow = &mut flows.each[index as usize];
            let Some(segment) = flow.sender.pour(now, &flows.rules) else {
                if flow.sender.due < flow.alarm {
                    flow.alarm = flow.sender.due;
                    self.events.push(flow.alarm, Event::Retransmit(index));
                }
                return;
            };
            self.launch(now, index, segment);
        }
    }

    /// Puts one segment on its sender's link.
    fn launch(&mut self, now: Time, index: u32, segment: Segment) {
        let Some(flows) = &mut self.network.flows else { return };
        let (from, to) = flows.ends(index);
        let place = flows.segments.insert((index, segment));
        let sent = self.network.occupy_link(now, from, segment.bytes);
        let comes = sent + self.network.latency();
        let passage = self.network.duration(to, segment.bytes);
        let Some(flows) = &mut self.network.flows else { return };
        let late = Span::from_nanos(flows.chance.below(passage.as_nanos().max(1)));
        let flow = &mut flows.each[index as usize];
        flow.at_switch = flow.at_switch.max(comes + late);
        self.events.push(flow.at_switch, Event::Segment(place));
    }

    /// A segment comes to the port that leads to its receiver: it goes on, or is lost.
    pub(crate) fn segment_at_port(&mut self, now: Time, place: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let (flow, Segment { bytes, .. }) = flows.segments[place];
        let (_, to) = flows.ends(flow);
        let room = flows.buffers.room(bytes);
        let passes = self.network.occupy_port(now, to, bytes, room);
        let Some(flows) = &mut self.network.flows else { return };
        if let Some(passed) = passes {
            flows.buffers.take(bytes);
            self.events.push(passed, Event::SegmentArrives(place));
        } else {
            self.totals.dropped += 1;
            flows.segments.remove(place);
        }
    }

    /// A segment arrives; its acknowledgement goes back.
    pub(crate) fn segment_arrives(&mut self, now: Time, place: u32) {
        let latency = self.network.latency();
        let Some(flows) = &mut self.network.flows else { return };
        let (index, Segment { start, bytes, .. }) = flows.segments[place];
        flows.buffers.give_back(bytes);
        let flow = &mut flows.each[index as usize];
        flow.arrive(start, start + bytes);
        while let Some((_, event)) = flow.messages.pop_front_if(|(end, _)| *end <= flow.received) {
            self.events.push(now, event);
        }
        self.events.push(now + latency, Event::Acknowledged(place));
    }

    /// An acknowledgement arrives.
    pub(crate) fn acknowledged(&mut self, now: Time, place: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let (index, segment) = flows.segments[place];
        flows.segments.remove(place);
        flows.each[index as usize].sender.acknowledged(now, segment, &flows.rules);
        self.pour(now, index);
    }

    /// The timer of a flow may be due.
    pub(crate) fn retransmit(&mut self, now: Time, index: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let flow = &mut flows.each[index as usize];
        if flow.alarm <= now {
            flow.alarm = Time::NEVER;
        }
        if flow.sender.due <= now {
            match flow.sender.expire(now, &flows.rules) {
                Some(probe) => self.launch(now, index, probe),
                None => self.totals.rto += 1,
            }
        }
        self.pour(now, index);
    }
}
