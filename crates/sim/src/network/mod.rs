//! Links and switch ports.
//!
//! A message leaves its sender's link in `bytes / rate`, is at the switch after the latency, and
//! then takes `bytes / rate` of the port that leads to its receiver. It passes the switch as it
//! comes, so that its last byte is at the receiver when both the port is through with it and the
//! sender has sent it. Links and ports serve in order; a message without data passes those with, as
//! a packet of another connection would. Where a port's buffer has an end, or messages are to pass
//! in segments, [`Flows`] take the place of all this.

mod buffers;
mod flows;
mod sender;

pub(crate) use flows::Flows;

use afflux_core::units::{Span, Time};

use crate::scenario::Scenario;

/// A node on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Client(u32),
    Server(u32),
}

/// Links and ports of all nodes, where buffers have no bound and messages pass whole.
#[derive(Debug)]
pub(crate) struct Network {
    rates: [u64; 2],
    latency: Span,
    header_bytes: u64,
    /// When each link to the switch is free: clients, then servers.
    links: Vec<Time>,
    /// When each port from the switch is free.
    ports: Vec<Time>,
    clients: u32,
    /// How many times slower each server's link is than it should be.
    slower: Vec<f64>,
    /// Byte streams in segments, where that is asked for.
    pub(crate) flows: Option<Flows>,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        let (clients, servers) = (scenario.client_count(), scenario.servers.count);
        let nodes = clients as usize + servers as usize;
        let network = &scenario.network;
        Self {
            rates: [network.client_rate, network.server_rate],
            latency: network.latency.max(Span::from_nanos(1)),
            header_bytes: network.header,
            links: vec![Time::ZERO; nodes],
            ports: vec![Time::ZERO; nodes],
            clients,
            slower: vec![1.0; servers as usize],
            flows: (network.is_lossy() || network.segment.is_some())
                .then(|| Flows::new(network, clients, servers, seed)),
        }
    }

    /// Sends a message with `data_bytes` besides its header; it starts at `now` or later. Gives the
    /// time at which its last byte arrives.
    pub(crate) fn send(&mut self, now: Time, from: Node, to: Node, data_bytes: u64) -> Time {
        let bytes = self.header_bytes + data_bytes;
        let (sending, receiving) = (self.duration(from, bytes), self.duration(to, bytes));
        let (from, to) = (self.place(from), self.place(to));
        let (link, port) = (self.links[from], self.ports[to]);
        if data_bytes == 0 {
            // It takes its part of link and port, but waits for neither.
            (self.links[from], self.ports[to]) = (link + sending, port + receiving);
            return now + sending + self.latency + receiving;
        }
        let start = now.max(link);
        let first = start + self.latency;
        self.links[from] = start + sending;
        self.ports[to] = port.max(first) + receiving;
        self.ports[to].max(first + sending)
    }

    /// Sends one segment behind what the link of a node has to send; gives the time at which it has
    /// left.
    fn occupy_link(&mut self, now: Time, node: Node, bytes: u64) -> Time {
        let sending = self.duration(node, bytes);
        let place = self.place(node);
        self.links[place] = self.links[place].max(now) + sending;
        self.links[place]
    }

    /// Takes one segment into the port that leads to a node; gives the time at which it has passed,
    /// or nothing when there was no room for it beside those that wait.
    fn occupy_port(&mut self, now: Time, node: Node, bytes: u64, room: u64) -> Option<Time> {
        let passing = self.duration(node, bytes);
        let rate = self.rate(node);
        let place = self.place(node);
        let port = &mut self.ports[place];
        let waiting = u128::from(port.since(now).as_nanos()) * u128::from(rate) / 1_000_000_000;
        if waiting + u128::from(bytes) > u128::from(room) {
            return None;
        }
        *port = (*port).max(now) + passing;
        Some(*port)
    }

    /// Makes a server's link `factor` times slower.
    pub(crate) fn slow(&mut self, server: u32, factor: f64) {
        self.slower[server as usize] = factor;
    }

    /// From one node to another, besides the time that bytes take.
    pub(crate) const fn latency(&self) -> Span {
        self.latency
    }

    fn duration(&self, node: Node, bytes: u64) -> Span {
        Span::from_nanos(bytes * 1_000_000_000 / self.rate(node))
    }

    fn rate(&self, node: Node) -> u64 {
        match node {
            Node::Client(_) => self.rates[0],
            Node::Server(server) => {
                let slower = self.slower[server as usize];
                if slower == 1.0 {
                    self.rates[1]
                } else {
                    ((self.rates[1] as f64 / slower) as u64).max(1)
                }
            }
        }
    }

    fn place(&self, node: Node) -> usize {
        match node {
            Node::Client(client) => client as usize,
            Node::Server(server) => (self.clients + server) as usize,
        }
    }
}
