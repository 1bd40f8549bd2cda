//! A question on a connection of its own.

use tokio::time::Instant;

use crate::net::pool::{Pool, PoolLimits};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::attempt::{Call, attempt_on},
    state::{Proxy, RegionAnswer, pool_limits, pool_meters},
};

/// Sends a call on a connection of its own.
pub(super) async fn ask_fresh(proxy: &Proxy, index: RegionIndex, mut call: Call) -> Option<RegionAnswer> {
    let metrics = pool_meters(proxy.metrics(index));
    let pool = Pool::new(PoolLimits { idle_max: 0, ..pool_limits(&proxy.shared.config) }, metrics);
    let (tried, _) = attempt_on(proxy, &pool, index, &mut call, Instant::now().into_std(), &[]).await;
    tried.answer
}
