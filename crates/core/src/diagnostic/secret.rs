//! What looks like a secret, so that it is refused and never repeated.

/// Beginnings of well-known tokens, what follows them at least (characters of `[A-Za-z0-9_.+/=-]`), and what they are.
const PREFIXES: &[(&str, usize, &str)] = &[
    ("sk-", 6, "an API key"),
    ("sk_live_", 6, "an API key"),
    ("sk_test_", 6, "an API key"),
    ("rk_live_", 6, "an API key"),
    ("ghp_", 6, "a GitHub token"),
    ("gho_", 6, "a GitHub token"),
    ("ghu_", 6, "a GitHub token"),
    ("ghs_", 6, "a GitHub token"),
    ("ghr_", 6, "a GitHub token"),
    ("github_pat_", 6, "a GitHub token"),
    ("glpat-", 6, "a GitLab token"),
    ("AKIA", 12, "an AWS access key"),
    ("ASIA", 12, "an AWS access key"),
    ("AIza", 30, "a Google API key"),
    ("ya29.", 16, "a Google token"),
    ("xoxa-", 8, "a Slack token"),
    ("xoxb-", 8, "a Slack token"),
    ("xoxp-", 8, "a Slack token"),
    ("xoxr-", 8, "a Slack token"),
    ("xoxs-", 8, "a Slack token"),
    ("xapp-", 8, "a Slack token"),
    ("npm_", 30, "an npm token"),
    ("pypi-", 30, "a PyPI token"),
    ("hf_", 20, "a Hugging Face token"),
    ("whsec_", 16, "a webhook secret"),
    ("dop_v1_", 20, "a DigitalOcean token"),
    ("AGE-SECRET-KEY-", 10, "a private key"),
];

/// What kind of secret a text holds, if it looks like one: `a GitHub token`, `a private key`, ….
///
/// Looks at known beginnings of tokens anywhere at the start of a word, `Bearer …`, JSON Web Tokens, private keys and passwords in URLs.
pub fn secret_kind(text: &str) -> Option<&'static str> {
    find(text, 0, false).map(|(_, _, kind)| kind)
}

/// Ends of names whose values are secrets, with `-` as `_` and in lower case.
const NAMES: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "api_key",
    "apikey",
    "private_key",
    "access_key",
    "accesskey",
    "authorization",
    "cookie",
    "credential",
];

/// Whether a name (of a variable, a header, a parameter) says that its value is a secret: `GITHUB_TOKEN`, `x-api-key`, `tavilyApiKey`.
pub fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|word| name.ends_with(word))
}

/// The text with every secret in it replaced by `***` (what [`secret_kind`] finds, and what is one by its name: `TOKEN: …`, `?api_key=…`,
/// the user in a URL), and where the character at index `at` has moved to
/// (to the `***` where it is part of a secret); none if the text has no such character.
pub fn mask(text: &str, at: usize) -> (String, Option<usize>) {
    let mut out = String::with_capacity(text.len());
    let (mut from, mut seen, mut written) = (0, 0, 0);
    let mut moved = None;
    loop {
        let found = find(text, from, true);
        let (start, end) = found.map_or((text.len(), text.len()), |(start, end, _)| (start, end));
        let plain = text[from..start].chars().count();
        if moved.is_none() && at < seen + plain {
            moved = Some(written + at - seen);
        }
        out.push_str(&text[from..start]);
        (seen, written) = (seen + plain, written + plain);
        if found.is_none() {
            return (out, moved);
        }
        let hidden = text[start..end].chars().count();
        if moved.is_none() && at < seen + hidden {
            moved = Some(written);
        }
        out.push_str("***");
        (seen, written, from) = (seen + hidden, written + 3, end);
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '/' | '=' | '-')
}

/// The first secret at or after byte `from`: where it begins and ends, and what it is. `by_name` finds more: what is hidden, not refused.
fn find(text: &str, from: usize, by_name: bool) -> Option<(usize, usize, &'static str)> {
    let mut before = text[..from].chars().next_back();
    for (i, c) in text[from..].char_indices() {
        let at = from + i;
        // A secret begins where a word does: `ask-something` is none.
        if before.is_none_or(|b| !b.is_alphanumeric() && b != '_' && b != '-')
            && let Some((length, kind)) = at_word(&text[at..])
        {
            return Some((at, at + length, kind));
        }
        if c == ':'
            && let Some(length) = user_in_url(&text[at..], by_name)
        {
            return Some((at + 3, at + 3 + length, "a password"));
        }
        if by_name
            && matches!(c, ':' | '=')
            && let Some((start, length)) = named_value(&text[..at], &text[at + 1..])
            && at + 1 + start >= from
        {
            let start = at + 1 + start;
            return Some((start, start + length, "a secret by its name"));
        }
        before = Some(c);
    }
    None
}

/// Where the value of a name that sounds secret begins behind the `:` or `=`, and how long it is: `TOKEN: x`, `"token": "x"`, `?api_key=x`.
fn named_value(before: &str, rest: &str) -> Option<(usize, usize)> {
    let quotes = ['"', '\''];
    let unquoted = before.trim_end_matches([' ', '\t']).trim_end_matches(quotes);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = &unquoted[unquoted.trim_end_matches(is_name).len()..];
    // In a URL's query, shorter names say it too.
    let in_query = before.ends_with(name) && before[..before.len() - name.len()].ends_with(['?', '&']);
    let short = ["key", "sig", "signature", "auth", "pass", "pwd", "code", "jwt"];
    let telling = sounds_secret(name) || in_query && short.iter().any(|word| name.eq_ignore_ascii_case(word));
    if !telling {
        return None;
    }
    let value = rest.trim_start_matches([' ', '\t']);
    let start = rest.len() - value.len();
    if let Some(quote) = value.chars().next().filter(|c| quotes.contains(c)) {
        let length = value[1..].find(quote).unwrap_or(value.len() - 1);
        return (length > 0).then_some((start + 1, length));
    }
    // A mapping (`{ from: … }`), an alias or a block is no value.
    if value.starts_with(['{', '[', '*', '&', '|', '>', '#']) {
        return None;
    }
    let ends: &[char] = if start == 0 { &['&', '#', '"', '\'', ' ', ',', '}', ']'] } else { &['#', ',', '}', ']'] };
    let length = value[..value.find(ends).unwrap_or(value.len())].trim_end().len();
    (length > 0 && &value[..length] != "***").then_some((start, length))
}

fn at_word(rest: &str) -> Option<(usize, &'static str)> {
    let run = |s: &str| s.find(|c| !is_token_char(c)).unwrap_or(s.len());
    for (prefix, least, kind) in PREFIXES {
        if let Some(tail) = rest.strip_prefix(prefix) {
            let length = run(tail);
            if length >= *least {
                return Some((prefix.len() + length, kind));
            }
        }
    }
    for scheme in ["Bearer ", "bearer ", "Basic ", "basic "] {
        if let Some(tail) = rest.strip_prefix(scheme) {
            let length = run(tail);
            // `Bearer` needs no long token to be one; `Basic` is also an English word.
            let least = if scheme.eq_ignore_ascii_case("bearer ") { 1 } else { 12 };
            let whole = tail[length..].trim_end_matches(['"', '\'', ' ', '}', ']', ',']).is_empty();
            if length >= least && (whole || length >= 12) {
                return Some((scheme.len() + length, "an authorization"));
            }
        }
    }
    if rest.starts_with("-----BEGIN ") && rest.contains("PRIVATE KEY") {
        return Some((rest.len(), "a private key"));
    }
    if rest.starts_with("eyJ") {
        let length = run(rest);
        if rest[..length].matches('.').count() >= 2 && length >= 30 {
            return Some((length, "a JSON Web Token"));
        }
    }
    None
}

/// The length of `user:password` in `://user:password@host`; with `alone`, of a lone user too, which is often a token.
fn user_in_url(rest: &str, alone: bool) -> Option<usize> {
    let tail = rest.strip_prefix("://")?;
    let authority = &tail[..tail.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(tail.len())];
    let (user, _) = authority.rsplit_once('@')?;
    (user.contains(':') || alone && !user.is_empty() && user != "git").then_some(user.len())
}
