//! What is printed: figures with their aims, as a table, and as JSON where a file is named.

use crate::measure::{Times, ratio};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// What a figure should be, and whether it is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Aim {
    /// In words.
    pub(crate) aim: String,
    pub(crate) met: bool,
}

impl Aim {
    /// The figure is at most so much.
    pub(crate) fn at_most(value: f64, limit: f64, unit: &str) -> Self {
        Self { aim: format!("at most {limit}{unit}"), met: value <= limit }
    }
}

/// One line.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// Names it in JSON.
    pub(crate) key: String,
    /// Names it for people.
    pub(crate) name: String,
    /// For people, e.g. `2.05× bare`.
    pub(crate) said: String,
    /// The number itself: the middle one of all times in microseconds, or what `said` names.
    pub(crate) value: f64,
    /// The 99th percentile in microseconds, where single times were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
    /// In bare calls of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) of_bare: Option<f64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) aim: Option<Aim>,
}

/// All that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: crate::machine::Machine,
    pub(crate) groups: Vec<Group>,
}

/// Lines that belong together.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) figures: Vec<Figure>,
}

/// `85 µs`, `1.24 ms`, `2.10 s`.
pub(crate) fn time(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

impl Figure {
    /// Of single times, in bare calls where `bare` is given.
    pub(crate) fn of(key: &str, name: &str, times: &Times, bare: Option<Duration>) -> Self {
        let (p50, p99) = (times.p50(), times.p99());
        let of_bare = bare.map(|bare| ratio(p50, bare));
        let mut said = format!("{:>9} {:>9}", time(p50), time(p99));
        if let Some(of_bare) = of_bare {
            let _ = write!(said, "  {of_bare:>6.2}×");
        }
        Self {
            key: key.to_owned(),
            name: name.to_owned(),
            said,
            value: p50.as_secs_f64() * 1e6,
            p99_us: Some(p99.as_secs_f64() * 1e6),
            of_bare,
            aim: None,
        }
    }

    /// Of one number.
    pub(crate) fn number(key: &str, name: &str, value: f64, said: String) -> Self {
        Self { key: key.to_owned(), name: name.to_owned(), said, value, p99_us: None, of_bare: None, aim: None }
    }

    pub(crate) fn aim(self, aim: Aim) -> Self {
        Self { aim: Some(aim), ..self }
    }
}

impl Group {
    /// As a table in Markdown, in the form of docs/performance.md.
    pub(crate) fn markdown(&self) -> String {
        let timed = self.figures.iter().any(|figure| figure.p99_us.is_some());
        let mut text = format!("\n{}\n\n", self.title.split("  ").next().unwrap_or_default());
        text.push_str(if timed {
            "| | p50 | p99 | × bare | aim |\n|---|---|---|---|---|\n"
        } else {
            "| | | aim |\n|---|---|---|\n"
        });
        for figure in &self.figures {
            let micros = |us: f64| time(Duration::from_secs_f64(us.max(0.0) / 1e6));
            let said = match figure.p99_us {
                Some(p99) => {
                    let of_bare = figure.of_bare.map(|of| format!("{of:.2}")).unwrap_or_default();
                    format!("{} | {} | {of_bare}", micros(figure.value), micros(p99))
                }
                None if timed => format!("{} | | ", figure.said.trim()),
                None => figure.said.trim().to_owned(),
            };
            let aim =
                figure.aim.as_ref().map(|Aim { aim, met }| format!("{aim}: {}", if *met { "met" } else { "missed" }));
            let _ = writeln!(text, "| {} | {said} | {} |", figure.name, aim.unwrap_or_default());
        }
        text.replace("  ", " ")
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("\n{}\n", self.title);
        for figure in &self.figures {
            let _ = write!(text, "  {:<58} {:<30}", figure.name, figure.said);
            if let Some(Aim { aim, met }) = &figure.aim {
                let _ = write!(text, "  {}: {aim}", if *met { "met" } else { "MISSED" });
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_rows_can_be_pasted_into_a_table() {
        let mut times = Times::default();
        times.extend(vec![Duration::from_micros(200); 3]);
        let bare = Some(Duration::from_micros(100));
        let group = Group {
            title: "Calls             p50       p99   × bare".into(),
            figures: vec![
                Figure::of("a", "one", &times, bare).aim(Aim::at_most(2.0, 2.2, "× bare")),
                Figure::number("b", "adds", 7.0, "7 µs".into()),
            ],
        };
        let rows = "\nCalls\n\n| | p50 | p99 | × bare | aim |\n|---|---|---|---|---|\n\
                    | one | 200 µs | 200 µs | 2.00 | at most 2.2× bare: met |\n| adds | 7 µs | | | |\n";
        assert_eq!(group.markdown(), rows);
        let numbers =
            Group { title: "Memory".into(), figures: vec![Figure::number("c", "a job", 1.0, "1 KiB".into())] };
        assert_eq!(numbers.markdown(), "\nMemory\n\n| | | aim |\n|---|---|---|\n| a job | 1 KiB | |\n");
    }
}
