//! Frames on a TCP stream, without copying their payloads.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use bytes::Bytes;

use super::wire::{FrameError, HEADER_BYTES, Header};
use crate::crc::Running;
use crate::objects::memory::Run;

const ZEROS: &[u8] = &[0; 64 << 10];
// Large enough for a frame of 1 MiB and the one before it, so that neither side waits for the other
// to be scheduled; the kernel caps it at net.core.{w,r}mem_max.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

// A small part of a second-level cache, yet large enough for the system calls not to matter.
const READ_BYTES: usize = 128 << 10;

/// What follows a header.
#[derive(Clone, Debug, Default)]
pub(crate) enum Payload {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes, with their CRC32C when it is known.
    One(Bytes, Option<u32>),
    /// Several runs, one behind the other.
    Runs(Vec<Run>),
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The other side closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
}

/// Sets a socket up for the lab.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    // A system that gives less is slower and nothing else.
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    Ok(())
}

impl Payload {
    /// Text, or JSON.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Empty } else { Self::One(text.into(), None) }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(bytes, _) => bytes.len(),
            Self::Runs(runs) => runs.iter().map(Run::len).sum(),
        }
    }

    /// CRC32C; zero when it is empty.
    fn crc(&self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::One(bytes, crc) => crc.unwrap_or_else(|| crate::crc::crc32c(bytes)),
            Self::Runs(runs) => match &runs[..] {
                [Run::Data(_, Some(crc))] => *crc,
                runs => {
                    let mut crc = Running::new();
                    runs.iter().flat_map(Run::pieces).for_each(|piece| crc.update(piece));
                    crc.finish()
                }
            },
        }
    }
}

impl Run {
    /// Length in bytes.
    fn len(&self) -> usize {
        match self {
            Self::Data(bytes, _) => bytes.len(),
            Self::Zeros(count) => *count,
        }
    }

    /// The run's bytes in slices.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (data, zeros) = match self {
            Self::Data(bytes, _) => (&bytes[..], 0),
            Self::Zeros(count) => (&[][..], *count),
        };
        let blocks = (0..zeros.div_ceil(ZEROS.len()))
            .map(move |block| &ZEROS[..(zeros - block * ZEROS.len()).min(ZEROS.len())]);
        std::iter::once(data).filter(|data| !data.is_empty()).chain(blocks)
    }
}

/// Writes a frame; length and checksum of the payload are filled in. When the socket's write
/// timeout passes without progress, `stalled` says whether to go on.
pub(crate) fn write_frame(
    stream: &TcpStream,
    mut header: Header,
    payload: &Payload,
    stalled: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    header.payload_bytes = payload.len() as u32;
    header.payload_crc = payload.crc();
    let head = header.encode();
    match payload {
        Payload::Empty => write_slices(stream, &mut [IoSlice::new(&head)], stalled),
        Payload::One(bytes, _) => {
            write_slices(stream, &mut [IoSlice::new(&head), IoSlice::new(bytes)], stalled)
        }
        Payload::Runs(runs) => {
            let pieces = runs.iter().flat_map(Run::pieces).map(IoSlice::new);
            let mut slices: Vec<_> = std::iter::once(IoSlice::new(&head)).chain(pieces).collect();
            write_slices(stream, &mut slices, stalled)
        }
    }
}

fn write_slices(
    mut stream: &TcpStream,
    mut slices: &mut [IoSlice<'_>],
    mut stalled: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                stalled()?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads frames from a stream.
pub(crate) struct FrameReader<'a> {
    stream: BufReader<&'a TcpStream>,
}

impl<'a> FrameReader<'a> {
    /// Reads from `stream`.
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        // Just large enough to take several small frames in one call: what of a payload lands in
        // here is copied once more.
        Self { stream: BufReader::with_capacity(4096, stream) }
    }

    /// The next header.
    pub(crate) fn header(&mut self) -> Result<Header, ReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let mut have = 0;
        while have < HEADER_BYTES {
            match self.stream.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Err(ReadError::Closed),
                // A stranger's first words may be shorter than a header; say who it was if we can.
                Ok(0) => {
                    let short = Header::decode(&bytes[..have]).err();
                    let truncated = FrameError::Truncated { have, need: HEADER_BYTES };
                    return Err(short.unwrap_or(truncated).into());
                }
                Ok(read) => have += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            // Garbage is noticed at once, not when there is enough of it to fill a header.
            if let Err(error @ (FrameError::Magic(_) | FrameError::Version(_))) =
                Header::decode(&bytes[..have])
            {
                return Err(error.into());
            }
        }
        Ok(Header::decode(&bytes)?)
    }

    /// The payload that belongs to `header`, into memory of just its length.
    pub(crate) fn payload(&mut self, header: &Header, into: &mut [u8]) -> Result<(), ReadError> {
        debug_assert_eq!(into.len(), header.payload_bytes as usize);
        let need = HEADER_BYTES + into.len();
        let mut crc = Running::new();
        // The checksum is computed piece by piece, while each is still in the processor's cache.
        for piece in into.chunks_mut(READ_BYTES) {
            match self.stream.read_exact(piece) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    // How much of it came does not matter any more.
                    return Err(FrameError::Truncated { have: HEADER_BYTES, need }.into());
                }
                other => other?,
            }
            crc.update(piece);
        }
        Ok(header.compare_crc(crc.finish())?)
    }
}
