//! The snapshot of all regions that every decision reads, and the parts of the configuration that decisions read.

mod drill;
mod load;
mod orders;
mod pauses;
mod rules;
mod settings;
mod snapshot;
mod weight_table;

pub use crate::ojs::TENANT_KEY;
pub use drill::{Drill, DrillNumbers};
pub(super) use load::corrected;
pub use load::{Figure, FigureKind, Live, LoadFigures, NoTraffic};
pub(super) use orders::Orders;
pub use pauses::{Paused, Pauses};
pub(super) use rules::Rule;
pub use settings::Settings;
pub(super) use settings::{FramedSettings, NOT_PREFERRED, Tenant};
pub(super) use snapshot::Cache;
pub use snapshot::{RegionView, View};
pub(super) use weight_table::WeightTable;
