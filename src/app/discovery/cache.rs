//! The file of discovered regions: ids, addresses and identities, and no secret. It is replaced whole, so that it is never half written.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::regular;
use crate::base::RegionId;
use crate::config::{DiscoveryConfig, RegionSource, Sighting};
use crate::region::discovery::of_parts;

/// A later form has another number; a file of another form is not used.
const VERSION: u32 = 1;
/// Some 200 regions of 1 KiB each are a fifth of it.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    regions: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    id: RegionId,
    source: String,
    url: String,
    identity: String,
    weight: Option<u32>,
    tags: Vec<String>,
}

/// The content of a file, checked.
#[derive(Debug, Default)]
pub(super) struct Restored {
    pub(super) sightings: Vec<Sighting>,
    /// Why some of it is not used; holds nothing of the file but ids.
    pub(super) ignored: Vec<String>,
}

/// Reads the file; none is as good as an empty one.
///
/// Errors: why nothing of it is used.
pub(super) fn read(path: &Path, config: &DiscoveryConfig) -> Result<Restored, String> {
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > BYTES_MAX {
        return Err("the file is longer than 1 MiB".to_owned());
    }
    let content = parse(&text).map_err(|why| format!("{why}; {}", set_aside(path)))?;
    let mut restored = Restored::default();
    for kept in content.regions {
        let id = kept.id.clone();
        match sighting(kept, config) {
            Ok(seen) => restored.sightings.push(seen),
            Err(why) => restored.ignored.push(format!("{id}: {why}")),
        }
    }
    Ok(restored)
}

fn parse(text: &[u8]) -> Result<Content, String> {
    let content: Content =
        serde_json::from_slice(text).map_err(|_| "the file is damaged, or not one of discovered regions".to_owned())?;
    if content.version != VERSION {
        return Err(format!("the file has form {}, and this program reads form {VERSION}", content.version));
    }
    Ok(content)
}

/// Keeps a file that cannot be used, for the operator or for the program that wrote it.
fn set_aside(path: &Path) -> String {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    match std::fs::rename(path, &name) {
        Ok(()) => "it is kept with `.damaged` behind its name".to_owned(),
        Err(error) => format!("it cannot be renamed: {error}"),
    }
}

fn sighting(kept: Kept, config: &DiscoveryConfig) -> Result<Sighting, &'static str> {
    let source = RegionSource::of_word(&kept.source).filter(|source| config.has(*source));
    let source = source.ok_or("its source is not configured any more")?;
    if kept.identity != config.identity_of(&kept.id) {
        return Err("it had another identity than discovery.identity gives it");
    }
    of_parts(source, kept.id.as_str(), &kept.url, kept.weight, kept.tags).map_err(|error| error.rule)
}

/// The content of the file.
pub(super) fn write(sightings: &[Sighting], config: &DiscoveryConfig) -> Vec<u8> {
    let kept = |seen: &Sighting| Kept {
        id: seen.id.clone(),
        source: seen.source.as_str().to_owned(),
        url: seen.url.text.clone(),
        identity: config.identity_of(&seen.id),
        weight: seen.weight,
        tags: seen.tags.clone(),
    };
    let content = Content { version: VERSION, regions: sightings.iter().map(kept).collect() };
    // Texts and numbers only: it cannot fail.
    serde_json::to_vec_pretty(&content).unwrap_or_default()
}

/// Replaces the file; it is on disk when this returns.
///
/// Errors: those of the operating system, as text.
pub(super) fn store(path: &Path, content: &[u8]) -> Result<(), String> {
    let replace = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = folder.join(name);
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        File::open(folder)?.sync_all()
    };
    replace().map_err(|error: std::io::Error| error.to_string())
}
