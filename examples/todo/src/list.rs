//! The list itself.
//!
//! Invariant: an item's number never changes and is never given to another item.
//! Invariant: a change is made whole or not at all.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

/// Items of a list, ticked and dropped ones included.
pub const MAX_ITEMS: usize = 200;
/// Characters of an item's text.
pub const ITEM_CHARS: usize = 300;

/// What was planned, in the order it was added.
#[derive(Debug, Default)]
pub struct List {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    text: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Done,
    Dropped,
}

/// Why a change was not made; worded for the model that reads it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Nothing was given.
    #[error("name at least one item")]
    Nothing,
    /// An item without text, or with too much.
    #[error("an item is one line of 1 to {ITEM_CHARS} characters")]
    Text,
    /// No room.
    #[error("a list holds at most {MAX_ITEMS} items, this one has {0}")]
    Full(usize),
    /// No such number.
    #[error("there is no open item {0}; `list` shows them")]
    NotOpen(usize),
}

impl List {
    /// Adds items; returns the number of the first. White space at the ends and line ends within become single spaces.
    pub fn add(&mut self, texts: &[String]) -> Result<usize, ListError> {
        if texts.is_empty() {
            return Err(ListError::Nothing);
        }
        if self.items.len() + texts.len() > MAX_ITEMS {
            return Err(ListError::Full(self.items.len()));
        }
        let mut fresh = Vec::with_capacity(texts.len());
        for text in texts {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.is_empty() || text.chars().count() > ITEM_CHARS {
                return Err(ListError::Text);
            }
            fresh.push(Item { text, state: State::Open });
        }
        let first = self.items.len() + 1;
        self.items.extend(fresh);
        Ok(first)
    }

    /// Marks open items as done.
    pub fn tick(&mut self, numbers: &[usize]) -> Result<(), ListError> {
        self.settle(numbers, State::Done)
    }

    /// Takes open items off the list: they turned out not to be needed.
    pub fn drop_items(&mut self, numbers: &[usize]) -> Result<(), ListError> {
        self.settle(numbers, State::Dropped)
    }

    fn settle(&mut self, numbers: &[usize], state: State) -> Result<(), ListError> {
        if numbers.is_empty() {
            return Err(ListError::Nothing);
        }
        let is_open =
            |n: usize| n.checked_sub(1).and_then(|i| self.items.get(i)).is_some_and(|i| i.state == State::Open);
        if let Some(wrong) = numbers.iter().find(|n| !is_open(**n)) {
            return Err(ListError::NotOpen(*wrong));
        }
        for number in numbers {
            self.items[number - 1].state = state;
        }
        Ok(())
    }

    /// How many items are open.
    pub fn open(&self) -> usize {
        self.items.iter().filter(|i| i.state == State::Open).count()
    }

    /// What to say where the model ends its turn: nothing once all items are done or dropped.
    ///
    /// `left` is how many objections will be heard after this one, where the agent tells.
    pub fn objection(&self, left: Option<u32>) -> Option<String> {
        let open = self.open();
        if open == 0 {
            return None;
        }
        let mut text =
            format!("{open} of {} to-do items {} open:\n", self.planned(), if open == 1 { "is" } else { "are" });
        for (number, item) in self.numbered().filter(|(_, i)| i.state == State::Open) {
            let _ = writeln!(text, "{number}. {}", item.text);
        }
        text.push_str("Do them and `tick` them, or `drop` those that are not needed and say why.");
        if left == Some(0) {
            text.push_str(" This is the last reminder.");
        }
        Some(text)
    }

    /// The whole list for the model, nothing where there is none.
    pub fn shown(&self) -> Option<String> {
        if self.planned() == 0 {
            return None;
        }
        let mut text = format!("The to-do list, {} of {} done:\n", self.planned() - self.open(), self.planned());
        for (number, item) in self.numbered().filter(|(_, i)| i.state != State::Dropped) {
            let mark = if item.state == State::Done { "x" } else { " " };
            let _ = writeln!(text, "{number}. [{mark}] {}", item.text);
        }
        text.pop();
        Some(text)
    }

    fn planned(&self) -> usize {
        self.items.iter().filter(|i| i.state != State::Dropped).count()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Item)> {
        (1..).zip(&self.items)
    }
}
