//! Events of the YAML parser → the tree.

use super::mapping::{Done, MapBody};
use super::node::{Kind, Node};
use super::source::{SourceText, quoted};
use super::{MAX_DEPTH, MAX_TEXT_BYTES, MAX_VALUES, Sink, scalar};
use crate::diagnostic::{Code, Place};
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, Tag};
use std::collections::HashMap;
use std::rc::Rc;

/// A list or mapping that is not complete yet.
struct Open {
    place: Place,
    anchor: usize,
    body: Body,
}

enum Body {
    List(Vec<Rc<Node>>),
    Map(MapBody),
}

/// Stops at the first fault in the YAML itself: what follows it can't be trusted to mean anything.
struct Stop;

struct Composer<'a, 's> {
    sink: &'a mut Sink<'s>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    values: usize,
    bytes: usize,
}

pub(super) fn compose(source: &SourceText<'_>, sink: &mut Sink<'_>) -> Option<Rc<Node>> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_unresolved_aliases: true,
    };
    options.set_emit_comments(false);
    let mut composer = Composer { sink, open: Vec::new(), anchors: HashMap::new(), root: None, values: 0, bytes: 0 };
    for next in Parser::new_from_str_with_options(source.text, options) {
        let step = match next {
            Ok((event, span)) => composer.event(event, &span),
            Err(error) => {
                composer.syntax(error.kind(), at(error.marker()));
                Err(Stop)
            }
        };
        if step.is_err() {
            return None;
        }
    }
    let root = composer.root.take();
    if root.as_ref().is_none_or(|node| matches!(node.kind, Kind::Null)) {
        sink.error(Place::START, Code::Empty, "the file says nothing: expected a mapping of keys and values");
        return None;
    }
    root
}

fn is_bare(tag: &Tag) -> bool {
    tag.handle().is_empty() && tag.suffix() == "!"
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn at(mark: &Marker) -> Place {
    Place { line: number(mark.line().max(1)), column: number(mark.col() + 1), length: 1 }
}

fn place_of(span: &Span) -> Place {
    let start = at(&span.start);
    // A block scalar, a list or a mapping goes on over many lines: its beginning is the place.
    let length = if span.end.line() == span.start.line() { span.end.col().saturating_sub(span.start.col()) } else { 1 };
    Place { length: number(length.max(1)), ..start }
}

impl Composer<'_, '_> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Stop> {
        let place = place_of(span);
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                self.sink
                    .error(place, Code::YamlDocuments, "a second YAML document begins here: expected one in a file")
                    .hint("put the other into a file of its own");
                Err(Stop)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(place, 1, text.len())?;
                let done = self.scalar(&text, style, tag.as_deref(), place, span);
                self.finish(anchor, done)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), "seq", place, span);
                self.begin(place, anchor, Body::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), "map", place, span);
                self.begin(place, anchor, Body::Map(MapBody::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id).cloned() else {
                    self.sink.error(
                        place,
                        Code::YamlAlias,
                        "this alias stands within what it names: it would never end",
                    );
                    return Err(Stop);
                };
                self.count(place, node.values, node.bytes)?;
                let text = match &node.kind {
                    Kind::Text(text) => Some(text.clone()),
                    _ => None,
                };
                self.finish(0, Done { node, text, merge: false })
            }
            Event::UnresolvedAlias(name) => {
                self.sink
                    .error(place, Code::YamlAlias, format!("no anchor is named {}", quoted(&name)))
                    .hint(QUOTE_STAR);
                Err(Stop)
            }
            _ => Ok(()),
        }
    }

    /// Counts values and bytes of text: once where they are written, and again wherever an alias repeats them.
    fn count(&mut self, place: Place, values: usize, bytes: usize) -> Result<(), Stop> {
        self.values += values;
        self.bytes += bytes;
        if self.values <= MAX_VALUES && self.bytes <= MAX_TEXT_BYTES {
            return Ok(());
        }
        let message = format!("more than {MAX_VALUES} values, or 4 MiB of text, once aliases are followed");
        self.sink.error(place, Code::TooManyValues, message);
        Err(Stop)
    }

    fn begin(&mut self, place: Place, anchor: usize, body: Body) -> Result<(), Stop> {
        if self.open.len() >= MAX_DEPTH {
            return self.too_nested(place);
        }
        self.count(place, 1, 0)?;
        self.open.push(Open { place, anchor, body });
        Ok(())
    }

    fn too_nested(&mut self, place: Place) -> Result<(), Stop> {
        let message = format!("lists and mappings stand more than {MAX_DEPTH} deep within each other");
        self.sink.error(place, Code::TooNested, message);
        Err(Stop)
    }

    fn end(&mut self) -> Result<(), Stop> {
        let Some(Open { place, anchor, body }) = self.open.pop() else { return Ok(()) };
        let kind = match body {
            Body::List(items) => Kind::List(items),
            Body::Map(map) => Kind::Map(map.close()),
        };
        let node = Rc::new(measured(place, kind));
        self.finish(anchor, Done { node, text: None, merge: false })
    }

    /// Puts a finished node where it belongs.
    fn finish(&mut self, anchor: usize, done: Done) -> Result<(), Stop> {
        let place = done.node.place;
        if anchor != 0 {
            self.anchors.insert(anchor, done.node.clone());
        }
        if self.open.len() + done.node.depth > MAX_DEPTH {
            return self.too_nested(place);
        }
        match self.open.last_mut().map(|open| &mut open.body) {
            None => self.root = Some(done.node),
            Some(Body::List(items)) => items.push(done.node),
            Some(Body::Map(map)) => map.take(done, self.sink),
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, place: Place, span: &Span) -> Done {
        let kind = match tag.map(|tag| (tag, tag.core_suffix())) {
            None if style == ScalarStyle::Plain => scalar::plain(text),
            None | Some((_, Some("str"))) => Kind::Text(text.to_owned()),
            // `!` alone makes a scalar text.
            Some((tag, _)) if is_bare(tag) => Kind::Text(text.to_owned()),
            Some((tag, core)) => {
                let kind = scalar::plain(text);
                let fits = match core {
                    Some("null") => matches!(kind, Kind::Null),
                    Some("bool") => matches!(kind, Kind::Bool(_)),
                    Some("int") => matches!(&kind, Kind::Number(n) if !n.is_f64()),
                    Some("float") => matches!(kind, Kind::Number(_) | Kind::NotFinite),
                    _ => false,
                };
                if fits {
                    kind
                } else {
                    let place = span.tag_span().map_or(place, |span| place_of(&span));
                    let message = match core {
                        Some(_) => format!("the tag {} does not fit the value", quoted(&tag.original())),
                        None => format!("the tag {} means nothing here", quoted(&tag.original())),
                    };
                    self.sink.error(place, Code::YamlTag, message).hint("leave the tag out");
                    Kind::Text(text.to_owned())
                }
            }
        };
        let merge = tag.is_none() && style == ScalarStyle::Plain && text == "<<";
        let node = Rc::new(measured(place, kind));
        let is_null = matches!(node.kind, Kind::Null);
        Done { node, text: (!is_null).then(|| text.to_owned()), merge }
    }

    fn tag(&mut self, tag: Option<&Tag>, expected: &str, place: Place, span: &Span) {
        let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema_tag(expected)) else { return };
        let place = span.tag_span().map_or(place, |span| place_of(&span));
        let message = format!("the tag {} means nothing here", quoted(&tag.original()));
        self.sink.error(place, Code::YamlTag, message).hint("leave the tag out");
    }

    fn syntax(&mut self, kind: &ErrorKind, place: Place) {
        match kind {
            ErrorKind::RecursionLimitExceeded => {
                let _ = self.too_nested(place);
            }
            ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar => {
                self.sink
                    .error(place, Code::YamlSyntax, "a tab stands in the indentation: YAML takes spaces only")
                    .hint("replace tabs by spaces");
            }
            ErrorKind::MissingAnchorOrAliasName => {
                self.sink.error(place, Code::YamlSyntax, "`*` or `&` without a name").hint(QUOTE_STAR);
            }
            kind => {
                self.sink.error(
                    place,
                    Code::YamlSyntax,
                    format!("not valid YAML: {}", crate::text::escape(&kind.to_string())),
                );
            }
        }
    }
}

const QUOTE_STAR: &str = "a text that begins with `*` needs quotes: \"*.push\"";

fn measured(place: Place, kind: Kind) -> Node {
    let (mut values, mut bytes, mut depth) = (1, 0, 0);
    let mut add = |node: &Node| {
        values += node.values;
        bytes += node.bytes;
        depth = depth.max(node.depth);
    };
    match &kind {
        Kind::Text(text) => bytes += text.len(),
        Kind::List(items) => items.iter().for_each(|item| add(item)),
        Kind::Map(entries) => {
            for entry in entries {
                add(&entry.value);
            }
            bytes += entries.iter().map(|entry| entry.key.len()).sum::<usize>();
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::NotFinite => {}
    }
    let nested = matches!(kind, Kind::List(_) | Kind::Map(_));
    Node { place, values, bytes, depth: depth + usize::from(nested), kind }
}
