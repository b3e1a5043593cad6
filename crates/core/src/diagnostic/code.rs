//! The rules that a file can break, by name.

use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $structural:literal;)+) => {
        /// Which rule a diagnostic is about. Its text is stable: scripts and editors may rely on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its stable text, in kebab-case.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Whether the JSON Schema of the file finds it too: it is about shapes, not about meaning.
            pub fn is_structural(self) -> bool {
                match self { $(Self::$name => $structural,)+ }
            }
        }
    };
}

codes! {
    /// The file is larger than its limit.
    TooLarge = "too-large", false;
    /// The file is not UTF-8.
    NotUtf8 = "not-utf8", false;
    /// The file holds control characters: it is no text.
    Binary = "binary", false;
    /// The file says nothing.
    Empty = "empty", true;
    /// The text is no YAML.
    YamlSyntax = "yaml-syntax", false;
    /// An alias names no anchor, or one that holds the alias.
    YamlAlias = "yaml-alias", false;
    /// A tag that means nothing here.
    YamlTag = "yaml-tag", false;
    /// A key that is no text.
    YamlKey = "yaml-key", false;
    /// More than one document in a file.
    YamlDocuments = "yaml-documents", false;
    /// Lists and mappings too deep within each other.
    TooNested = "too-nested", false;
    /// Too many values once aliases are followed.
    TooManyValues = "too-many-values", false;
    /// A key that stands twice in one mapping.
    DuplicateKey = "duplicate-key", false;
    /// Characters that change the order in which text is shown.
    HiddenCharacters = "hidden-characters", false;
    /// More problems than are shown.
    MoreProblems = "more-problems", false;

    /// A value of another type than expected.
    WrongType = "wrong-type", true;
    /// A key that must be there is not.
    MissingKey = "missing-key", true;
    /// A key that nothing reads.
    UnknownKey = "unknown-key", true;
    /// A word that is none of the possible ones.
    UnknownValue = "unknown-value", true;
    /// A list without entries where that can't be meant.
    EmptyList = "empty-list", true;
    /// A text without characters.
    EmptyText = "empty-text", true;
    /// A duration or size without its unit.
    MissingUnit = "missing-unit", true;
    /// A text that is no duration.
    InvalidDuration = "invalid-duration", true;
    /// A text that is no size in bytes.
    InvalidSize = "invalid-size", true;
    /// A whole number out of its range.
    OutOfRange = "out-of-range", true;
    /// A duration out of its range.
    DurationRange = "duration-range", false;
    /// A size out of its range.
    SizeRange = "size-range", false;
    /// A text that may not be an id.
    InvalidId = "invalid-id", true;
    /// A text that may not name a variable, a header or a group.
    InvalidName = "invalid-name", true;
    /// A text with characters that may not stand there.
    InvalidText = "invalid-text", false;
    /// `call` is no `tool.function`.
    InvalidCall = "invalid-call", true;
    /// Not an address that an MCP server can have.
    InvalidUrl = "invalid-url", false;
    /// Not `provider/model`.
    InvalidModel = "invalid-model", true;
    /// Not a JSON Schema that can be used.
    InvalidSchema = "invalid-schema", false;
    /// Keys that can't stand together.
    KeyConflict = "key-conflict", true;
    /// `tools` in the `match` of a hook that no call triggers.
    ToolsOnJobEvent = "tools-on-job-event", true;

    /// An id that harnesses or built-in functions have.
    ReservedId = "reserved-id", true;
    /// A header that the transport itself sets.
    ReservedHeader = "reserved-header", false;
    /// A policy hook that calls a lifecycle function.
    LifecycleCall = "lifecycle-call", true;
    /// An id that stands twice.
    DuplicateId = "duplicate-id", false;
    /// An entry that stands twice in a list.
    DuplicateEntry = "duplicate-entry", false;
    /// A secret in the file itself.
    SecretInManifest = "secret-in-manifest", false;
    /// A value whose name says that it is a secret.
    MaybeSecret = "maybe-secret", false;
    /// `${NAME}` where nothing replaces it.
    NoInterpolation = "no-interpolation", false;
    /// Headers sent unencrypted over a network.
    PlainHttp = "plain-http", false;
    /// A plugin that declares nothing.
    NothingDeclared = "nothing-declared", false;
    /// A pattern that fits no known function or agent.
    PatternFitsNothing = "pattern-fits-nothing", false;

    /// A tool id that no plugin of the tenant declares.
    UnknownTool = "unknown-tool", false;
    /// An agent that no plugin of the tenant declares.
    UnknownAgent = "unknown-agent", false;
    /// A function that its tool does not list.
    UnknownFunction = "unknown-function", false;
    /// A tool whose functions could not be listed.
    ToolFailed = "tool-failed", false;
    /// A function that starts with `_` and is no lifecycle hook that Hookwright knows.
    UnknownLifecycle = "unknown-lifecycle", false;

    /// `*` together with names of servers.
    InvalidServers = "invalid-servers", false;
    /// A variable that `from` names and the tenant's `secrets` do not.
    SecretNotAllowed = "secret-not-allowed", false;
    /// A name under `approvers` that is nearly a group's.
    ApproverUnknown = "approver-unknown", false;
    /// A path that would not mean what it looks like.
    InvalidPath = "invalid-path", true;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.text())
    }
}
