//! From a batch to the bodies that are sent: the client's bytes, with stamps between them and jobs left out.

use super::Batch;
use crate::ojs::stamp::Splices;

impl Batch<'_> {
    /// The whole batch, each job stamped.
    ///
    /// Shape: `stamps` has one entry a job, in their order. Every byte of the client's is kept.
    #[must_use]
    pub fn whole(&self, stamps: &mut [Splices]) -> Vec<u8> {
        let bytes = self.text.as_bytes();
        let growth: usize = stamps.iter().map(Splices::growth).sum();
        let mut body = Vec::with_capacity(bytes.len() + growth);
        let mut from = 0;
        for (job, stamps) in self.jobs.iter().zip(stamps) {
            let span = job.envelope.span();
            body.extend_from_slice(bytes.get(from..span.start).unwrap_or_default());
            from = span.end;
            stamps.write(bytes, span, &mut body);
        }
        body.extend_from_slice(bytes.get(from..).unwrap_or_default());
        body
    }

    /// The batch with only the jobs at these places, each stamped; what stands beside the jobs is kept byte for byte.
    #[must_use]
    pub fn part(&self, members: &[usize], stamps: &mut [Splices]) -> Vec<u8> {
        let bytes = self.text.as_bytes();
        let (open, close) = (self.array.0 + 1, self.array.1 - 1);
        let mut body = Vec::with_capacity(bytes.len() / 2);
        body.extend_from_slice(bytes.get(..open).unwrap_or_default());
        let mut first = true;
        for &member in members {
            let (Some(job), Some(stamps)) = (self.jobs.get(member), stamps.get_mut(member)) else { continue };
            if !std::mem::take(&mut first) {
                body.push(b',');
            }
            stamps.write(bytes, job.envelope.span(), &mut body);
        }
        body.extend_from_slice(bytes.get(close..).unwrap_or_default());
        body
    }
}
