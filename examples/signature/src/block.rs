//! The signature block, and what it covers.
//!
//! A signed output is the text, an empty line, and the block:
//!
//! ```text
//! -----BEGIN HOOKWRIGHT SIGNATURE-----
//! version: 1
//! key: <32 hex digits: the first 16 bytes of the public key's SHA-256>
//! job: <JSON string>
//! agent: <JSON string>
//! signature: <128 hex digits: Ed25519>
//! -----END HOOKWRIGHT SIGNATURE-----
//! ```
//!
//! Signed is the domain `hookwright output signature v1`, a zero byte, then job, agent and text in UTF-8, each with its length
//! in bytes before it (64 bits, big-endian). So no text signed for another purpose, and no other split into job, agent and
//! text, has the same signature.
//!
//! Invariant: there is exactly one spelling of a block; [`verify`] renders what it parsed and compares.

#[cfg(test)]
mod tests;

use crate::key;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

const BEGIN: &str = "-----BEGIN HOOKWRIGHT SIGNATURE-----";
const END: &str = "-----END HOOKWRIGHT SIGNATURE-----";
const DOMAIN: &[u8] = b"hookwright output signature v1\0";

/// What a good signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed<'a> {
    /// The output without its block.
    pub text: &'a str,
    /// The job that gave it.
    pub job: String,
    /// The agent that gave it.
    pub agent: String,
}

/// Why a text does not verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No block at the end.
    #[error("the text does not end with a signature block")]
    NoBlock,
    /// A block that no signer writes.
    #[error("the signature block is damaged")]
    Damaged,
    /// A block of another key.
    #[error("it was signed with another key ({found}, not {expected})")]
    OtherKey {
        /// The id in the block, 32 hex digits.
        found: String,
        /// The id of the key that was given.
        expected: String,
    },
    /// Text, job, agent or signature differ from what was signed.
    #[error("the signature does not fit: the text or the block was changed, or the block is forged")]
    Forged,
}

fn message(job: &str, agent: &str, text: &str) -> Vec<u8> {
    let mut message = DOMAIN.to_vec();
    for part in [job, agent, text] {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part.as_bytes());
    }
    message
}

fn render(key_id: &str, job: &str, agent: &str, signature: &Signature) -> String {
    // A JSON string holds no line break, whatever is in it.
    let (job, agent) = (serde_json::Value::from(job), serde_json::Value::from(agent));
    let signature = hex::encode(signature.to_bytes());
    format!("{BEGIN}\nversion: 1\nkey: {key_id}\njob: {job}\nagent: {agent}\nsignature: {signature}\n{END}")
}

/// The text with its signature block. A block that stands in the text already is part of what is signed.
pub fn sign(secret: &SigningKey, job: &str, agent: &str, text: &str) -> String {
    let signature = secret.sign(&message(job, agent, text));
    format!("{text}\n\n{}", render(&key::id(&secret.verifying_key()), job, agent, &signature))
}

/// Checks a signed text. One line break at its end is ignored, as programs that print it add one.
pub fn verify<'a>(public: &VerifyingKey, signed: &'a str) -> Result<Signed<'a>, VerifyError> {
    let signed = signed.strip_suffix('\n').unwrap_or(signed);
    let (text, block) = signed
        .rfind(&format!("\n\n{BEGIN}\n"))
        .map(|at| (&signed[..at], &signed[at + 2..]))
        .ok_or(VerifyError::NoBlock)?;
    if !block.ends_with(&format!("\n{END}")) {
        return Err(VerifyError::NoBlock);
    }
    let (key_id, job, agent, signature) = parse(block).ok_or(VerifyError::Damaged)?;
    let expected = key::id(public);
    if key_id != expected {
        return Err(VerifyError::OtherKey { found: key_id.to_owned(), expected });
    }
    // `verify_strict` also refuses weak keys and signatures that were bent without the secret.
    public.verify_strict(&message(&job, &agent, text), &signature).map_err(|_| VerifyError::Forged)?;
    Ok(Signed { text, job, agent })
}

/// The fields of a block, if it is spelled as [`render`] spells them.
fn parse(block: &str) -> Option<(&str, String, String, Signature)> {
    let mut lines = block.lines().skip(2);
    let key_id = lines.next()?.strip_prefix("key: ")?;
    let job: String = serde_json::from_str(lines.next()?.strip_prefix("job: ")?).ok()?;
    let agent: String = serde_json::from_str(lines.next()?.strip_prefix("agent: ")?).ok()?;
    let signature = hex::decode(lines.next()?.strip_prefix("signature: ")?).ok()?;
    let signature = Signature::from_slice(&signature).ok()?;
    let plain_id = key_id.len() == 32 && key_id.bytes().all(|b| b.is_ascii_hexdigit());
    (plain_id && render(key_id, &job, &agent, &signature) == block).then_some((key_id, job, agent, signature))
}
