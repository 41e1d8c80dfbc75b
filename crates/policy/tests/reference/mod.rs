//! What the rules of matching say, as the plainest recursion there is, and random
//! texts to compare it with the real thing.

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Segment(String),
    Path(Vec<String>),
}

/// The parts of a well-formed text; the first path component is `""` for `/` and `~` for home.
pub(crate) fn parts(text: &str) -> Option<Vec<Part>> {
    if text.is_empty() || text.len() > 1_024 || text.contains('\0') {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        if rest.starts_with('/') || rest.starts_with('~') {
            parts.push(Part::Path(path_parts(rest)?));
            break;
        }
        let (segment, after) = match rest.split_once('.') {
            Some((segment, after)) => (segment, Some(after)),
            None => (rest, None),
        };
        if segment.is_empty() {
            return None;
        }
        parts.push(Part::Segment(segment.to_owned()));
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    (parts.len() <= 32).then_some(parts)
}

fn path_parts(path: &str) -> Option<Vec<String>> {
    if path == "/" {
        return Some(vec![String::new()]);
    }
    let all: Vec<String> = path.split('/').map(str::to_owned).collect();
    let anchored = all[0].is_empty() || all[0] == "~";
    let clean = all[1..]
        .iter()
        .all(|c| !matches!(c.as_str(), "" | "." | ".."));
    (anchored && clean).then_some(all)
}

pub(crate) fn pattern_parts(text: &str) -> Option<Vec<Part>> {
    parts(text).filter(|parts| {
        parts.iter().all(|part| match part {
            Part::Segment(segment) => !segment.contains("**"),
            Part::Path(all) => all.iter().all(|c| c == "**" || !c.contains("**")),
        })
    })
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', after)) => (0..=text.len()).any(|taken| glob(after, &text[taken..])),
        Some((byte, after)) => text.first() == Some(byte) && glob(after, &text[1..]),
    }
}

fn reference_path(pattern: &[String], path: &[String]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((first, [])) if first == "*" => !path.is_empty(),
        Some((first, after)) if first == "**" => {
            (0..=path.len()).any(|taken| reference_path(after, &path[taken..]))
        }
        Some((first, after)) => {
            !path.is_empty()
                && glob(first.as_bytes(), path[0].as_bytes())
                && reference_path(after, &path[1..])
        }
    }
}

pub(crate) fn reference(pattern: &[Part], capability: &[Part]) -> bool {
    match (pattern.split_first(), capability.split_first()) {
        (None, None) => true,
        (Some((Part::Segment(star), after)), Some(_)) if star == "*" => {
            (1..=capability.len()).any(|taken| reference(after, &capability[taken..]))
        }
        (Some((Part::Segment(ours), after)), Some((Part::Segment(theirs), rest))) => {
            glob(ours.as_bytes(), theirs.as_bytes()) && reference(after, rest)
        }
        (Some((Part::Path(ours), _)), Some((Part::Path(theirs), _))) => {
            ours[0] == theirs[0] && reference_path(&ours[1..], &theirs[1..])
        }
        (None, Some(_))
        | (Some(_), None)
        | (Some((Part::Segment(_), _)), Some((Part::Path(_), _)))
        | (Some((Part::Path(_), _)), Some((Part::Segment(_), _))) => false,
    }
}

/// Random text from an alphabet so small that things collide.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// `SplitMix64`: fast, seeded, good enough to wander through texts.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Any characters at all: mostly malformed.
    fn noise(&mut self) -> String {
        (0..self.below(9))
            .map(|_| self.pick(&["a", "b", "*", ".", "/", "~", "é", "\0"]))
            .collect()
    }

    /// Well-formed more often than not.
    fn shaped(&mut self, segments: &[&str], components: &[&str]) -> String {
        let mut text: Vec<&str> = (0..self.below(4)).map(|_| self.pick(segments)).collect();
        let mut path = String::new();
        if text.is_empty() || self.below(2) == 0 {
            path.push_str(self.pick(&["", "", "~"]));
            for _ in 0..self.below(5) {
                path.push('/');
                path.push_str(self.pick(components));
            }
            text.push(if path.is_empty() { "/" } else { &path });
        }
        text.join(".")
    }

    pub(crate) fn capability(&mut self) -> String {
        match self.below(12) {
            0 => self.noise(),
            1 => self.shaped(
                &["a", "", "*", "a/b", "é"],
                &["a", "", ".", "..", "*", "**", "..."],
            ),
            _ => self.shaped(&["a", "b", "ab", "aab"], &["a", "b", "ab", "a.b"]),
        }
    }

    pub(crate) fn pattern(&mut self) -> String {
        match self.below(12) {
            0 => self.noise(),
            1 => self.shaped(
                &["a", "", "**", "a**", "é*"],
                &["a", "", ".", "..", "a**", "***"],
            ),
            _ => self.shaped(
                &["a", "b", "*", "*", "a*", "*b", "*a*", "a*b"],
                &["a", "b", "*", "**", "**", "a*", "*b", "a*b", "*.b"],
            ),
        }
    }
}
