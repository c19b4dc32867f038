//! The functions of expressions: name, signatures, cost and implementation (CEL-006, CEL-015).
//!
//! Each file holds a table of its functions. A function checks the types of its arguments at run time; the signatures
//! list the possible combinations, the first argument being the receiver of a method.

mod address;
mod core;
mod format;
pub(super) mod list;
mod optional;
pub(super) mod printf;
mod quantity;
pub(super) mod text;
pub(super) mod time;
mod url;
mod version;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::fault::EvalError;
use super::meter::Meter;
use super::types::CelType;
use super::value::Val;

/// Sizes of arguments by position, of the result at [`RESULT`], and of an element of the first argument at [`ELEMENT`].
pub(super) type ArgumentSizes<'a> = &'a dyn Fn(usize) -> u64;

/// Minimum and maximum size of a value: characters, bytes or elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeRange {
    pub min: u64,
    pub max: u64,
}

impl SizeRange {
    pub(super) const UNKNOWN: SizeRange = SizeRange { min: 0, max: u64::MAX };

    pub(super) const fn fixed(size: u64) -> SizeRange {
        SizeRange { min: size, max: size }
    }

    pub(super) const fn up_to(max: u64) -> SizeRange {
        SizeRange { min: 0, max }
    }

    /// The range that contains both.
    pub(super) fn or(self, other: SizeRange) -> SizeRange {
        SizeRange { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn plus(self, other: SizeRange) -> SizeRange {
        SizeRange { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: SizeRange) -> SizeRange {
        SizeRange { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

/// Size ranges of arguments by position, and of an element of the first argument at [`ELEMENT`].
pub(super) type SizeRanges<'a> = &'a dyn Fn(usize) -> SizeRange;

/// The size of a result, given the sizes of the arguments.
pub(super) type ResultSize = fn(SizeRanges<'_>) -> SizeRange;

/// Position of the result among the sizes.
pub(super) const RESULT: usize = usize::MAX;

/// Position, among the sizes, of the strings or bytes in a list. It is zero for other lists, and during evaluation,
/// where comparisons of long strings are charged separately.
pub(super) const ELEMENT: usize = usize::MAX - 1;

/// The result of a function call.
pub(super) type EvalResult<'v> = Result<Val<'v>, EvalError>;

/// The implementation of a function.
pub(super) type Implementation = for<'v> fn(&mut Meter, &[Val<'v>]) -> Result<Val<'v>, EvalError>;

/// A function or a method.
#[derive(Debug)]
pub(super) struct Function {
    pub name: &'static str,
    pub is_method: bool,
    /// `string int->bool`
    pub signatures: &'static [&'static str],
    pub price: fn(ArgumentSizes<'_>) -> u64,
    /// The size of the result, given the sizes of the arguments. Without it, a result that is no scalar has no maximum
    /// size (CEL-028).
    pub result_size: Option<ResultSize>,
    pub run: Implementation,
}

/// One signature of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub params: Vec<CelType>,
    pub result: CelType,
    pub function: &'static Function,
}

/// Functions with a regular expression as their second argument.
pub(super) const SEARCHES: [&str; 3] = ["matches", "find", "findAll"];

const fn function(
    name: &'static str,
    signatures: &'static [&'static str],
    price: fn(ArgumentSizes<'_>) -> u64,
    run: Implementation,
) -> Function {
    Function { name, is_method: false, signatures, price, result_size: None, run }
}

const fn method(
    name: &'static str,
    signatures: &'static [&'static str],
    price: fn(ArgumentSizes<'_>) -> u64,
    run: Implementation,
) -> Function {
    Function { name, is_method: true, signatures, price, result_size: None, run }
}

impl Function {
    const fn sized(mut self, result_size: ResultSize) -> Function {
        self.result_size = Some(result_size);
        self
    }
}

/// The size of the first argument.
fn first(sizes: SizeRanges<'_>) -> SizeRange {
    sizes(0)
}

/// At most the size of the first argument.
fn part_of_first(sizes: SizeRanges<'_>) -> SizeRange {
    SizeRange::up_to(sizes(0).max)
}

/// The sizes of the first two arguments together.
fn both(sizes: SizeRanges<'_>) -> SizeRange {
    sizes(0).plus(sizes(1))
}

/// The square of the size of the first argument, as Kubernetes' estimator has it for sorted and distinct elements.
fn square_of_first(sizes: SizeRanges<'_>) -> SizeRange {
    sizes(0).times(sizes(0))
}

/// One unit.
fn one(_: ArgumentSizes<'_>) -> u64 {
    1
}

/// `count` tenths of a size, rounded up; at least one unit unless the size is zero.
fn tenths(count: u64, size: u64) -> u64 {
    size.saturating_mul(count).div_ceil(10)
}

/// Overloads by name and by whether they are methods.
type OverloadTable<'n> = HashMap<(&'n str, bool), &'static [Overload]>;

static TABLE: LazyLock<OverloadTable<'static>> = LazyLock::new(|| {
    let tables: [&'static [Function]; 10] = [
        core::FUNCTIONS,
        text::FUNCTIONS,
        list::FUNCTIONS,
        optional::FUNCTIONS,
        time::FUNCTIONS,
        url::FUNCTIONS,
        address::FUNCTIONS,
        quantity::FUNCTIONS,
        version::FUNCTIONS,
        format::FUNCTIONS,
    ];
    let mut table: HashMap<_, Vec<Overload>> = HashMap::new();
    for function in tables.into_iter().flatten() {
        for signature in function.signatures {
            let (params, result) = signature.split_once("->").expect("signatures are constants");
            let params = params.split_whitespace().map(CelType::read).collect();
            let overload = Overload { params, result: CelType::read(result), function };
            table.entry((function.name, function.is_method)).or_default().push(overload);
        }
    }
    // The table lives for the whole process.
    table.into_iter().map(|(name, overloads)| (name, &*overloads.leak())).collect()
});

/// The names of functions, or of methods, sorted.
pub(super) fn names(are_methods: bool) -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> =
        TABLE.keys().filter(|(_, is_method)| *is_method == are_methods).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.into_iter()
}

/// The overloads of a name.
pub(super) fn overloads(name: &str, is_method: bool) -> Option<&'static [Overload]> {
    // Shortens the lifetime of the table, so that any name can be looked up.
    fn find<'n>(table: &OverloadTable<'n>, name: &'n str, is_method: bool) -> Option<&'static [Overload]> {
        table.get(&(name, is_method)).copied()
    }
    find(&TABLE, name, is_method)
}

/// Whether values of a type are ordered.
pub(super) fn is_ordered(ty: &CelType) -> bool {
    matches!(
        ty,
        CelType::Dyn
            | CelType::Bool
            | CelType::Int
            | CelType::Uint
            | CelType::Double
            | CelType::Text
            | CelType::Bytes
            | CelType::Duration
            | CelType::Timestamp
            | CelType::Open(_)
    )
}

/// The error for arguments without an overload.
fn unfit(args: &[Val<'_>]) -> EvalError {
    let types: Vec<_> = args.iter().map(Val::type_name).collect();
    EvalError::failed(format!("no such overload for ({})", types.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        let count: usize = TABLE.values().map(|overloads| overloads.len()).sum();
        assert!(count > 250, "{count}");
        for overload in TABLE.values().copied().flatten() {
            assert!(overload.params.len() <= 4, "{}", overload.function.name);
            assert!(overload.function.is_method <= !overload.params.is_empty(), "{}", overload.function.name);
        }
    }
}
