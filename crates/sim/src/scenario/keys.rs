//! The schema: every key with what it takes, its default and its meaning, in one place.

use super::value::{self as read, Value};
use super::{
    Application, Clients, Fault, FaultKind, Figure, Free, LockScope, Locks, Metadata, Model,
    Network, Placing, Policy, Recovery, RunPlan, Servers,
};

/// A key of a table that fills a `T`.
pub struct Key<T> {
    /// Its name.
    pub name: &'static str,
    /// What stands there.
    pub takes: &'static str,
    /// What holds when it is left out.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Puts a value in its place, or says what is wrong with it.
    pub(super) set: fn(&mut T, &Value) -> Result<(), String>,
}

/// Most of anything that is counted.
const MANY: u32 = 100_000_000;

macro_rules! keys {
    ($name:ident, $type:ty, $about:literal,
     $($key:literal, $takes:literal, $default:literal, $meaning:literal,
       $($field:ident).+ = $read:expr;)*) => {
        #[doc = $about]
        pub static $name: &[Key<$type>] = &[$(Key {
            name: $key,
            takes: $takes,
            default: $default,
            about: $meaning,
            set: |to, value| {
                let read: fn(&Value) -> Result<_, String> = $read;
                to.$($field).+ = read(value)?;
                Ok(())
            },
        }),*];
    };
}

keys! { NETWORK, Network, "Keys of `[network]`.",
    "client_rate", "a rate, as in 1Gbit/s or 125MB/s", "1Gbit/s",
        "a client's link, each way",
        client_rate = read::rate;
    "server_rate", "a rate", "1Gbit/s",
        "a server's link, each way",
        server_rate = read::rate;
    "latency", "a time, as in 50us", "50us",
        "from node to node, besides the time that the bytes take",
        latency = read::span;
    "buffer", "a size, or unlimited", "unlimited",
        "what a port of the switch holds; what finds no room is lost",
        buffer = |value| read::bytes_or(value, "unlimited");
    "shared_buffer", "a size, or none", "none",
        "memory that all ports of the switch share, besides the limit of each",
        shared_buffer = |value| read::bytes_or(value, "none");
    "alpha", "a number above zero", "1",
        "a port may hold that many times what is free of `shared_buffer`",
        alpha = read::factor;
    "segment", "a size, or message", "message",
        "bytes that pass in one piece; 1500B where buffers are limited",
        segment = |value| read::bytes_or(value, "message");
    "rto", "a time", "200ms",
        "after which, besides the round trip, a sender repeats what was lost unnoticed; doubles \
         each time",
        rto = read::span;
    "recovery", "sack, rack or rack-tlp", "sack",
        "how losses are noticed before that: three segments arrive that were sent later (Linux \
         until 2013), any does, or besides the last is sent again when none comes back (Linux now)",
        recovery = |value| read::word(value, RECOVERIES);
    "initial_window", "a whole number from 1", "10",
        "segments that a sender sends before it hears anything; 3 in Linux before 2.6.39",
        initial_window = |value| read::count(value, 1, MANY);
    "header", "a size", "256B",
        "a request or a reply without its data",
        header = read::bytes;
}

/// Words for [`Recovery`].
pub(super) const RECOVERIES: &[(&str, Recovery)] =
    &[("sack", Recovery::Sack), ("rack", Recovery::Rack), ("rack-tlp", Recovery::RackTlp)];

keys! { SERVERS, Servers, "Keys of `[servers]`.",
    "count", "a whole number from 1", "4",
        "storage servers",
        count = |value| read::count(value, 1, MANY);
    "threads", "a whole number from 1", "128",
        "service threads of each",
        threads = |value| read::count(value, 1, MANY);
    "device", "a device, as in hdd:elevator=fifo,depth=1, ssd or mem", "hdd",
        "the model behind each spindle",
        device = read::parsed;
    "spindles", "a whole number from 1 to 1000", "1",
        "devices of each server, over which objects are striped",
        spindles = |value| read::count(value, 1, 1_000);
    "chunk", "a size", "1MiB",
        "bytes in a row on one spindle",
        chunk = read::some_bytes;
    "placement", "apart, arrival, even or interleaved", "apart",
        "where objects lie: as the lab has it, in chunks by order of arrival, evenly by formula, \
         or in turns as if they had been written at the same time",
        placement = |value| read::word(value, PLACINGS);
    "turn", "a size, or usual", "usual",
        "what an interleaved object, or one placed by arrival, has in a row: about what a file system \
         sets apart at a time; usual is 4MiB, and 4MB by arrival",
        turn = |value| read::bytes_or(value, "usual");
    "region", "a size, or all", "all",
        "bytes of each device in which objects lie, from its first block, where a disk is fastest; \
         for interleaved ones all is what they need without holes",
        region = |value| read::bytes_or(value, "all");
    "bulk", "true or false", "false",
        "a thread fetches the data of a write once it has started on the request (Lustre)",
        bulk = read::flag;
    "overhead", "a time", "20us",
        "a thread's own work on a request, on average",
        overhead = read::span;
    "memory", "a size, or unlimited", "unlimited",
        "data that a server holds at once; threads wait for room",
        memory = |value| read::bytes_or(value, "unlimited");
    "cache", "a size", "0B",
        "what each keeps in memory of what was read and written; reads of it need no device",
        cache = read::bytes;
    "write_back", "a size", "0B",
        "of writes, what each answers before it is on its devices; 0B writes through",
        write_back = read::bytes;
}

/// Words for [`Placing`].
pub(super) const PLACINGS: &[(&str, Placing)] = &[
    ("apart", Placing::Apart),
    ("arrival", Placing::Arrival),
    ("even", Placing::Even),
    ("interleaved", Placing::Interleaved),
];

keys! { CLIENTS, Clients, "Keys of `[clients]`.",
    "count", "a whole number from 1, or workload", "workload",
        "clients of each application",
        count = |value| read::count_or(value, "workload", 1, MANY);
    "threads", "a whole number from 1, or workload", "workload",
        "threads of each stream",
        threads = |value| read::count_or(value, "workload", 1, MANY);
    "join", "true or false", "false",
        "units of an operation that follow each other in an object go in one request (Lustre)",
        join = read::flag;
    "in_flight", "a whole number from 1, or unlimited", "unlimited",
        "requests in flight on a path, whatever its policy says",
        in_flight = |value| read::count_or(value, "unlimited", 1, MANY);
    "fan_in", "a whole number from 1, or unlimited", "unlimited",
        "requests in flight over all paths of a client",
        fan_in = |value| read::count_or(value, "unlimited", 1, MANY);
    "dirty", "a size", "0B",
        "bytes written that a path holds before its application waits; 0B writes straight",
        dirty = read::bytes;
    "read_ahead", "a size", "0B",
        "bytes of sequential reads asked for ahead of the application; 0B for none",
        read_ahead = read::bytes;
    "cache", "a size", "0B",
        "what a client keeps in memory of its own files; reads of it ask no server",
        cache = read::bytes;
    "timeout", "a time, or never", "never",
        "after which a request is sent again",
        timeout = |value| read::span_or(value, "never");
    "retries", "a whole number", "8",
        "how often a request is sent again before it fails",
        retries = |value| read::count(value, 0, 250);
    "stagger", "a time", "10ms",
        "clients start at random within it, since lockstep makes false gains",
        stagger = read::span;
}

keys! { METADATA, Metadata, "Keys of `[metadata]`.",
    "threads", "a whole number from 1", "16",
        "threads of the server of names",
        threads = |value| read::count(value, 1, MANY);
    "service", "a time", "100us",
        "its work on one request",
        service = read::span;
}

keys! { LOCKS, Locks, "Keys of `[locks]`; they concern files that clients share.",
    "scope", "none, file or object", "none",
        "what one lock covers",
        scope = |value| read::word(value, SCOPES);
    "shared_reads", "true or false", "false",
        "readers share a lock",
        shared_reads = read::flag;
    "handover", "a time", "1ms",
        "to hand a lock from one client to another",
        handover = read::span;
    "batch", "a whole number from 1, or unlimited", "1",
        "operations before a client hands a lock on that others want",
        batch = |value| read::count_or(value, "unlimited", 1, MANY);
}

/// Words for [`LockScope`].
pub(super) const SCOPES: &[(&str, LockScope)] =
    &[("none", LockScope::None), ("file", LockScope::File), ("object", LockScope::Object)];

keys! { RUN, RunPlan, "Keys of `[run]`.",
    "settle", "a time", "5s",
        "time at the start that is not counted",
        settle = read::span;
    "length", "a time from 1s", "20s",
        "counted time, in whole seconds",
        length = read::span;
    "series", "a time, or none", "none",
        "step of the time series",
        series = |value| read::span_or(value, "none");
    "merge", "a whole number from 1, or auto", "auto",
        "clients whose measurements become one; auto keeps up to 4096 apart, and makes 256 of more",
        merge = |value| read::count_or(value, "auto", 1, MANY);
}

keys! { POLICY, Policy, "Keys of `[policy]`.",
    "setting", "a setting, as in fixed:4+fan-in=8", "none",
        "traffic control",
        setting = read::text;
}

keys! { APPLICATION, Application, "Keys of `[[application]]`, besides `workload`.",
    "name", "a text", "",
        "a name for reports; the workload's if left out",
        name = read::text;
    "clients", "a whole number from 1", "",
        "its clients, instead of the workload's number",
        workload.clients = |value| read::count(value, 1, MANY);
    "start", "a time", "0ms",
        "when it starts",
        start = read::span;
    "bytes", "a size, or unlimited", "unlimited",
        "after which each of its clients ends",
        bytes = |value| read::bytes_or(value, "unlimited");
    "first_server", "a whole number", "0",
        "the first of the servers that its files may use",
        first_server = |value| read::count(value, 0, MANY);
    "servers", "a whole number from 1, or all", "all",
        "how many servers its files may use",
        servers = |value| read::count_or(value, "all", 1, MANY);
}

keys! { FAULT, Fault, "Keys of `[[fault]]`.",
    "at", "a time", "0ms",
        "when it happens, from the start of the run",
        at = read::span;
    "what", "stall, die, slow-link, slow-disk, client-die, names-stall or names-die", "stall",
        "what goes wrong: with storage servers; with clients; with the server of names",
        what = |value| read::word(value, FAULTS);
    "which", "the number of a server or client from 0, or all", "all",
        "where",
        which = |value| read::count_or(value, "all", 0, MANY);
    "for", "a time, or ever", "1s",
        "how long; what died comes back after it",
        lasts = |value| read::span_or(value, "ever");
    "factor", "a number above zero", "2",
        "how many times slower",
        factor = read::factor;
}

/// Words for [`FaultKind`].
pub(super) const FAULTS: &[(&str, FaultKind)] = &[
    ("stall", FaultKind::Stall),
    ("die", FaultKind::Die),
    ("slow-link", FaultKind::SlowLink),
    ("slow-disk", FaultKind::SlowDisk),
    ("client-die", FaultKind::ClientDie),
    ("names-stall", FaultKind::NamesStall),
    ("names-die", FaultKind::NamesDie),
];

keys! { FREE, Free, "Keys of `[[free]]`: parameters that no source gives.",
    "key", "section and key, as in servers.device", "",
        "what was fitted",
        key = read::text;
    "values", "a list of texts", "",
        "the grid: what was tried",
        values = read::list;
}

keys! { MODEL, Model, "Keys of `[[model]]`; the first is in force.",
    "name", "a text", "",
        "a short name, for model=NAME",
        name = read::text;
    "about", "a text", "",
        "what it assumes",
        about = read::text;
    "set", "a list of overrides", "",
        "one value for each free parameter",
        set = read::list;
}

keys! { FIGURE, Figure, "Keys of `[[fit]]` and `[[published]]`.",
    "name", "a text", "",
        "what the figure is",
        name = read::text;
    "metric", "a name, as in total_mb_s", "",
        "what it is compared with",
        metric = read::text;
    "set", "a list of overrides", "",
        "under which the scenario is run for it",
        set = read::list;
    "against", "a list of overrides", "",
        "under which it is run, after those of `set`, for what the figure is divided by",
        against = read::list;
    "value", "a number", "0",
        "the figure",
        value = read::number;
    "unit", "a text", "",
        "its unit",
        unit = read::text;
    "source", "a text", "",
        "paper, and table or section",
        source = read::text;
    "misses", "a text", "",
        "why the simulator is more than a tenth away, under any model",
        misses = read::text;
}
