//! Flows: byte streams through ports whose buffers have an end.
//!
//! One flow leads from a node to another, as one TCP connection does. Its bytes go in segments; as
//! many are under way as its congestion window allows. A segment that finds a port's buffer full is
//! lost. Three segments that arrive after a gap make the sender repeat what is missing and halve
//! its window; when too little arrives for that, only the retransmission time-out notices, and the
//! sender begins again with one segment. That is NewReno (RFC 6582) with the usual initial window
//! of ten segments and a time-out that doubles; acknowledgements return at once and are not lost.
//!
//! Many senders that answer at once into a shallow buffer lose whole windows, wait for 200 ms, and
//! collapse together: Incast.

use std::collections::VecDeque;

use afflux_core::units::{Span, Time};

use super::Node;
use crate::events::Event;
use crate::request::Slab;
use crate::world::World;

/// Segments of the first window, and the most bytes of any.
const INITIAL_SEGMENTS: u64 = 10;
const MOST_BYTES: u64 = 4 << 20;

/// Segments behind a gap that tell the sender of a loss.
const DUPLICATES: u32 = 3;

/// The longest time-out.
const LONGEST: Span = Span::from_secs(60);

/// All flows, and the segments that are under way.
#[derive(Debug)]
pub(crate) struct Flows {
    segment_bytes: u64,
    buffer_bytes: u64,
    rto: Span,
    servers: u32,
    each: Vec<Flow>,
    segments: Slab<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    flow: u32,
    start: u64,
    bytes: u64,
}

/// One direction between a client and a server. Positions count bytes from the flow's beginning.
#[derive(Clone, Debug)]
struct Flow {
    /// Ends of the messages that did not arrive yet, and what their arrival is.
    messages: VecDeque<(u64, Event)>,
    /// End of the last message.
    written: u64,
    /// The next byte to send.
    next: u64,
    /// What has arrived without a gap; acknowledged as it arrives.
    received: u64,
    /// Stretches that have arrived beyond a gap, in order and apart.
    beyond: Vec<(u64, u64)>,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// Until this is acknowledged, losses belong to the same congestion.
    recover: Option<u64>,
    rto: Span,
    /// When the time-out is due, and for when an event was put in.
    deadline: Time,
    alarm: Time,
    last_activity: Time,
}

impl Flows {
    pub(super) fn new(
        segment_bytes: u64,
        buffer_bytes: u64,
        rto: Span,
        clients: u32,
        servers: u32,
    ) -> Self {
        let flow = Flow {
            messages: VecDeque::new(),
            written: 0,
            next: 0,
            received: 0,
            beyond: Vec::new(),
            window: INITIAL_SEGMENTS * segment_bytes,
            threshold: MOST_BYTES,
            duplicates: 0,
            recover: None,
            rto,
            deadline: Time::NEVER,
            alarm: Time::NEVER,
            last_activity: Time::ZERO,
        };
        let count = clients as usize * servers as usize * 2;
        let each = vec![flow; count];
        Self { segment_bytes, buffer_bytes, rto, servers, each, segments: Slab::default() }
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
    const fn outstanding(&self) -> u64 {
        self.next.saturating_sub(self.received)
    }

    /// Takes a stretch that has arrived; gives the bytes that are now without a gap.
    fn arrive(&mut self, start: u64, end: u64) -> u64 {
        let before = self.received;
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
        self.received - before
    }

    /// The congestion window after `fresh` bytes were acknowledged: it grows only if it was used
    /// (RFC 7661).
    fn grow(&mut self, fresh: u64, segment: u64) {
        if self.outstanding() + fresh + segment <= self.window {
            return;
        }
        let more = if self.window < self.threshold {
            fresh
        } else {
            (segment * segment / self.window).max(1)
        };
        self.window = (self.window + more).min(MOST_BYTES);
    }

    /// Half of what is under way, but at least two segments.
    fn halve(&mut self, segment: u64) {
        self.threshold = (self.outstanding() / 2).max(2 * segment);
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
        let (initial, rto) = (INITIAL_SEGMENTS * flows.segment_bytes, flows.rto);
        let flow = &mut flows.each[index as usize];
        if flow.written == flow.received && now.since(flow.last_activity) > rto {
            // What the window was tells little after a pause (RFC 5681, section 4.1).
            flow.window = flow.window.min(initial);
        }
        flow.written += self.network.header_bytes + data_bytes;
        flow.messages.push_back((flow.written, event));
        self.pour(now, index);
    }

    /// Sends segments of a flow as its window allows.
    fn pour(&mut self, now: Time, index: u32) {
        loop {
            let Some(flows) = &self.network.flows else { return };
            let flow = &flows.each[index as usize];
            let bytes = (flow.written - flow.next).min(flows.segment_bytes);
            let fits = flow.outstanding() + bytes <= flow.window || flow.outstanding() == 0;
            if bytes == 0 || !fits {
                return;
            }
            let start = flow.next;
            self.launch(now, index, start, bytes);
            if let Some(flows) = &mut self.network.flows {
                flows.each[index as usize].next = start + bytes;
            }
        }
    }

    /// Puts one segment on its sender's link.
    fn launch(&mut self, now: Time, index: u32, start: u64, bytes: u64) {
        let Some(flows) = &mut self.network.flows else { return };
        let (from, _) = flows.ends(index);
        let segment = flows.segments.insert(Segment { flow: index, start, bytes });
        let flow = &mut flows.each[index as usize];
        flow.last_activity = now;
        if flow.deadline == Time::NEVER {
            flow.deadline = now + flow.rto;
        }
        if flow.alarm == Time::NEVER {
            flow.alarm = flow.deadline;
            self.events.push(flow.alarm, Event::Retransmit(index));
        }
        let sent = self.network.occupy_link(now, from, bytes);
        self.events.push(sent + self.network.latency(), Event::Segment(segment));
    }

    /// A segment comes to the port that leads to its receiver: it goes on, or is lost.
    pub(crate) fn segment_at_port(&mut self, now: Time, segment: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let Segment { flow, bytes, .. } = flows.segments[segment];
        let (_, to) = flows.ends(flow);
        let room = flows.buffer_bytes;
        match self.network.occupy_port(now, to, bytes, room) {
            Some(arrives) => self.events.push(arrives, Event::SegmentArrives(segment)),
            None => {
                self.totals.dropped += 1;
                if let Some(flows) = &mut self.network.flows {
                    flows.segments.remove(segment);
                }
            }
        }
    }

    /// A segment arrives, and its acknowledgement with it.
    pub(crate) fn segment_arrives(&mut self, now: Time, segment: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let Segment { flow: index, start, bytes } = flows.segments[segment];
        flows.segments.remove(segment);
        let (size, rto) = (flows.segment_bytes, flows.rto);
        let flow = &mut flows.each[index as usize];
        flow.last_activity = now;
        let fresh = flow.arrive(start, start + bytes);
        while let Some((_, event)) = flow.messages.pop_front_if(|(end, _)| *end <= flow.received) {
            self.events.push(now, event);
        }
        let mut repeat = None;
        if fresh > 0 {
            flow.next = flow.next.max(flow.received);
            flow.rto = rto;
            flow.deadline = if flow.outstanding() > 0 { now + flow.rto } else { Time::NEVER };
            flow.duplicates = 0;
            match flow.recover {
                Some(recover) if flow.received >= recover => {
                    flow.recover = None;
                    flow.window = flow.threshold;
                }
                // One more of the same window is missing.
                Some(_) => {
                    flow.window = flow.window.saturating_sub(fresh).max(size) + size;
                    repeat = Some(flow.received);
                }
                None => flow.grow(fresh, size),
            }
        } else if flow.outstanding() > 0 {
            flow.duplicates += 1;
            if flow.recover.is_some() {
                flow.window = (flow.window + size).min(MOST_BYTES);
            } else if flow.duplicates == DUPLICATES {
                flow.halve(size);
                flow.window = flow.threshold + u64::from(DUPLICATES) * size;
                flow.recover = Some(flow.next);
                repeat = Some(flow.received);
            }
        }
        if let Some(start) = repeat {
            let bytes = (flow.written - start).min(size);
            self.launch(now, index, start, bytes);
        }
        self.pour(now, index);
    }

    /// The time-out of a flow may be due.
    pub(crate) fn retransmit(&mut self, now: Time, index: u32) {
        let Some(flows) = &mut self.network.flows else { return };
        let size = flows.segment_bytes;
        let flow = &mut flows.each[index as usize];
        flow.alarm = Time::NEVER;
        if flow.deadline > now {
            if flow.deadline < Time::NEVER {
                flow.alarm = flow.deadline;
                self.events.push(flow.alarm, Event::Retransmit(index));
            }
            return;
        }
        self.totals.rto += 1;
        flow.halve(size);
        (flow.window, flow.duplicates, flow.recover) = (size, 0, None);
        flow.next = flow.received;
        flow.rto = (flow.rto + flow.rto).min(LONGEST);
        flow.deadline = Time::NEVER;
        self.pour(now, index);
    }
}
