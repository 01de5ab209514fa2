//! Whose draft memory a request uses.

use crate::refusal::{Refusal, RefusalKind};

/// Namespace of callers without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The draft memory to use. One that a request names is within its tenant's own.
pub(super) fn namespace(
    named: Option<String>,
    tenant: Option<&str>,
    is_allowed: bool,
) -> Result<String, Refusal> {
    match (named, tenant) {
        (None, tenant) => Ok(tenant.unwrap_or(DEFAULT_NAMESPACE).to_owned()),
        (Some(namespace), None) if is_allowed => Ok(namespace),
        (Some(namespace), Some(tenant)) if is_allowed => Ok(format!("{tenant}/{namespace}")),
        (Some(namespace), _) => Err(Refusal::new(
            RefusalKind::PermissionDenied,
            "namespace",
            format!("given {namespace:?}; allowed: only to be absent"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_stays_within_its_tenant() {
        let resolved = |named: Option<&str>, tenant, is_allowed| {
            namespace(named.map(Into::into), tenant, is_allowed).map_err(|error| error.kind)
        };
        assert_eq!(resolved(None, None, false), Ok("default".into()));
        assert_eq!(resolved(None, Some("ann"), true), Ok("ann".into()));
        assert_eq!(
            resolved(Some("bob"), Some("ann"), true),
            Ok("ann/bob".into())
        );
        assert_eq!(resolved(Some("bob"), None, true), Ok("bob".into()));
        assert_eq!(
            resolved(Some("bob"), None, false),
            Err(RefusalKind::PermissionDenied)
        );
    }
}
