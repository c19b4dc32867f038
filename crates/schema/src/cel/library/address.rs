//! IP addresses and ranges of them.

use std::net::IpAddr;

use super::{ArgumentSizes, Function, function, method, one, tenths, unfit};
use crate::cel::extended::{Cidr, address};
use crate::cel::fault::EvalError;
use crate::cel::value::Val;

pub(super) const FUNCTIONS: &[Function] = &[
    function("ip", &["string->ip"], scan, |_, args| match args {
        [Val::Text(text)] => read(text.as_str()).map(Val::Ip),
        _ => Err(unfit(args)),
    }),
    function("isIP", &["string->bool"], scan, |_, args| match args {
        [Val::Text(text)] => Ok(Val::Bool(address(text.as_str()).is_some())),
        _ => Err(unfit(args)),
    }),
    function(
        "ip.isCanonical",
        &["string->bool"],
        |size| tenths(2, size(0)),
        |_, args| match args {
            [Val::Text(text)] => Ok(Val::Bool(read(text.as_str())?.to_string() == text.as_str())),
            _ => Err(unfit(args)),
        },
    ),
    method("family", &["ip->int"], one, |_, args| match args {
        [Val::Ip(ip)] => Ok(Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => Err(unfit(args)),
    }),
    method("isUnspecified", &["ip->bool"], one, |_, args| claim(args, |ip| ip.is_unspecified())),
    method("isLoopback", &["ip->bool"], one, |_, args| claim(args, |ip| ip.is_loopback())),
    method("isLinkLocalMulticast", &["ip->bool"], one, |_, args| {
        claim(args, |ip| match ip {
            IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(ip) => matches!(ip.octets(), [0xff, second, ..] if second & 0x0f == 2),
        })
    }),
    method("isLinkLocalUnicast", &["ip->bool"], one, |_, args| claim(args, is_link_local)),
    method("isGlobalUnicast", &["ip->bool"], one, |_, args| {
        claim(args, |ip| {
            let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            let is_special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
            !is_special && !is_broadcast && !is_link_local(ip)
        })
    }),
    function("cidr", &["string->cidr"], scan, |_, args| match args {
        [Val::Text(text)] => range(text.as_str()).map(Val::Cidr),
        _ => Err(unfit(args)),
    }),
    function("isCIDR", &["string->bool"], scan, |_, args| match args {
        [Val::Text(text)] => Ok(Val::Bool(Cidr::read(text.as_str()).is_some())),
        _ => Err(unfit(args)),
    }),
    method("containsIP", &["cidr ip->bool"], |_| 4, contains_ip),
    method("containsIP", &["cidr string->bool"], |size| 4_u64.saturating_add(tenths(1, size(1))), contains_ip),
    method("containsCIDR", &["cidr cidr->bool"], |_| 7, contains_cidr),
    method("containsCIDR", &["cidr string->bool"], |size| 7_u64.saturating_add(tenths(1, size(1))), contains_cidr),
    method("ip", &["cidr->ip"], one, |_, args| match args {
        [Val::Cidr(cidr)] => Ok(Val::Ip(cidr.ip)),
        _ => Err(unfit(args)),
    }),
    method("masked", &["cidr->cidr"], one, |_, args| match args {
        [Val::Cidr(cidr)] => Ok(Val::Cidr(cidr.masked())),
        _ => Err(unfit(args)),
    }),
    method("prefixLength", &["cidr->int"], one, |_, args| match args {
        [Val::Cidr(cidr)] => Ok(Val::Int(cidr.bits.into())),
        _ => Err(unfit(args)),
    }),
];

fn scan(size: ArgumentSizes<'_>) -> u64 {
    tenths(1, size(0))
}

fn read(text: &str) -> Result<IpAddr, EvalError> {
    address(text).ok_or_else(|| EvalError::failed("IP Address parse error during conversion from string"))
}

fn range(text: &str) -> Result<Cidr, EvalError> {
    Cidr::read(text).ok_or_else(|| EvalError::failed("CIDR parse error during conversion from string"))
}

fn claim<'v>(args: &[Val<'v>], holds: fn(IpAddr) -> bool) -> Result<Val<'v>, EvalError> {
    match args {
        [Val::Ip(ip)] => Ok(Val::Bool(holds(*ip))),
        _ => Err(unfit(args)),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn contains_ip<'v>(_: &mut crate::cel::meter::Meter, args: &[Val<'v>]) -> Result<Val<'v>, EvalError> {
    match args {
        [Val::Cidr(cidr), Val::Ip(ip)] => Ok(Val::Bool(cidr.contains(*ip))),
        [Val::Cidr(cidr), Val::Text(text)] => Ok(Val::Bool(cidr.contains(read(text.as_str())?))),
        _ => Err(unfit(args)),
    }
}

fn contains_cidr<'v>(_: &mut crate::cel::meter::Meter, args: &[Val<'v>]) -> Result<Val<'v>, EvalError> {
    let holds = |cidr: &Cidr, other: Cidr| cidr.bits <= other.bits && cidr.contains(other.ip);
    match args {
        [Val::Cidr(cidr), Val::Cidr(other)] => Ok(Val::Bool(holds(cidr, *other))),
        [Val::Cidr(cidr), Val::Text(text)] => Ok(Val::Bool(holds(cidr, range(text.as_str())?))),
        _ => Err(unfit(args)),
    }
}
