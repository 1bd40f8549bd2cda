//! Several jobs of one call, each with a mark and a pin of its own.

use super::body::{flexible_job, pin, pinned_job};
use super::call::{Call, Sight};
use super::script::{Script, text_of};
use crate::support::IDS;

/// A job, its mark, and the region that it is pinned to.
struct Part {
    text: String,
    mark: u64,
    region: Option<usize>,
}

fn parts(script: &mut Script, first: u64, regions: &[usize]) -> Vec<Part> {
    let count = 1 + script.below(4);
    let mut mark = first;
    let mut parts = Vec::new();
    for _ in 0..count {
        let region = (!script.one_in(3)).then(|| script.pick(regions));
        let text = match region {
            Some(region) => pinned_job(script, mark, region),
            None => flexible_job(script, mark),
        };
        parts.push(Part { text, mark, region });
        mark = script.mark();
    }
    parts
}

fn texts(parts: &[Part]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ")
}

/// A batch or a bulk enqueue whose jobs are pinned here and there; sometimes what stands beside them binds all.
pub fn batch(script: &mut Script, mark: u64) -> Call {
    let parts = parts(script, mark, &[0, 1, 2]);
    let mut members = vec![format!("\"jobs\" : [{}]", texts(&parts))];
    let beside = script.one_in(4).then(|| (script.mark(), script.below(IDS.len())));
    if let Some((mark, region)) = beside {
        let pin = pin(script, region);
        members.push(format!(r#""default_options":{{"metadata":{{{pin},"note":"{}"}}}}"#, text_of(mark)));
    }
    let bulk = script.one_in(2);
    if bulk {
        members.push(format!(r#""atomicity":"{}""#, script.pick(&["atomic", "partial"])));
        if script.one_in(3) {
            members.push(format!(r#""idempotency_key":"k{mark}""#));
        }
    }
    if script.one_in(2) {
        members.reverse();
    }
    let body = format!("{{{}}}", members.join(","));
    let target = if bulk { "/ojs/v1/jobs/bulk" } else { "/ojs/v1/jobs/batch" };
    let call = Call::new(script, mark, Sight::Anyone, ("POST", target), body.into());
    let mut marks: Vec<(u64, Sight)> = parts.iter().map(|part| (part.mark, sight(part.region))).collect();
    if let Some((mark, region)) = beside {
        let contrary = parts.iter().any(|part| part.region.is_some_and(|other| other != region));
        let all = if contrary { Sight::Nobody } else { Sight::Only(region) };
        marks.iter_mut().for_each(|(_, sight)| *sight = all);
        // It is no job, so it is stored nowhere.
        return Call { marks: [marks, vec![(mark, all)]].concat(), is_enqueue: false, ..call };
    }
    Call { marks, ..call }
}

fn sight(region: Option<usize>) -> Sight {
    region.map_or(Sight::Anyone, Sight::Only)
}

/// A workflow or a cron job in several parts: to the one region that all pins agree on, or nowhere.
pub fn workflow(script: &mut Script, mark: u64) -> Call {
    let agreed = [script.below(IDS.len())];
    let regions: &[usize] = if script.one_in(2) { &agreed } else { &[0, 1, 2] };
    let parts = parts(script, mark, regions);
    let (name, texts) = (text_of(mark), texts(&parts));
    let (target, body) = match script.below(4) {
        0 => ("/ojs/v1/workflows", format!(r#"{{"type":"chain","name":"{name}","steps":[{texts}]}}"#)),
        1 => ("/ojs/v1/workflows", format!(r#"{{"steps":[{texts}],"name":"{name}"}}"#)),
        2 => (
            "/ojs/v1/workflows",
            format!(r#"{{"type":"batch","jobs":[{texts}],"callbacks":{{"x":{{"y":[{texts}]}}}}}}"#),
        ),
        _ => (
            "/ojs/v1/cron",
            format!(r#"{{"name":"{name}","expression":"@hourly","job_template":{{"then":[{texts}]}}}}"#),
        ),
    };
    let mut pins: Vec<usize> = parts.iter().filter_map(|part| part.region).collect();
    pins.sort_unstable();
    pins.dedup();
    let all = match pins.as_slice() {
        [] => Sight::Anyone,
        [region] => Sight::Only(*region),
        _ => Sight::Nobody,
    };
    let call = Call::new(script, mark, all, ("POST", target), body.into());
    Call { marks: parts.iter().map(|part| (part.mark, all)).collect(), ..call }
}
