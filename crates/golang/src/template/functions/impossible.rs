//! Functions that are not deterministic or generate keys: known to the parser, an error when rendered (DEC-12, TV-05).

use super::super::error::RenderFailure;
use super::Parameter::Any;
use super::{FunctionKind, TemplateFunction};

/// Declares functions that fail with their name.
macro_rules! impossible {
    ($($name:literal;)*) => {
        pub(super) const FUNCTIONS: &[TemplateFunction] = &[$(TemplateFunction {
            name: $name,
            parameters: &[],
            further: Some(Any),
            action: FunctionKind::Call(|_, _| Err(RenderFailure::NotDeterministic($name))),
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
