//! Rows of results.

use crate::failure::Failure;
use crate::measure;
use serde_json::{Value, json};
use std::fmt;

/// Whether a figure is what was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Met,
    NotMet,
    /// For orientation; no target is set on it.
    Shown,
    /// Its peer is missing, so nothing can be said.
    NotMeasured,
}

impl Standing {
    pub(crate) const fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::NotMet }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "NOT MET",
            Self::Shown => "-",
            Self::NotMeasured => "not measured",
        }
    }

    fn find(text: &str) -> Option<Self> {
        [Self::Met, Self::NotMet, Self::Shown, Self::NotMeasured]
            .into_iter()
            .find(|standing| standing.as_str() == text)
    }
}

/// One figure beside its peer.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) against: String,
    pub(crate) ratio: String,
    pub(crate) wanted: String,
    pub(crate) standing: Standing,
}

impl Row {
    /// A row whose target is on the ratio.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            measured: String::new(),
            against: String::new(),
            ratio: String::new(),
            wanted: String::new(),
            standing: Standing::Shown,
        }
    }

    pub(crate) fn measured(mut self, text: impl Into<String>) -> Self {
        self.measured = text.into();
        self
    }

    pub(crate) fn against(mut self, text: impl Into<String>) -> Self {
        self.against = text.into();
        self
    }

    pub(crate) fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = format!("{ratio:.2} x");
        self
    }

    /// How many times faster than the peer, where that is what is wanted.
    pub(crate) fn faster(mut self, factor: f64) -> Self {
        self.ratio = format!("{factor:.1} x faster");
        self
    }

    /// What it takes more than the peer, where that is what is wanted.
    pub(crate) fn difference(mut self, nanos: f64) -> Self {
        let sign = if nanos < 0.0 { '-' } else { '+' };
        self.ratio = format!("{sign} {}", measure::time_text(nanos.abs()));
        self
    }

    pub(crate) fn wanted(mut self, text: impl Into<String>, met: bool) -> Self {
        self.wanted = text.into();
        self.standing = Standing::of(met);
        self
    }

    /// A row for a peer that is not here.
    pub(crate) fn missing(what: impl Into<String>, wanted: &str, why: impl Into<String>) -> Self {
        Self {
            against: why.into(),
            wanted: wanted.to_owned(),
            standing: Standing::NotMeasured,
            ..Self::new(what)
        }
    }

    /// One line, for whoever waits for a worker.
    pub(crate) fn to_json(&self) -> String {
        let Self {
            what,
            measured,
            against,
            ratio,
            wanted,
            standing,
        } = self;
        json!([what, measured, against, ratio, wanted, standing.as_str()]).to_string()
    }

    pub(crate) fn from_json(line: &str) -> Result<Self, Failure> {
        let cells: Vec<Value> = serde_json::from_str(line)?;
        let cell = |index: usize| {
            let text = cells.get(index).and_then(Value::as_str);
            text.map(str::to_owned)
                .ok_or_else(|| Failure::new(format!("a worker said `{line}`")))
        };
        Ok(Self {
            what: cell(0)?,
            measured: cell(1)?,
            against: cell(2)?,
            ratio: cell(3)?,
            wanted: cell(4)?,
            standing: Standing::find(&cell(5)?)
                .ok_or_else(|| Failure::new(format!("a worker said `{line}`")))?,
        })
    }

    pub(crate) fn missed(&self) -> bool {
        self.standing == Standing::NotMet
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            measured,
            against,
            ratio,
            wanted,
            standing,
        } = self;
        write!(
            f,
            "{what}: {measured} | {against} | {ratio} | wanted {wanted} | {}",
            standing.as_str()
        )
    }
}

/// The rows as a Markdown table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = "| what | measured | against | ratio | wanted | |\n".to_owned();
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for row in rows {
        let cells = [
            &row.what,
            &row.measured,
            &row.against,
            &row.ratio,
            &row.wanted,
            row.standing.as_str(),
        ];
        text.push('|');
        for cell in cells {
            text.push(' ');
            text.push_str(&cell.replace('|', "\\|"));
            text.push_str(" |");
        }
        text.push('\n');
    }
    text
}

/// How many targets were met.
pub(crate) fn summary(rows: &[Row]) -> String {
    let count = |wanted| rows.iter().filter(|row| row.standing == wanted).count();
    format!(
        "{} met, {} not met, {} not measured",
        count(Standing::Met),
        count(Standing::NotMet),
        count(Standing::NotMeasured)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_a_row_of_its_own_and_no_success() {
        let rows = [
            Row::new("a").wanted("x", true),
            Row::new("b").wanted("x", false),
            Row::missing("c", "x", "not installed: apt-get install ripgrep"),
            Row::new("d"),
        ];
        assert_eq!(summary(&rows), "1 met, 1 not met, 1 not measured");
        assert_eq!(rows.iter().filter(|row| row.missed()).count(), 1);
        assert!(markdown(&rows).contains("| not installed: apt-get install ripgrep |"));
    }

    #[test]
    fn a_row_of_a_worker_is_the_same_here() {
        let rows = [
            Row::new("a|b").ratio(2.0).wanted("x", false),
            Row::missing("c", "x", "why"),
        ];
        for row in rows {
            let read = Row::from_json(&row.to_json()).unwrap();
            assert_eq!(read.to_string(), row.to_string());
        }
        for line in ["", "[]", r#"["a","b","c","d","e","fine"]"#] {
            assert!(Row::from_json(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_bar_in_a_cell_does_not_end_it() {
        let text = markdown(&[Row::new("a|b")]);
        assert!(text.contains(r"| a\|b |"), "{text}");
    }
}
