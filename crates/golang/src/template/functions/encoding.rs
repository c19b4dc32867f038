//! Base 32 and 64, and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{self, Algorithm};

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::Text;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("b64enc", &[Text], |context, arguments| context.text(STANDARD.encode(arguments.text(0)))),
    TemplateFunction::new("b64dec", &[Text], |context, arguments| {
        let text = without_line_breaks(arguments.text(0));
        context.text(match STANDARD.decode(&text) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("illegal base64 data at input byte {}", fault(&error, text.len())),
        })
    }),
    TemplateFunction::new("b32enc", &[Text], |context, arguments| context.text(base32(arguments.text(0).as_bytes()))),
    TemplateFunction::new("b32dec", &[Text], |context, arguments| {
        let text = without_line_breaks(arguments.text(0));
        context.text(match from_base32(&text) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(position) => format!("illegal base32 data at input byte {position}"),
        })
    }),
    TemplateFunction::new("sha1sum", &[Text], |context, arguments| {
        sum(context, arguments, &digest::SHA1_FOR_LEGACY_USE_ONLY)
    }),
    TemplateFunction::new("sha256sum", &[Text], |context, arguments| sum(context, arguments, &digest::SHA256)),
    TemplateFunction::new("sha512sum", &[Text], |context, arguments| sum(context, arguments, &digest::SHA512)),
    TemplateFunction::new("adler32sum", &[Text], |context, arguments| {
        context.text(adler32(arguments.text(0).as_bytes()).to_string())
    }),
];

fn without_line_breaks(text: &str) -> String {
    text.replace(['\n', '\r'], "")
}

fn fault(error: &base64::DecodeError, length: usize) -> usize {
    match error {
        base64::DecodeError::InvalidByte(position, _) | base64::DecodeError::InvalidLastSymbol(position, _) => {
            *position
        }
        // The start of the last group.
        _ => length / 4 * 4,
    }
}

fn sum<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    algorithm: &'static Algorithm,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let digest = digest::digest(algorithm, arguments.text(0).as_bytes());
    context.text(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in bytes {
        low = (low + u32::from(byte)) % MODULUS;
        high = (high + low) % MODULUS;
    }
    high << 16 | low
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut written = String::with_capacity(bytes.len() * 8 / 5 + 8);
    for group in bytes.chunks(5) {
        let mut bits = [0u8; 8];
        bits[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(bits);
        let used = (group.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = usize::try_from(bits >> (35 - 5 * index) & 31).unwrap_or(0);
            written.push(if index < used { char::from(BASE32[digit]) } else { '=' });
        }
    }
    written
}

/// The bytes, or the position of the error.
fn from_base32(text: &str) -> Result<Vec<u8>, usize> {
    let digits = text.trim_end_matches('=');
    let padded = text.len().is_multiple_of(8) && text.len() - digits.len() < 8;
    if !padded || matches!(digits.len() % 8, 1 | 3 | 6) {
        return Err(digits.bytes().position(|byte| !BASE32.contains(&byte)).unwrap_or(digits.len() / 8 * 8));
    }
    let mut bytes = Vec::with_capacity(digits.len() * 5 / 8);
    let (mut bits, mut count) = (0u32, 0);
    for (position, byte) in digits.bytes().enumerate() {
        let digit = BASE32.iter().position(|digit| *digit == byte).ok_or(position)?;
        bits = (bits << 5 | u32::try_from(digit).unwrap_or(0)) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or(0));
        }
    }
    Ok(bytes)
}
