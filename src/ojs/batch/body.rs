//! From a batch to the bodies that are sent: the client's bytes, with stamps between them and jobs left out.

use super::Batch;
use crate::ojs::envelope::Envelope;
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
            body.extend_from_slice(&bytes[from..span.start]);
            from = span.end;
            stamps.write(bytes, span, &mut body);
        }
        body.extend_from_slice(&bytes[from..]);
        body
    }

    /// The batch with only the jobs at these places, each stamped; the members beside the jobs are kept byte for byte.
    ///
    /// Shape: `stamps` has one entry a member, in their order.
    #[must_use]
    pub fn part(&self, members: &[usize], stamps: &mut [Splices]) -> Vec<u8> {
        let bytes = self.text.as_bytes();
        let (open, close) = (self.array.0 + 1, self.array.1 - 1);
        let jobs: Vec<_> = members.iter().filter_map(|&member| self.jobs.get(member)).collect();
        let length: usize = jobs.iter().map(|job| job.envelope.span().len() + 1).sum();
        let growth: usize = stamps.iter().map(Splices::growth).sum();
        let mut body = Vec::with_capacity(open + length + growth + bytes.len() - close);
        body.extend_from_slice(&bytes[..open]);
        for (place, (job, stamps)) in jobs.iter().zip(stamps).enumerate() {
            if place > 0 {
                body.push(b',');
            }
            stamps.write(bytes, job.envelope.span(), &mut body);
        }
        body.extend_from_slice(&bytes[close..]);
        body
    }

    /// Whether an object holds all the jobs.
    #[must_use]
    pub fn holds_all(&self, envelope: &Envelope<'_>) -> bool {
        let span = envelope.span();
        span.start < self.array.0 && span.end >= self.array.1
    }
}
