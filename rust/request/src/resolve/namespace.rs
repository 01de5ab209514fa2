//! Whose draft memory a request uses.

use crate::refusal::{Refusal, RefusalKind};

/// Namespace of callers without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Whether a request may name the draft memory to use, and whose share of the worker it uses then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It may not.
    Refused,
    /// Clients may. What they name are parts of one tenant, however many there are: the key's, or
    /// without keys that of all callers.
    Parts,
    /// The program itself may: what it names are tenants of its own.
    Tenants,
}

/// The draft memory to use, and whose share of the worker; the namespace's own when absent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) tenant: Option<String>,
}

/// Where a request belongs. A namespace that it names is within its tenant's own.
pub(super) fn place(
    named: Option<String>,
    tenant: Option<&str>,
    naming: Naming,
) -> Result<Place, Refusal> {
    let namespace = match (named, tenant) {
        (None, tenant) => {
            return Ok(Place {
                namespace: tenant.unwrap_or(DEFAULT_NAMESPACE).to_owned(),
                tenant: tenant.map(Into::into),
            });
        }
        (Some(namespace), _) if naming == Naming::Refused => {
            return Err(Refusal::new(
                RefusalKind::PermissionDenied,
                "namespace",
                format!("given {namespace:?}; allowed: only to be absent"),
            ));
        }
        (Some(namespace), None) => namespace,
        (Some(namespace), Some(tenant)) => format!("{tenant}/{namespace}"),
    };
    let shared = (naming == Naming::Parts).then_some(DEFAULT_NAMESPACE);
    Ok(Place {
        namespace,
        tenant: tenant.or(shared).map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_that_clients_name_are_parts_of_one_tenant() {
        let placed = |named: Option<&str>, tenant, naming| {
            let place = place(named.map(Into::into), tenant, naming);
            place
                .map(|place| (place.namespace, place.tenant))
                .map_err(|error| error.kind)
        };
        let expected = |namespace: &str, tenant: Option<&str>| {
            Ok((namespace.to_owned(), tenant.map(ToOwned::to_owned)))
        };
        let (parts, tenants) = (Naming::Parts, Naming::Tenants);
        assert_eq!(
            placed(None, None, Naming::Refused),
            expected("default", None)
        );
        let ann = expected("ann", Some("ann"));
        assert_eq!(placed(None, Some("ann"), parts), ann);
        let bob = expected("ann/bob", Some("ann"));
        assert_eq!(placed(Some("bob"), Some("ann"), parts), bob);
        // Callers without keys share the part of those who name nothing.
        assert_eq!(placed(None, None, parts), expected("default", None));
        let bob = expected("bob", Some("default"));
        assert_eq!(placed(Some("bob"), None, parts), bob);
        assert_eq!(placed(Some("bob"), None, tenants), expected("bob", None));
        assert_eq!(
            placed(Some("bob"), None, Naming::Refused),
            Err(RefusalKind::PermissionDenied)
        );
    }
}
