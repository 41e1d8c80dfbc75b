//! What one segment or path component of a pattern asks for, and aligning a row of them.

/// One step of a pattern, over dotted segments or over path components alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Exactly this text.
    Literal(Box<str>),
    /// Text with wildcards in it.
    Glob(Glob),
    /// Any one.
    One,
    /// Any number, also none.
    Deep,
}

/// Text with at least one `*` in it, split at the `*`s.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glob {
    text: Box<str>,
    prefix: Box<str>,
    middles: Box<[Box<str>]>,
    suffix: Box<str>,
}

impl Glob {
    /// The glob `text` spells, if it has a `*`.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('*')?;
        let (middles, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        Some(Self {
            text: text.into(),
            prefix: prefix.into(),
            middles: middles
                .split('*')
                .filter(|piece| !piece.is_empty())
                .map(Box::from)
                .collect(),
            suffix: suffix.into(),
        })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What every match begins with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether `text` matches in full.
    pub(super) fn matches(&self, text: &str) -> bool {
        text.strip_prefix(&*self.prefix)
            .is_some_and(|rest| self.matches_after_prefix(rest))
    }

    /// Whether `rest`, what follows the prefix, matches to the end.
    ///
    /// Taking each middle piece at its first place leaves the most for those after it, so there is
    /// never a reason to go back: `a*a*a*b` costs one pass.
    pub(super) fn matches_after_prefix(&self, rest: &str) -> bool {
        let Some(mut rest) = rest.strip_suffix(&*self.suffix) else {
            return false;
        };
        for piece in &self.middles {
            match rest.split_once(&**piece) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}

/// A row of tokens under construction, kept in one normal form.
///
/// Of neighbouring [`Token::One`] and [`Token::Deep`], the `One`s come first and at most one `Deep`
/// follows: the same texts match, `**/**/**` costs what `**` costs, and [`aligns`] can compare two
/// patterns token by token.
#[derive(Debug, Default)]
pub(super) struct Row(Vec<Token>);

impl Row {
    pub(super) fn push(&mut self, token: Token) {
        let after_deep = self.0.last() == Some(&Token::Deep);
        match token {
            Token::Deep if after_deep => {}
            Token::One if after_deep => {
                self.0.pop();
                self.0.extend([Token::One, Token::Deep]);
            }
            Token::Literal(_) | Token::Glob(_) | Token::One | Token::Deep => self.0.push(token),
        }
    }

    pub(super) fn into_tokens(self) -> Box<[Token]> {
        self.0.into()
    }
}

/// Whether `tokens` fit `items` one by one, with any run of items under a [`Token::Deep`].
///
/// `accepts` is never asked about `Deep`. At a mismatch only the latest `Deep` is stretched: what an
/// earlier one could still reach, the latest can too. So the work is at most tokens times items.
pub(super) fn aligns<I: Iterator + Clone>(
    tokens: &[Token],
    items: I,
    accepts: impl Fn(&Token, I::Item) -> bool,
) -> bool {
    let (mut tokens, mut items) = (tokens, items);
    let mut latest_deep = None;
    loop {
        let fits = match tokens.split_first() {
            Some((Token::Deep, [])) => return true,
            Some((Token::Deep, after)) => {
                latest_deep = Some((after, items.clone()));
                tokens = after;
                true
            }
            Some((token, after)) => {
                // Out of items: stretching a `Deep` would only leave fewer.
                let mut ahead = items.clone();
                let Some(item) = ahead.next() else {
                    return false;
                };
                let fits = accepts(token, item);
                if fits {
                    (tokens, items) = (after, ahead);
                }
                fits
            }
            None if items.clone().next().is_none() => return true,
            None => false,
        };
        if !fits {
            let Some((after, from)) = &mut latest_deep else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (tokens, items) = (*after, from.clone());
        }
    }
}
