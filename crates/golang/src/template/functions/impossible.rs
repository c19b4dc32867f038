//! Functions whose result differs each time, or that make keys: known when parsing, an error when rendering (DEC-12,
//! TV-05).

use super::super::error::Failure;
use super::Parameter::Any;
use super::{Action, Function};

/// Declares functions that fail by their own name.
macro_rules! impossible {
    ($($name:literal;)*) => {
        pub(super) const FUNCTIONS: &[Function] = &[$(Function {
            name: $name,
            parameters: &[],
            further: Some(Any),
            action: Action::Call(|_, _| Err(Failure::NotDeterministic($name))),
        }),*];
    };
}

impossible! {
    "ago";
    "bcrypt";
    "buildCustomCert";
    "decryptAES";
    "derivePassword";
    "encryptAES";
    "genCA";
    "genCAWithKey";
    "genPrivateKey";
    "genSelfSignedCert";
    "genSelfSignedCertWithKey";
    "genSignedCert";
    "genSignedCertWithKey";
    "htpasswd";
    "randInt";
    "shuffle";
}
