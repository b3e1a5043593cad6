//! What stays of a conversation, and how much room what becomes of the rest gets.

use super::Rate;
use super::{GO_ON, SUMMARY_LEAD, instructions};
use serde::{Deserialize, Serialize};

/// The least that is left of a result, with the frame around it.
const LEAST_RESULT: u64 = 220;
/// What stands around a result: its function's name, ids, the mark where its middle was.
const RESULT_FRAME: u64 = 120;
/// The least transcript that is worth a request.
const LEAST_TRANSCRIPT: u64 = 300;
/// Tokens of a summary at most.
const MOST_SUMMARY: u64 = 4_096;
/// Bytes of a transcript at most, however large the window is.
const MOST_TRANSCRIPT: u64 = 4 * 1024 * 1024;
/// Bytes of our words around that prompt.
const FIRST_FRAME: u64 = 60;
/// The part of a window that a session's first prompt may have, to be kept.
const FIRST_PART: u64 = 8;
/// Bytes of the two messages that stand for what was replaced, beside the summary itself.
pub(super) const FRAME: u64 = SUMMARY_LEAD.len() as u64 + GO_ON.len() as u64 + 120;

/// A message as a plan sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its bytes in a request.
    pub bytes: u64,
    /// Whether it is the result of a call.
    pub result: bool,
    /// Whether it begins a turn: something that the model said.
    pub turn: bool,
}

/// What a plan must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The model's window in tokens, where it is known.
    pub window: Option<u64>,
    /// Bytes of a request that the provider refused as too long, where it did.
    pub refused_bytes: Option<u64>,
    /// Tokens for each byte.
    pub rate: Rate,
    /// Bytes of schemas and instructions.
    pub overhead_bytes: u64,
    /// Bytes of messages before the job's own, from earlier jobs of the session; a compaction replaces them all.
    pub earlier_bytes: u64,
    /// Bytes of the session's first prompt, which is kept where it is small; 0 where there is none beside the job's own input.
    pub first_bytes: u64,
    /// How many messages after the job's input stand for an earlier compaction.
    pub frame: usize,
    /// How often in a row the conversation was compacted without an answer between: the next time cuts deeper.
    pub level: u32,
}

/// What a compaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// Messages from this one on stay, beside the first (the job's input); those between are replaced, with all messages
    /// of the session's earlier jobs. 1 in a session's first job: none is replaced, only results are cut.
    pub keep_from: usize,
    /// Tokens of the summary; 0 where none is made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summary_tokens: u32,
    /// Bytes of the transcript that it is made from.
    #[serde(default, skip_serializing_if = "is_none")]
    pub transcript_bytes: u64,
    /// Bytes of each result that stays; absent: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Whether the session's first prompt, an earlier job's, is said again word for word behind the summary.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_first: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(it: &bool) -> bool {
    !*it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(n: &u64) -> bool {
    *n == 0
}

/// What can't be left out is larger than the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the model's window of {window} tokens is too small: the agent's instructions and functions need about {overhead_tokens} tokens, \
     and the job's input about {task_tokens}. Offer fewer functions, shorten instructions or input, choose a model with a larger window, or set `context_window` if its window is larger"
)]
pub struct TooSmall {
    /// Tokens of the window.
    pub window: u64,
    /// About so many tokens of schemas and instructions.
    pub overhead_tokens: u64,
    /// About so many tokens of the job's input.
    pub task_tokens: u64,
}

/// Checks that what can't be left out fits a window, with a sixteenth of it for an answer.
pub fn essentials(window: u64, rate: Rate, overhead_bytes: u64, task_bytes: u64) -> Result<(), TooSmall> {
    let (overhead_tokens, task_tokens) = (rate.tokens(overhead_bytes), rate.tokens(task_bytes));
    if overhead_tokens.saturating_add(task_tokens) > window - window / 16 {
        return Err(TooSmall { window, overhead_tokens, task_tokens });
    }
    Ok(())
}

/// Plans a compaction of a conversation whose first message is the job's input. None where nothing can be left out, or it would not
/// help; so a plan always makes the conversation shorter.
pub fn plan(parts: &[Part], needs: &Needs) -> Option<Plan> {
    let first = needs.first_bytes;
    let limit =
        needs.window.map_or(u64::MAX, |window| needs.rate.bytes(window)).min(needs.refused_bytes.unwrap_or(u64::MAX));
    if first > 0 && first <= limit / FIRST_PART {
        let with = plan_with(parts, needs, first + FIRST_FRAME).filter(|plan| plan.summary_tokens > 0);
        if let Some(plan) = with {
            return Some(Plan { keep_first: true, ..plan });
        }
    }
    plan_with(parts, needs, 0)
}

/// A plan that leaves so many bytes to the session's first prompt.
fn plan_with(parts: &[Part], needs: &Needs, first: u64) -> Option<Plan> {
    let (task, rest) = parts.split_first()?;
    let limit = match (needs.window, needs.refused_bytes) {
        (Some(window), Some(refused)) => needs.rate.bytes(window).min(refused),
        (Some(window), None) => needs.rate.bytes(window),
        (None, refused) => refused?,
    };
    let fixed = needs.overhead_bytes.saturating_add(task.bytes).saturating_add(first);
    let free = limit.checked_sub(fixed).filter(|free| *free >= 2 * FRAME)?;
    // Each further time in a row aims lower.
    let target = match needs.level {
        0 => limit / 100 * 55,
        1 => limit / 100 * 35,
        _ => limit / 100 * 20,
    };
    let room = target.saturating_sub(fixed).max(free / (3 + u64::from(needs.level.min(3))));
    let summary = (room / 3).min(needs.rate.bytes(MOST_SUMMARY)).max(room.min(FRAME) / 2);
    let most = free * 4 / 5;
    let budget = room.saturating_sub(summary).saturating_sub(FRAME);
    let largest =
        if needs.level == 0 { most.saturating_sub(summary).saturating_sub(FRAME).max(budget) } else { budget };
    let (keep_from, result_bytes) = tail(rest, budget, largest);
    let replaced = &rest[..keep_from - 1];
    let replaced_bytes = replaced.iter().fold(needs.earlier_bytes, |sum, part| sum.saturating_add(part.bytes));
    // A summary of a summary alone says less and costs a request.
    let only_frame = needs.earlier_bytes == 0 && needs.level == 0 && replaced.len() <= needs.frame;
    // The first prompt is part of what is replaced, and comes back.
    if only_frame || replaced_bytes.saturating_sub(first) <= 2 * FRAME {
        return result_bytes.map(|cap| Plan {
            keep_from: 1,
            summary_tokens: 0,
            transcript_bytes: 0,
            result_bytes: Some(cap),
            keep_first: false,
        });
    }
    let summary = summary.min(replaced_bytes.saturating_sub(first) / 2);
    let summary_tokens = u32::try_from(needs.rate.tokens(summary)).unwrap_or(u32::MAX);
    let prompt = instructions(summary_tokens).len() as u64;
    // The transcript, the prompt and the answer must fit the window too.
    let transcript_bytes = ((limit / 100 * 55) >> needs.level.min(2)).saturating_sub(prompt);
    Some(Plan {
        keep_from,
        summary_tokens,
        transcript_bytes: transcript_bytes.clamp(LEAST_TRANSCRIPT, MOST_TRANSCRIPT),
        result_bytes,
        keep_first: false,
    })
}

/// The longest tail of whole turns within `budget`, as an index into all messages, and what its results are cut to. The last turn stays
/// even where it needs up to `largest`, its results cut; beyond that nothing stays.
fn tail(rest: &[Part], budget: u64, largest: u64) -> (usize, Option<u64>) {
    let (mut from, mut sum) = (None, 0_u64);
    for (i, part) in rest.iter().enumerate().rev() {
        sum = sum.saturating_add(part.bytes);
        if part.turn {
            if sum > budget {
                break;
            }
            from = Some(i);
        }
    }
    if let Some(from) = from {
        return (from + 1, None);
    }
    let Some(last) = rest.iter().rposition(|part| part.turn) else { return (1, None) };
    let (results, said): (Vec<&Part>, Vec<&Part>) = rest[last..].iter().partition(|part| part.result);
    let sum = |parts: &[&Part]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
    let said = sum(&said);
    if said.saturating_add(sum(&results)) <= largest {
        return (last + 1, None);
    }
    let (n, room) = (results.len() as u64, budget.max(largest / 2).saturating_sub(said));
    if n > 0 && room / n >= LEAST_RESULT {
        return (last + 1, Some(room / n - RESULT_FRAME));
    }
    (rest.len() + 1, None)
}
