//! How text looks: colour or none, which glyphs, how wide.

use anstyle::{AnsiColor, Style};

/// What `--color` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// Where the text goes to a terminal, and the environment does not say otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the process found out about where a text goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Surroundings<'a> {
    /// Whether it is a terminal.
    pub(crate) terminal: bool,
    /// Its columns where it is a terminal, else what `COLUMNS` says.
    pub(crate) columns: Option<usize>,
    /// `NO_COLOR`: any text but the empty one means no colour (<https://no-color.org>).
    pub(crate) no_color: Option<&'a str>,
    /// `TERM`: `dumb` means no colour.
    pub(crate) term: Option<&'a str>,
    /// `LC_ALL`, else `LC_CTYPE`, else `LANG`: whether anything but ASCII can be shown.
    pub(crate) locale: Option<&'a str>,
}

/// How a text is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether ANSI colours are used.
    pub(crate) color: bool,
    /// Whether our own signs may be other than ASCII. Foreign text stays what it is.
    pub(crate) unicode: bool,
    /// Columns of a line, at least [`Look::NARROWEST`].
    pub(crate) width: usize,
}

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Plain.
    Plain,
    /// Where in the job; sizes, times.
    Dim,
    /// A heading, a name that matters.
    Strong,
    /// Allowed, approved, completed.
    Good,
    /// Changed.
    Change,
    /// A person is asked; something to look at.
    Warn,
    /// Denied, failed.
    Bad,
}

impl Look {
    /// 80 columns, no colour.
    pub(crate) const PLAIN: Self = Self { color: false, unicode: true, width: 80 };

    /// Fewer columns are not used, whatever a terminal says.
    pub(crate) const NARROWEST: usize = 40;

    /// More columns are hard to read.
    const WIDEST: usize = 120;

    /// The look for a place. `--color` wins over the environment, `NO_COLOR` over what a terminal can do.
    pub(crate) fn of(color: Color, around: Surroundings<'_>) -> Self {
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                around.terminal
                    && around.no_color.is_none_or(str::is_empty)
                    && around.term.is_none_or(|term| term != "dumb")
            }
        };
        let utf8 = |locale: &str| {
            let locale = locale.to_ascii_lowercase();
            locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8")
        };
        let width = around.columns.unwrap_or(80);
        Self { color, unicode: around.locale.is_none_or(utf8), width: width.clamp(Self::NARROWEST, Self::WIDEST) }
    }

    /// Stands where something was cut.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    /// From old to new.
    pub(crate) fn arrow(self) -> &'static str {
        if self.unicode { "→" } else { "->" }
    }

    /// Before each row of untrusted text.
    pub(crate) fn bar(self) -> &'static str {
        if self.unicode { "│ " } else { "| " }
    }

    /// Colours a text, which must be escaped already.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let color = |c: AnsiColor| Style::new().fg_color(Some(c.into()));
        let style = match role {
            Role::Plain => Style::new(),
            Role::Dim => Style::new().dimmed(),
            Role::Strong => Style::new().bold(),
            Role::Good => color(AnsiColor::Green),
            Role::Change => color(AnsiColor::Cyan),
            Role::Warn => color(AnsiColor::Yellow).bold(),
            Role::Bad => color(AnsiColor::Red).bold(),
        };
        if !self.color || role == Role::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_then_no_color_then_the_terminal() {
        let terminal = Surroundings { terminal: true, ..Surroundings::default() };
        let no_color = Surroundings { no_color: Some("1"), ..terminal };
        for (choice, around, color) in [
            (Color::Auto, terminal, true),
            (Color::Auto, Surroundings::default(), false),
            (Color::Auto, no_color, false),
            (Color::Auto, Surroundings { no_color: Some(""), ..terminal }, true),
            (Color::Auto, Surroundings { term: Some("dumb"), ..terminal }, false),
            (Color::Always, no_color, true),
            (Color::Always, Surroundings::default(), true),
            (Color::Never, terminal, false),
        ] {
            assert_eq!(Look::of(choice, around).color, color, "{choice:?} {around:?}");
        }
    }

    #[test]
    fn width_and_signs_follow_the_place() {
        let look = |columns, terminal, locale| {
            Look::of(Color::Never, Surroundings { terminal, columns, locale, ..Surroundings::default() })
        };
        assert_eq!(look(Some(100), true, None).width, 100);
        assert_eq!(look(Some(10), true, None).width, Look::NARROWEST);
        assert_eq!(look(Some(500), true, None).width, 120);
        assert_eq!(look(None, false, None).width, 80, "a file has no columns");
        assert_eq!(look(Some(100), false, None).width, 100, "unless COLUMNS says so");
        for (locale, unicode) in [(Some("de_DE.UTF-8"), true), (Some("C.utf8"), true), (Some("C"), false), (None, true)]
        {
            assert_eq!(look(None, true, locale).unicode, unicode, "{locale:?}");
        }
    }
}
