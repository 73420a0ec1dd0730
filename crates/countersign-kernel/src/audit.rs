//! Reading the audit: pages of it, and whether its chain holds.
//!
//! Promise: no page looks at more than [`MAX_AUDIT_SCAN`] records, however few of them its filter lets through, nor holds more bytes than
//! a [`ByteBudget`]; and neither a page nor a walk along the chain holds the store for longer than one batch.

use countersign_core::audit::{AuditEntry, AuditFilter, AuditRecord, BrokenChain, verify};
use countersign_core::bounds::MAX_AUDIT_SCAN;
use countersign_core::digest::Digest;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{ByteBudget, Write};

/// How many records are read from the store at once. A record has at most some kilobytes.
const BATCH: u64 = 250;

/// A part of the audit.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditQuery {
    /// The records to read.
    pub filter: AuditFilter,
    /// The order of reading.
    pub order: AuditOrder,
    /// The number of the record that was looked at last; where nothing is given, the order's own beginning.
    pub from: Option<u64>,
    /// How many records at most.
    pub limit: usize,
}

/// Which way the audit is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditOrder {
    /// From the first record on.
    #[default]
    OldestFirst,
    /// From the last record back.
    NewestFirst,
}

/// A part of the audit, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditPage {
    /// The records, in the order that was asked for.
    pub records: Vec<AuditRecord>,
    /// The number of the last record that was looked at, where there may be more beyond it. A page may be short, or empty, and
    /// still not be the last.
    pub next: Option<u64>,
}

/// The result of verifying the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// How many records follow from one another, from the first.
    pub records: u64,
    /// The hash of the last of them.
    pub head: Digest,
    /// The break after them, if there is one.
    pub broken: Option<BrokenChain>,
}

impl Kernel {
    /// Records something that belongs to no execution and that the gateway itself did.
    pub(crate) async fn record_in_audit(
        &self,
        what: &'static str,
        detail: String,
    ) -> Result<(), GatewayError> {
        let audit = vec![AuditEntry::bare(self.now(), what, None, detail)];
        self.store.commit(Write { audit, ..Write::default() }).await?;
        Ok(())
    }

    pub(crate) async fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, GatewayError> {
        match query.order {
            AuditOrder::OldestFirst => self.audit_forwards(query).await,
            AuditOrder::NewestFirst => self.audit_backwards(query).await,
        }
    }

    async fn audit_forwards(&self, query: &AuditQuery) -> Result<AuditPage, GatewayError> {
        let mut page = PageInTheMaking::new(query, query.from.unwrap_or(0));
        while page.has_room() {
            let wanted = page.batch();
            let records = self.store.audit(page.last, cast(wanted)).await?;
            if records.is_empty() {
                return Ok(AuditPage { records: page.records, next: None });
            }
            page.look_at(records);
        }
        Ok(AuditPage { next: Some(page.last), records: page.records })
    }

    async fn audit_backwards(&self, query: &AuditQuery) -> Result<AuditPage, GatewayError> {
        let newest = self.store.standing().await?.recorded;
        // One past the newest, so that the newest is the first that lies before it.
        let start = query.from.unwrap_or(u64::MAX).min(newest.saturating_add(1));
        let mut page = PageInTheMaking::new(query, start);
        while page.has_room() && page.last > 1 {
            let before = page.last;
            let first = before.saturating_sub(page.batch()).max(1);
            let mut records = self.records_between(first, before).await?;
            records.reverse();
            page.look_at(records);
            if page.has_room() {
                page.pass_over_to(first);
            }
        }
        Ok(AuditPage { next: (page.last > 1).then_some(page.last), records: page.records })
    }

    /// The records from one number up to another. The store may need several reads for them.
    async fn records_between(&self, first: u64, before: u64) -> Result<Vec<AuditRecord>, GatewayError> {
        let (mut records, mut last) = (Vec::new(), first - 1);
        while last + 1 < before {
            let part = self.store.audit(last, cast(before - last - 1)).await?;
            let Some(newest) = part.last() else { break };
            last = newest.seq;
            // Where records are missing, those behind the gap were looked at already.
            records.extend(part.into_iter().filter(|record| record.seq < before));
        }
        Ok(records)
    }

    /// Follows the chain up to the record that is the last when this begins.
    pub(crate) async fn verify_audit(&self) -> Result<ChainReport, GatewayError> {
        let end = self.store.standing().await?.recorded;
        let mut head = (0, Digest::ZERO);
        while head.0 < end {
            let records = self.store.audit(head.0, cast((end - head.0).min(BATCH))).await?;
            // One at a time, so that the last good one is known where the next is not.
            for record in &records {
                head = match verify(head, [record]) {
                    Ok(head) => head,
                    Err(broken) => {
                        return Ok(ChainReport { records: head.0, head: head.1, broken: Some(broken) });
                    }
                };
            }
            if records.is_empty() {
                let broken = BrokenChain { seq: head.0 + 1, problem: "a record is missing" };
                return Ok(ChainReport { records: head.0, head: head.1, broken: Some(broken) });
            }
        }
        Ok(ChainReport { records: head.0, head: head.1, broken: None })
    }
}

/// The records found so far.
struct PageInTheMaking<'q> {
    query: &'q AuditQuery,
    records: Vec<AuditRecord>,
    /// The record that was looked at last.
    last: u64,
    looked_at: u64,
    budget: ByteBudget,
    /// Another record was found that does not belong to this page any more.
    is_full: bool,
}

impl<'q> PageInTheMaking<'q> {
    fn new(query: &'q AuditQuery, last: u64) -> Self {
        Self {
            query,
            records: Vec::new(),
            last,
            looked_at: 0,
            budget: ByteBudget::of_a_part(),
            is_full: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.is_full && self.records.len() < self.query.limit && self.looked_at < MAX_AUDIT_SCAN
    }

    /// How many records to read next: no more than could be wanted.
    fn batch(&self) -> u64 {
        let left = (self.query.limit - self.records.len()) as u64;
        let batch = if self.query.filter.is_open() { left.min(BATCH) } else { BATCH };
        batch.min(MAX_AUDIT_SCAN - self.looked_at)
    }

    /// A number without a record counts as looked at.
    fn pass_over_to(&mut self, first: u64) {
        self.looked_at += self.last - first;
        self.last = first;
    }

    fn look_at(&mut self, records: Vec<AuditRecord>) {
        for record in records {
            if !self.has_room() {
                return;
            }
            let is_admitted = self.query.filter.admits(&record);
            if is_admitted && !self.budget.takes(record.entry.len()) {
                self.is_full = true;
                return;
            }
            (self.last, self.looked_at) = (record.seq, self.looked_at + 1);
            if is_admitted {
                self.records.push(record);
            }
        }
    }
}

fn cast(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
