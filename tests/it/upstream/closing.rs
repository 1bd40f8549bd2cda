//! How connections end: told to the region where they were idle, and never made where a call's time is over before.

use super::*;

/// What a region shows and what the sidecar trusts, made for this test.
fn tls() -> (TlsAcceptor, ClientTls) {
    let dir = tempfile::tempdir().unwrap();
    let authority = ojs_testbed::Authority::new("servers");
    authority.write_ca(dir.path(), "servers").unwrap();
    let server = authority.server(&["localhost"]);
    let chain = CertificateDer::pem_slice_iter(server.cert_pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(server.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let tls = RegionTls { ca: Some(dir.path().join("servers.ca.pem")), ..RegionTls::default() };
    let client = build(&tls, &TlsFiles::read(&tls).unwrap(), "localhost").unwrap();
    (TlsAcceptor::from(Arc::new(config)), client)
}

#[tokio::test]
async fn idle_connections_are_closed_so_that_the_region_knows_that_nothing_is_missing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (acceptor, client) = tls();
    let asking = async {
        let accept = async || acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let full = PoolLimits { idle_max: 0, ..ROOMY };
        let stale = PoolLimits { idle_timeout: Duration::ZERO, ..ROOMY };
        for (limits, retire) in [(ROOMY, true), (stale, false), (full, false)] {
            let pool = Pool::new(limits, meters());
            let (_, mut wire) = tokio::join!(ask(&pool, address, Some(&client)), answered(accept()));
            if retire {
                pool.retire()
            } else {
                pool.sweep(0)
            }
            // An end without TLS's word for it is an error.
            assert_eq!(wire.rest().await.unwrap(), b"", "{limits:?}");
        }
    };
    LocalSet::new().run_until(Box::pin(asking)).await;
}

#[tokio::test]
async fn a_call_whose_time_is_over_before_there_is_a_connection_was_not_sent() {
    // Nobody answers the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, client) = tls();
    let asking = async {
        let pool = Pool::new(ROOMY, meters());
        let deadline = tokio::time::Instant::now() + Duration::from_millis(1);
        send_until(&pool, address, Some(&client), Outgoing::EMPTY, Some(deadline)).await
    };
    let sent = LocalSet::new().run_until(Box::pin(asking)).await;
    assert!(matches!(sent, Err(SendError::NotSent(NotSent::Dial(DialError::Timeout)))), "{sent:?}");
}
