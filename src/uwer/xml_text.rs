//! Writes a task in XML, as the document shows it. Spec: UWER §5.

use super::task::Task;
use super::xml::NAMESPACE;

/// The XML of a task. No value needs an escape: their forms have no `<`, `&` or `>`.
#[must_use]
pub fn write_xml(task: &Task) -> String {
    format!(
        r#"<UWER_Task xmlns="{NAMESPACE}">
    <Metadata>
        <WorkflowId>{}</WorkflowId>
        <IdempotencyKey>{}</IdempotencyKey>
        <Priority>{}</Priority>
        <OriginService>{}</OriginService>
    </Metadata>
    <ExecutionStrategy>
        <MaxRetries>{}</MaxRetries>
        <BackoffMultiplier>{}</BackoffMultiplier>
        <TimeoutMs>{}</TimeoutMs>
    </ExecutionStrategy>
    <Payload encoding="b64">{}</Payload>
</UWER_Task>
"#,
        task.workflow_id(),
        task.key(),
        task.priority().as_str(),
        task.origin(),
        task.max_retries(),
        task.backoff(),
        task.timeout_ms(),
        task.payload(),
    )
}
