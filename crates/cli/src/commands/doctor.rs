//! `hookwright doctor`: what is wrong here, and what to do.

use crate::args::{CheckArgs, Output};
use crate::doctor::{Finding, Level, judge, look};
use crate::exit::{self, CliResult};
use crate::settings::Settings;
use crate::terminal::{data, json};
use hookwright_core::text::escape;
use serde::Serialize;
use std::fmt::Write as _;

/// What `doctor --output json` prints.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether there is no problem; warnings don't count.
    ok: bool,
    problems: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

pub(crate) async fn run(mut settings: Settings, args: CheckArgs) -> CliResult {
    let facts = look::look(&mut settings, &args.plugins).await;
    let findings = judge(&facts, &settings.next());
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let report = Report {
        ok: count(Level::Problem) == 0,
        problems: count(Level::Problem),
        warnings: count(Level::Warning),
        findings,
    };
    match args.output {
        Output::Json => json(&report),
        Output::Text => data(&text(&report)),
    }
    Ok(if report.ok { exit::OK } else { exit::FAILED })
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let mark = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "PROBLEM",
        };
        let mut lines = finding.said.lines();
        let _ = writeln!(out, "{:<14} {mark:<8} {}", finding.about, escape(lines.next().unwrap_or_default()));
        for line in lines {
            let _ = writeln!(out, "{:<23} {}", "", escape(line));
        }
        if let Some(next) = &finding.next {
            let _ = writeln!(out, "{:<14} {:<8} {}", "", "next:", escape(next));
        }
    }
    let _ = match (report.problems, report.warnings) {
        (0, 0) => writeln!(out, "nothing is wrong"),
        (problems, warnings) => writeln!(
            out,
            "{}, {}",
            crate::story::units::plural(problems as u64, "problem"),
            crate::story::units::plural(warnings as u64, "warning")
        ),
    };
    out.trim_end().to_owned()
}
