//! The lab's protocol, version 2: frames of a fixed header and a payload.
//!
//! All numbers are little endian. A header has [`HEADER_BYTES`] = 72 bytes:
//!
//! | at | bytes | field | in a request | in a reply |
//! |---|---|---|---|---|
//! | 0 | 4 | magic | `AFXL` | `AFXL` |
//! | 4 | 2 | version | 2 | 2 |
//! | 6 | 1 | kind | see [`Kind`] | the request's kind |
//! | 7 | 1 | status | 0 | see [`Status`] |
//! | 8 | 2 | flags | bit 0 clear | bit 0 set |
//! | 10 | 2 | credit | 0 | requests the client may have in flight; 0 says nothing |
//! | 12 | 2 | credit wanted | requests it would like in flight | 0 |
//! | 14 | 2 | reserved | 0 | 0 |
//! | 16 | 8 | request id | unique for the client, ever | the request's |
//! | 24 | 4 | job | job or tenant | the request's |
//! | 28 | 4 | payload length | at most [`MAX_PAYLOAD_BYTES`] | the same |
//! | 32 | 8 | deadline | nanoseconds left when it was sent; 0 is none | 0 |
//! | 40 | 8 | first argument | file number | device access time, ns |
//! | 48 | 8 | second argument | offset in the object, bytes | time queued, ns |
//! | 56 | 4 | third argument | stripe | 0 |
//! | 60 | 4 | fourth argument | bytes to read | 0 |
//! | 64 | 4 | payload CRC32C | of the payload; 0 when it is empty | the same |
//! | 68 | 4 | header CRC32C | of bytes 0 to 67 | the same |
//!
//! The first six bytes keep their meaning in every version, so that two versions can tell each
//! other apart; version 1 knew no renames. Payloads: the data of a write or of a read's answer as
//! it is; JSON for everything else ([`Hello`], [`Welcome`], catalog operations and records, server
//! reports); the text of an error.
//!
//! The first request on a connection is a hello; nothing else is answered before it. A frame that
//! cannot be read ends the connection: after it there is no telling where the next one starts.

use serde::{Deserialize, Serialize};

/// What every frame starts with.
pub const MAGIC: [u8; 4] = *b"AFXL";
/// The protocol spoken here.
pub const VERSION: u16 = 2;
/// Length of every header.
pub const HEADER_BYTES: usize = 72;
/// The most bytes that one request may read or write.
pub const MAX_DATA_BYTES: u32 = 16 << 20;
/// The longest payload: data, or a listing.
pub const MAX_PAYLOAD_BYTES: u32 = MAX_DATA_BYTES + (64 << 10);
/// The longest payload that is not data of a write or the answer to a read or a listing.
pub const MAX_CONTROL_BYTES: u32 = 64 << 10;

const REPLY_FLAG: u16 = 1;

/// What a frame asks, or answers to.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who is there; the first frame of a connection.
    Hello = 1,
    /// Bytes of an object.
    Read = 2,
    /// Bytes for an object.
    Write = 3,
    /// An object goes.
    Remove = 4,
    /// An operation of the catalog.
    Catalog = 5,
    /// What the server counted.
    Statistics = 6,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Hello, Self::Read, Self::Write, Self::Remove, Self::Catalog, Self::Statistics];
}

/// How a request ended.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Done = 0,
    /// The server is full.
    NoSpace = 1,
    /// No such file; the payload is its name.
    NotFound = 2,
    /// The name is taken; the payload is the name.
    Exists = 3,
    /// The request is wrong; the payload says why.
    Invalid = 4,
    /// The device failed; the payload says how.
    Io = 5,
    /// The deadline had passed before it was begun; it was not done.
    Expired = 6,
    /// Not our protocol, version, lab or server; the payload says what was expected.
    Refused = 7,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::NoSpace,
        Self::NotFound,
        Self::Exists,
        Self::Invalid,
        Self::Io,
        Self::Expired,
        Self::Refused,
    ];
}

/// The header of a frame, decoded. The fields are those of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table in the module's documentation describes them")]
pub struct Header {
    pub kind: Kind,
    pub status: Status,
    pub reply: bool,
    pub credit: u16,
    pub credit_wanted: u16,
    pub id: u64,
    pub job: u32,
    pub payload_bytes: u32,
    pub deadline_ns: u64,
    pub first: u64,
    pub second: u64,
    pub third: u32,
    pub fourth: u32,
    pub payload_crc: u32,
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// More bytes are needed.
    #[error("the frame ends after {have} of {need} bytes")]
    Truncated {
        /// Bytes there.
        have: usize,
        /// Bytes that the frame has, as far as is known.
        need: usize,
    },
    /// Something else is talking.
    #[error("it starts with {0:02x?}, not with `AFXL`: is this port another program's?")]
    Magic([u8; 4]),
    /// Another version of the protocol.
    #[error(
        "it speaks version {0} of the protocol, this is version {VERSION}: use the same afflux"
    )]
    Version(u16),
    /// The header was damaged.
    #[error("the header's checksum is {found:#010x}, its bytes give {computed:#010x}")]
    HeaderChecksum {
        /// The one sent along.
        found: u32,
        /// The one computed.
        computed: u32,
    },
    /// The payload was damaged.
    #[error("the payload's checksum is {found:#010x}, its bytes give {computed:#010x}")]
    PayloadChecksum {
        /// The one sent along.
        found: u32,
        /// The one computed.
        computed: u32,
    },
    /// A kind that this version does not have.
    #[error("there is no request of kind {0}")]
    Kind(u8),
    /// A status that this version does not have.
    #[error("there is no status {0}")]
    Status(u8),
    /// A payload that is longer than its kind may have.
    #[error("a payload of {bytes} bytes is announced, at most {most} are allowed")]
    TooLong {
        /// Announced.
        bytes: u32,
        /// Allowed.
        most: u32,
    },
    /// A request where a reply belongs, the reverse, or a second hello.
    #[error("{0}")]
    OutOfPlace(&'static str),
}

impl Header {
    /// A request without arguments and payload.
    pub const fn request(kind: Kind, id: u64) -> Self {
        Self {
            kind,
            status: Status::Done,
            reply: false,
            credit: 0,
            credit_wanted: 0,
            id,
            job: 0,
            payload_bytes: 0,
            deadline_ns: 0,
            first: 0,
            second: 0,
            third: 0,
            fourth: 0,
            payload_crc: 0,
        }
    }

    /// The reply to `self`, without payload.
    pub const fn answer(&self, status: Status) -> Self {
        Self { status, reply: true, job: self.job, ..Self::request(self.kind, self.id) }
    }

    /// The bytes of this header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let flags = if self.reply { REPLY_FLAG } else { 0 };
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.status as u8;
        bytes[8..10].copy_from_slice(&flags.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.credit.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.credit_wanted.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.job.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.deadline_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.second.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.third.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.fourth.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crate::crc::crc32c(&bytes[..68]);
        bytes[68..72].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of `bytes`. Total: any bytes give a header or an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let truncated = FrameError::Truncated { have: bytes.len(), need: HEADER_BYTES };
        // A stranger is recognized by the first bytes, even if it sends fewer than a header has.
        if let Some(magic) = bytes.first_chunk::<4>()
            && *magic != MAGIC
        {
            return Err(FrameError::Magic(*magic));
        }
        if bytes.len() >= 6 && u16_at(bytes, 4) != VERSION {
            return Err(FrameError::Version(u16_at(bytes, 4)));
        }
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(truncated) };
        let (found, computed) = (u32_at(bytes, 68), crate::crc::crc32c(&bytes[..68]));
        if found != computed {
            return Err(FrameError::HeaderChecksum { found, computed });
        }
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u8 == bytes[6]);
        let status = Status::ALL.into_iter().find(|&status| status as u8 == bytes[7]);
        let header = Self {
            kind: kind.ok_or(FrameError::Kind(bytes[6]))?,
            status: status.ok_or(FrameError::Status(bytes[7]))?,
            reply: u16_at(bytes, 8) & REPLY_FLAG != 0,
            credit: u16_at(bytes, 10),
            credit_wanted: u16_at(bytes, 12),
            id: u64_at(bytes, 16),
            job: u32_at(bytes, 24),
            payload_bytes: u32_at(bytes, 28),
            deadline_ns: u64_at(bytes, 32),
            first: u64_at(bytes, 40),
            second: u64_at(bytes, 48),
            third: u32_at(bytes, 56),
            fourth: u32_at(bytes, 60),
            payload_crc: u32_at(bytes, 64),
        };
        let most = header.most_payload_bytes();
        if header.payload_bytes > most {
            return Err(FrameError::TooLong { bytes: header.payload_bytes, most });
        }
        Ok(header)
    }

    /// The longest payload that a frame of this kind and direction may have.
    pub const fn most_payload_bytes(&self) -> u32 {
        match (self.kind, self.reply) {
            (Kind::Write, false) | (Kind::Read, true) => MAX_DATA_BYTES,
            (Kind::Catalog, true) => MAX_PAYLOAD_BYTES,
            _ => MAX_CONTROL_BYTES,
        }
    }

    /// Compares a payload with the checksum in the header.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), FrameError> {
        self.compare_crc(crate::crc::crc32c(payload))
    }

    /// Compares the CRC32C of a payload with the one in the header; that of no bytes is zero.
    pub fn compare_crc(&self, computed: u32) -> Result<(), FrameError> {
        if computed == self.payload_crc {
            return Ok(());
        }
        Err(FrameError::PayloadChecksum { found: self.payload_crc, computed })
    }
}

/// Reads one whole frame from the start of `bytes`: header, payload, and how many bytes it took.
/// Total: any bytes give a frame or an error, and [`FrameError::Truncated`] says how many are
/// missing.
///
/// ```
/// use afflux_store::lab::wire::{Header, Kind, decode_frame, encode_frame};
/// let bytes = encode_frame(Header::request(Kind::Remove, 7), b"");
/// let (header, payload, taken) = decode_frame(&bytes).unwrap();
/// assert_eq!((header.id, payload.len(), taken), (7, 0, bytes.len()));
/// assert!(decode_frame(&bytes[..20]).is_err());
/// ```
pub fn decode_frame(bytes: &[u8]) -> Result<(Header, &[u8], usize), FrameError> {
    let header = Header::decode(bytes)?;
    let need = HEADER_BYTES + header.payload_bytes as usize;
    let Some(payload) = bytes.get(HEADER_BYTES..need) else {
        return Err(FrameError::Truncated { have: bytes.len(), need });
    };
    header.check_payload(payload)?;
    Ok((header, payload, need))
}

/// A whole frame in one piece, for small payloads; length and checksum are filled in.
pub fn encode_frame(mut header: Header, payload: &[u8]) -> Vec<u8> {
    header.payload_bytes = payload.len() as u32;
    header.payload_crc = crate::crc::crc32c(payload);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes
}

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The client's number, drawn at random; a second connection under the same number takes the
    /// place of the first.
    pub client: u64,
    /// The lab that it means; `None` takes any.
    pub lab: Option<String>,
    /// The server that it means, as in `storage 2`; `None` takes any.
    pub server: Option<String>,
}

/// What a server says to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The lab it belongs to.
    pub lab: String,
    /// Which server it is.
    pub server: String,
    /// Drawn anew at each start, so that a client sees a restart.
    pub incarnation: u64,
}

// The callers have checked the length, and a missing byte reads as zero all the same.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(chunk(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(chunk(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(chunk(bytes, at))
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers() -> impl Strategy<Value = Header> {
        let kinds = (0..Kind::ALL.len(), 0..Status::ALL.len(), any::<bool>());
        let numbers = (any::<[u64; 4]>(), any::<[u32; 4]>(), any::<[u16; 2]>());
        (kinds, numbers).prop_map(|((kind, status, reply), (long, middle, short))| Header {
            status: Status::ALL[status],
            reply,
            credit: short[0],
            credit_wanted: short[1],
            job: middle[0],
            deadline_ns: long[1],
            first: long[2],
            second: long[3],
            third: middle[1],
            fourth: middle[2],
            payload_crc: middle[3],
            ..Header::request(Kind::ALL[kind], long[0])
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(
            header in headers(), payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = encode_frame(header, &payload);
            let (decoded, data, taken) = decode_frame(&bytes).unwrap();
            prop_assert_eq!((data, taken), (&payload[..], bytes.len()));
            let crc = decoded.payload_crc;
            let length = decoded.payload_bytes;
            prop_assert_eq!(decoded, Header { payload_crc: crc, payload_bytes: length, ..header });
        }

        #[test]
        fn any_bytes_give_a_frame_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), ours in any::<bool>(),
        ) {
            let mut bytes = bytes;
            // Half of the cases get past the magic and the version.
            if ours && bytes.len() >= 6 {
                bytes[..6].copy_from_slice(b"AFXL\x02\x00");
            }
            prop_assert!(decode_frame(&bytes).is_err());
        }

        #[test]
        fn truncated_frames_say_how_much_is_missing(
            header in headers(), payload in proptest::collection::vec(any::<u8>(), 0..300),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = encode_frame(header, &payload);
            let have = cut.index(bytes.len());
            match decode_frame(&bytes[..have]) {
                Err(FrameError::Truncated { have: told, need }) => {
                    prop_assert_eq!(told, have);
                    prop_assert!(need > have && need <= bytes.len());
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn one_flipped_bit_is_noticed(
            header in headers(), payload in proptest::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(), bit in 0..8,
        ) {
            let mut bytes = encode_frame(header, &payload);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert!(decode_frame(&bytes).is_err());
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_anything_is_allocated() {
        let huge = Header { payload_bytes: u32::MAX, ..Header::request(Kind::Write, 1) };
        let error = Header::decode(&huge.encode()).unwrap_err();
        assert_eq!(error, FrameError::TooLong { bytes: u32::MAX, most: MAX_DATA_BYTES });
    }

    #[test]
    fn other_versions_and_other_programs_are_told_apart() {
        let mut bytes = Header::request(Kind::Hello, 1).encode();
        bytes[4] = 1;
        assert_eq!(Header::decode(&bytes), Err(FrameError::Version(1)));
        assert_eq!(Header::decode(b"GET / HTTP/1.1\r\n"), Err(FrameError::Magic(*b"GET ")));
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = Header {
            credit: 0x0102,
            credit_wanted: 0x0304,
            job: 5,
            deadline_ns: 6,
            first: 7,
            second: 8,
            third: 9,
            fourth: 10,
            ..Header::request(Kind::Write, 11)
        };
        let bytes = encode_frame(header, b"abc");
        assert_eq!(&bytes[..8], b"AFXL\x02\x00\x03\x00");
        assert_eq!(bytes[10..14], [2, 1, 4, 3]);
        let at = |at: usize| u32_at(&bytes, at);
        assert_eq!([at(16), at(24), at(28), at(32), at(40), at(48)], [11, 5, 3, 6, 7, 8]);
        assert_eq!([at(56), at(60), at(64)], [9, 10, crate::crc::crc32c(b"abc")]);
        assert_eq!(&bytes[72..], b"abc");
    }
}
