//! Whose draft memory a request uses.

use crate::refusal::{Refusal, RefusalKind};

use sha2::{Digest as _, Sha256};

/// What begins the part of a namespace that a salt makes; no name that is given may contain it.
const SALTED: &str = "salt:";

/// Bytes of a salt's digest in that part: two salts of a tenant never meet, and no one who knows the
/// namespace finds its salt.
const DIGEST_BYTES: usize = 16;

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

/// Where a request belongs. A namespace that it names is within its tenant's own, and its `salt`
/// divides that once more.
pub(super) fn place(
    named: Option<String>,
    salt: Option<&str>,
    tenant: Option<&str>,
    naming: Naming,
) -> Result<Place, Refusal> {
    if let Some(name) = &named
        && name.split('/').any(|part| part.starts_with(SALTED))
    {
        let message = format!("given {name:?}; allowed: no part that begins with {SALTED}");
        return Err(Refusal::invalid("namespace", message));
    }
    let place = unsalted(named, tenant, naming)?;
    let Some(salt) = salt else { return Ok(place) };
    let mut digest = format!("{:x}", Sha256::digest(salt));
    digest.truncate(2 * DIGEST_BYTES);
    Ok(Place {
        namespace: format!("{}/{SALTED}{digest}", place.namespace),
        // A part of what is its own tenant otherwise.
        tenant: place.tenant.or(Some(place.namespace)),
    })
}

fn unsalted(named: Option<String>, tenant: Option<&str>, naming: Naming) -> Result<Place, Refusal> {
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
            let place = place(named.map(Into::into), None, tenant, naming);
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

    #[test]
    fn salts_divide_a_namespace_and_stay_within_its_tenant() {
        let salted = |named: Option<&str>, salt, tenant, naming| {
            place(named.map(Into::into), salt, tenant, naming).unwrap()
        };
        let refused = Naming::Refused;
        let mut seen = std::collections::BTreeSet::new();
        for tenant in [None, Some("ann"), Some("bob")] {
            for salt in [None, Some("x"), Some("y")] {
                let place = salted(None, salt, tenant, refused);
                let owner = tenant.unwrap_or(DEFAULT_NAMESPACE);
                assert_eq!(place.tenant.as_deref().unwrap_or(&place.namespace), owner);
                assert!(!place.namespace.contains('x') && !place.namespace.contains('y'));
                assert!(seen.insert(place.namespace));
            }
        }
        assert!(seen.contains(&salted(None, Some("x"), Some("ann"), refused).namespace));
        let within = salted(Some("part"), Some("x"), Some("ann"), Naming::Parts);
        assert!(within.namespace.starts_with("ann/part/salt:"));
        let own = salted(Some("mine"), Some("x"), None, Naming::Tenants);
        assert_eq!(own.tenant.as_deref(), Some("mine"));
    }

    #[test]
    fn no_name_enters_a_salted_part() {
        for name in ["salt:1", "a/salt:1"] {
            let refused = place(Some(name.into()), None, Some("ann"), Naming::Parts);
            assert_eq!(refused.unwrap_err().kind, RefusalKind::InvalidField);
        }
        assert!(place(Some("a-salt:1".into()), None, None, Naming::Parts).is_ok());
    }
}
