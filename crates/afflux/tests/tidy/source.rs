//! Rust as these checks see it: comments and literals blanked, tests taken out.
//!
//! No parser: a scan that knows comments, literals and brackets is enough for what is asked here.

/// `text` with comments, strings and characters as blanks; lines and columns stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(code).unwrap()
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none does.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let inside_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment(rest);
    }
    if !inside_word {
        let prefix = rest.iter().take_while(|byte| matches!(byte, b'b' | b'r' | b'c')).count();
        let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
        let raw = rest[..prefix].contains(&b'r');
        if prefix <= 2 && raw && rest.get(prefix + hashes) == Some(&b'"') {
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let start = prefix + hashes + 1;
            return at
                + find(&rest[start..], &close).map_or(rest.len(), |end| start + end + close.len());
        }
    }
    match rest[0] {
        b'"' => at + quoted(rest, b'"'),
        // A lifetime has no closing quote after one character.
        b'\'' if rest.get(1) == Some(&b'\\') => at + quoted(rest, b'\''),
        b'\'' => {
            let length = rest[1..].iter().take(5).position(|byte| *byte == b'\'').map(|at| at + 2);
            let one =
                |length: &usize| String::from_utf8_lossy(&rest[1..length - 1]).chars().count() == 1;
            at + length.filter(one).unwrap_or(0)
        }
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `code` (of [`code_of`]) with every item under `#[cfg(test)]` as blanks.
pub(crate) fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(start) = find(&bytes[from..], b"#[cfg(test)]").map(|at| at + from) {
        let end = item_end(&bytes, start + b"#[cfg(test)]".len());
        for byte in &mut bytes[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        from = end;
    }
    String::from_utf8(bytes).unwrap()
}

/// The end of the item that begins at `from`: its closing brace, or its semicolon.
fn item_end(bytes: &[u8], from: usize) -> usize {
    match body(bytes, from) {
        Body::Block(_, close) => close + 1,
        Body::None(end) => end,
    }
}

/// What follows a signature.
enum Body {
    /// The places of its braces.
    Block(usize, usize),
    /// Just after its semicolon.
    None(usize),
}

/// Finds the block or the semicolon after `from`, outside of all other brackets.
fn body(bytes: &[u8], from: usize) -> Body {
    let mut depth = 0_i32;
    for at in from..bytes.len() {
        match bytes[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return Body::None(at + 1),
            b'{' if depth == 0 => return Body::Block(at, closing(bytes, at)),
            _ => {}
        }
    }
    Body::None(bytes.len())
}

fn closing(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len().saturating_sub(1)
}

/// Positions of `word` in `code` where it stands alone; it may be a path such as `Instant::now`.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let alone = move |at: &usize| {
        let before = code[..*at].bytes().next_back().is_some_and(is_word);
        let after = code[at + word.len()..].bytes().next().is_some_and(is_word);
        !before && !after
    };
    code.match_indices(word).map(|(at, _)| at).filter(alone)
}

/// The line of a position, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A function: its name, its line, and how many lines its body has between the braces.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) body_lines: usize,
}

/// All functions with a body, nested ones too.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // Without a name it is a type.
        if let (false, Body::Block(open, close)) = (name.is_empty(), body(code.as_bytes(), at)) {
            let body_lines = code[open..close].matches('\n').count().saturating_sub(1);
            found.push(Function { name, line: line_of(code, at), body_lines });
        }
    }
    found
}

#[test]
fn comments_and_literals_are_blank_and_nothing_moves() {
    let text = "a // b\n/* c /* d */ e */ f \"g\\\"h\" 'i' '\\'' 'j: r#\"k\"l\"# b'm' n\"";
    let code = code_of(text);
    assert_eq!(code.len(), text.len());
    let left: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    assert_eq!(left, "af'j:bn");
    assert_eq!(code_of("'é' x"), "     x");
    assert_eq!(code_of("for\"x\" bar#\"y\""), "for    bar#   ");
    assert_eq!(code_of("&'a str, 'b'").trim_end(), "&'a str,");
}

#[test]
fn tests_are_taken_out_and_the_rest_stays() {
    let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\n#[cfg(test)]\nmod c;\nfn d() {}";
    let left = without_tests(code);
    assert!(left.contains("fn a") && left.contains("fn d"), "{left}");
    assert!(!left.contains("fn b") && !left.contains("mod c"), "{left}");
}

#[test]
fn functions_are_measured_between_their_braces() {
    let code = "fn a(x: [u8; 4]) -> fn(u8) {\n1\n2\n}\ntrait T { fn b(); }\nfn c() { 1 }";
    let found: Vec<_> =
        functions(code).into_iter().map(|f| (f.name, f.line, f.body_lines)).collect();
    assert_eq!(found, [("a".to_owned(), 1, 2), ("c".to_owned(), 6, 0)]);
}

#[test]
fn words_stand_alone() {
    let code = "Instant::now my_fn fn fn_x refn";
    assert_eq!(words(code, "fn").collect::<Vec<_>>(), [19]);
    assert_eq!(words(code, "Instant::now").count(), 1);
}
