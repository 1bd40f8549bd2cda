//! The legacy orchestration UWER.

mod convert;
mod history;
mod ingress;
mod schema;

const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// A task in XML, as the document shows it.
fn task(key: &str) -> String {
    format!(
        r#"<UWER_Task xmlns="http://uwer.internal/schema/v4">
    <Metadata>
        <WorkflowId>1b4e28ba-2fa1-4ad2-883f-0016d3cca427</WorkflowId>
        <IdempotencyKey>{key}</IdempotencyKey>
        <Priority>HIGH</Priority>
        <OriginService>inventory-sync-service</OriginService>
    </Metadata>
    <ExecutionStrategy>
        <MaxRetries>5</MaxRetries>
        <BackoffMultiplier>1.50</BackoffMultiplier>
        <TimeoutMs>30000</TimeoutMs>
    </ExecutionStrategy>
    <Payload encoding="b64">AAECAwQFBgc=</Payload>
</UWER_Task>
"#
    )
}
