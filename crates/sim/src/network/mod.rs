//! Links and switch ports.
//!
//! A message leaves its sender's link in `bytes / rate`, is at the switch after the latency, and
//! then takes `bytes / rate` of the port that leads to its receiver. It passes the switch as it
//! comes, so that its last byte is at the receiver when both the port is through with it and the
//! sender has sent it. Links and ports serve in order; a message without data passes those with, as
//! a packet of another connection would.

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
}

impl Network {
    pub(crate) fn new(scenario: &Scenario) -> Self {
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
        }
    }

    /// Sends a message with `data_bytes` besides its header; it starts at `now` or later. Gives the
    /// time at which its last byte arrives.
    pub(crate) fn send(&mut self, now: Time, from: Node, to: Node, data_bytes: u64) -> Time {
        let bytes = self.header_bytes + data_bytes;
        let (sending, receiving) = (self.duration(from, bytes), self.duration(to, bytes));
        let (from, to) = (self.place(from), self.place(to));
        let start = if data_bytes == 0 { now } else { now.max(self.links[from]) };
        self.links[from] = self.links[from].max(now) + sending;
        let first = start + self.latency;
        let sent = first + sending;
        let port = self.ports[to].max(first) + receiving;
        self.ports[to] = port;
        if data_bytes == 0 { first + sending.max(receiving) } else { port.max(sent) }
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
        match node {
            Node::Client(_) => Span::from_nanos(bytes * 1_000_000_000 / self.rates[0]),
            Node::Server(server) => {
                let span = Span::from_nanos(bytes * 1_000_000_000 / self.rates[1]);
                let slower = self.slower[server as usize];
                if slower == 1.0 { span } else { span.mul_f64(slower) }
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
