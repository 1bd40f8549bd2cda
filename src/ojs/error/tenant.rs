//! The errors of tenants and tags of regions.

use super::ErrorDocument;
use crate::base::Reason;

/// Refusals of tenants and tags that a job names.
impl ErrorDocument {
    /// 400: two tenants are named.
    #[must_use]
    pub fn tenants_differ() -> Self {
        Self::new(Reason::TenantsDiffer,
            "`meta.tenant_id` and the headers `X-OJS-Tenant` and `X-OJS-Tenant-Id` must name one tenant, as text; send it in one of \
             them, or the same in all",
        )
        .with("field", "meta.tenant_id")
    }

    /// 400: no region that the job may go to has the tags that it asks for.
    #[must_use]
    pub fn no_region_with_tags() -> Self {
        Self::new(Reason::InvalidFederationMeta,
            "no region that the job may go to has all tags of `ojs.federation.regions_with`; ask for at most four, with commas between, \
             that `GET /v1/federation/regions` shows",
        )
        .with("field", "ojs.federation.regions_with")
        .with("ojs_code", "OJS-1004")
    }
}
