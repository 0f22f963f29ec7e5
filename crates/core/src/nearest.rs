//! What a misspelt word was probably meant to be.

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let ranked = known.into_iter().map(|name| (distance(word, name), name));
    let (distance, name) = ranked.min_by_key(|&(distance, _)| distance)?;
    (distance <= 1 + name.len() / 4).then_some(name)
}

/// How many letters have to be put in, taken out or changed to make `b` out of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_only_when_it_is_near() {
        let known = ["ack_ewma", "send_ewma", "pt_ratio"];
        assert_eq!(nearest("ack_ema", known), Some("ack_ewma"));
        assert_eq!(nearest("latency", known), None);
    }
}
