//! The functions of expressions: name, signatures, cost and implementation (CEL-006, CEL-015).
//!
//! Each file holds a table of its functions. A function sees at run time what its arguments are; which combinations are
//! possible is said by the signatures, whose first argument is the receiver of a method.

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

use super::fault::Fault;
use super::meter::Meter;
use super::types::Type;
use super::value::Val;

/// Sizes of arguments by position, of the result at [`RESULT`], and of one element of the first argument at [`ELEMENT`].
pub(super) type Sizes<'a> = &'a dyn Fn(usize) -> u64;

/// The position of the result among sizes.
pub(super) const RESULT: usize = usize::MAX;

/// The position, among sizes, of the texts or bytes that a list has as its elements. It is nothing for other lists, and where
/// values are at hand: the comparison of long texts is then paid for by itself.
pub(super) const ELEMENT: usize = usize::MAX - 1;

/// What a call does.
pub(super) type Run = for<'v> fn(&mut Meter, &[Val<'v>]) -> Result<Val<'v>, Fault>;

/// A function or a method.
#[derive(Debug)]
pub(super) struct Function {
    pub name: &'static str,
    pub is_method: bool,
    /// `string int->bool`
    pub signatures: &'static [&'static str],
    pub price: fn(Sizes<'_>) -> u64,
    /// How large the result can be, given the largest arguments.
    pub grows: fn(Sizes<'_>) -> u64,
    pub run: Run,
}

/// One signature of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub params: Vec<Type>,
    pub result: Type,
    pub function: &'static Function,
}

/// Functions whose second argument is a regular expression.
pub(super) const SEARCHES: [&str; 3] = ["matches", "find", "findAll"];

const fn function(
    name: &'static str,
    signatures: &'static [&'static str],
    price: fn(Sizes<'_>) -> u64,
    run: Run,
) -> Function {
    Function { name, is_method: false, signatures, price, grows: first, run }
}

const fn method(
    name: &'static str,
    signatures: &'static [&'static str],
    price: fn(Sizes<'_>) -> u64,
    run: Run,
) -> Function {
    Function { name, is_method: true, signatures, price, grows: first, run }
}

impl Function {
    const fn growing(mut self, grows: fn(Sizes<'_>) -> u64) -> Function {
        self.grows = grows;
        self
    }
}

/// Most results are about as large as the first argument.
fn first(sizes: Sizes<'_>) -> u64 {
    sizes(0)
}

/// One unit.
fn one(_: Sizes<'_>) -> u64 {
    1
}

/// So many tenths of a size, rounded up; at least one unit for anything.
fn tenths(count: u64, size: u64) -> u64 {
    size.saturating_mul(count).div_ceil(10)
}

/// Overloads by name, for functions and for methods.
type Table<'n> = HashMap<(&'n str, bool), &'static [Overload]>;

static TABLE: LazyLock<Table<'static>> = LazyLock::new(|| {
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
            let params = params.split_whitespace().map(Type::read).collect();
            let overload = Overload { params, result: Type::read(result), function };
            table.entry((function.name, function.is_method)).or_default().push(overload);
        }
    }
    // The table lives as long as the program.
    table.into_iter().map(|(name, overloads)| (name, &*overloads.leak())).collect()
});

/// The names of functions, or of methods, sorted.
pub(super) fn names(are_methods: bool) -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> =
        TABLE.keys().filter(|(_, is_method)| *is_method == are_methods).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.into_iter()
}

/// The signatures under a name.
pub(super) fn overloads(name: &str, is_method: bool) -> Option<&'static [Overload]> {
    // A table of static names can be asked for any name.
    fn find<'n>(table: &Table<'n>, name: &'n str, is_method: bool) -> Option<&'static [Overload]> {
        table.get(&(name, is_method)).copied()
    }
    find(&TABLE, name, is_method)
}

/// Whether values of a type have an order.
pub(super) fn is_ordered(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Dyn
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::Open(_)
    )
}

/// No implementation for these kinds of arguments.
fn unfit(args: &[Val<'_>]) -> Fault {
    let types: Vec<_> = args.iter().map(Val::type_name).collect();
    Fault::of(format!("no such overload for ({})", types.join(", ")))
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
