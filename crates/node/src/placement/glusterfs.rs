//! GlusterFS: the attribute `trusted.glusterfs.pathinfo`, as in
//! `(<DISTRIBUTE:v-dht> <POSIX(/b2):host:/b2/file>)`.
//!
//! Of the bricks of a replicated file the first stands for all, since they are written together. Of
//! a sharded file only the base shard is told; it stands for the file.

use super::{FUSE, Placement, PlacementError, Reader, Server};

pub(super) const READER: Reader = Reader {
    name: "glusterfs",
    file_systems: &[FUSE],
    attribute: c"trusted.glusterfs.pathinfo",
    read,
};

fn read(bytes: &[u8]) -> Result<Placement<'_>, PlacementError> {
    let text = std::str::from_utf8(bytes).map_err(|_| PlacementError::Wrong("it is no text"))?;
    let brick = brick(text).ok_or(PlacementError::Wrong("it names no brick"))?;
    let mut placement = Placement::empty();
    placement.push_part(0, u64::MAX, u64::MAX)?;
    placement.push_server(Server::Brick(brick))?;
    Ok(placement)
}

/// Host and directory of the first brick: `host:/b2` of `<POSIX(/b2):host:/b2/file>`.
fn brick(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<POSIX(")?;
    let (directory, rest) = rest.split_once("):")?;
    let (host, path) = rest.split_once(':')?;
    let known = !host.is_empty() && !directory.is_empty() && path.starts_with(directory);
    known.then(|| &rest[..host.len() + 1 + directory.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_brick_is_the_server() {
        for (text, expected) in [
            ("<POSIX(/b2):vm:/b2/w1>", "brick vm:/b2"),
            ("(<DISTRIBUTE:v-dht> <POSIX(/data/b 1):h-1:/data/b 1/d/f>)", "brick h-1:/data/b 1"),
            ("(<REPLICATE:r> <POSIX(/a):h1:/a/f> <POSIX(/a):h2:/a/f>)", "brick h1:/a"),
        ] {
            let placement = read(text.as_bytes()).unwrap();
            assert_eq!(placement.server_at(1 << 40).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "<POSIX(/b2)", "<POSIX():h:/f>", "<POSIX(/b):h:/c/f>", "<POSIX(/b)::/b/f>"]
        {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
